"""The words and sentence forms of everyday sentences and messages that are told apart by form, tone or purpose."""

from __future__ import annotations

from .sentences import cells

DEEDS = tuple(tuple(row.split("/")) for row in """\
open/opens/opened/the window
close/closes/closed/the shop
paint/paints/painted/the fence
clean/cleans/cleaned/the kitchen
wash/washes/washed/the dishes
repair/repairs/repaired/the bike
cook/cooks/cooked/dinner
buy/buys/bought/the tickets
sell/sells/sold/the old car
find/finds/found/the key
bring/brings/brought/the blankets
visit/visits/visited/the museum
call/calls/called/the office
plant/plants/planted/the roses
carry/carries/carried/the boxes
count/counts/counted/the chairs
finish/finishes/finished/the report
learn/learns/learned/the song
order/orders/ordered/the pizza
pack/packs/packed/the suitcase
collect/collects/collected/the letters
fix/fixes/fixed/the roof
feed/feeds/fed/the ducks
water/waters/watered/the garden
answer/answers/answered/the phone
write/writes/wrote/the invitations
move/moves/moved/the table
use/uses/used/the new machine
need/needs/needed/the ladder
check/checks/checked/the list
prepare/prepares/prepared/the lesson
bake/bakes/baked/the bread""".splitlines())
SUBJECTS = cells("the baker|my sister|our neighbor|the teacher|his uncle|the old man|her friend|the nurse|my father|"
                 "the gardener|the new boss|their son")
AGO = cells("| yesterday| last week| an hour ago| on Monday| last night| two years ago")
OFTEN = cells("| every day| every morning| on most days| once a week| in winter| at eight o'clock")
LATER = cells("| tomorrow| next week| soon| tonight| in an hour| next summer")
DEED_FRAMES = {
    "question": cells("Does {w} {do} {o}{often}?|Did {w} {do} {o}{ago}?|When does {w} {do} {o}?|"
                      "Why did {w} {do} {o}{ago}?|"
                      "Will {w} {do} {o}{later}?|Who {did} {o}{ago}?|Can {w} {do} {o}{later}?|Where did {w} {do} {o}?|"
                      "How often does {w} {do} {o}?|Should {w} {do} {o}{later}?"),
    "statement": cells("{w} {does} {o}{often}.|{w} {did} {o}{ago}.|{w} will {do} {o}{later}.|{w} can {do} {o}{later}.|"
                       "I know that {w} {did} {o}{ago}.|It is said that {w} {does} {o}{often}.|"
                       "{w} did not {do} {o}{ago}.|"
                       "{w} never {does} {o}."),
    "request": cells("Please {do} {o}{later}.|{do} {o}, please.|Do not {do} {o}{later}.|{do} {o} before you leave.|"
                     "Please help {w} to {do} {o}{later}.|Let {w} {do} {o}{later}.|Kindly {do} {o}{later}.|"
                     "{do} {o} as soon as you can."),
}
TENSE_FRAMES = {
    "past": cells("{w} {did} {o}{ago}.|{w} {did} {o}{ago}.|{w} did not {do} {o}{ago}.|I saw how {w} {did} {o}{ago}.|"
                  "{w} once {did} {o}.|In those days {w} {did} {o}."),
    "present": cells("{w} {does} {o}{often}.|{w} always {does} {o}.|{w} does not {do} {o}{often}.|"
                     "{w} often {does} {o}.|"
                     "I know how {w} {does} {o}{often}.|These days {w} {does} {o}."),
    "future": cells("{w} will {do} {o}{later}.|{w} is going to {do} {o}{later}.|{w} will not {do} {o}{later}.|"
                    "I think that {w} will {do} {o}{later}.|One day {w} will {do} {o}.|"
                    "From tomorrow on {w} will {do} {o}."),
}

MATTERS = cells("the report|the invoice|the contract|the new schedule|the travel plan|the list of guests|the budget|"
                "the project plan|the price list|the floor plan|the application form|the first draft|the brochure|"
                "the seating plan|the cost estimate|the survey")
SURNAMES = cells("Weber|Moreau|Novak|Silva|Jensen|Rossi|Garcia|Kowalski|Meyer|Andersson|Brown|Tanaka")
HOURS = cells("nine|ten|noon|two|three|half past four|five|six|seven|eight")
DAYS = cells("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
GIFTS = cells("a new phone|a luxury cruise|a gold watch|a sports car|a shopping voucher|a week in paradise|"
              "a brand-new laptop|a cash prize|a free credit card|a diamond ring|a miracle cure|a secret discount")
TROUBLES = cells("the kitchen is on fire|water is running through the ceiling|the server is down and nobody can work|"
                 "my mother has fallen and cannot get up|there is a strong smell of gas|"
                 "someone is breaking into the shop|"
                 "the elevator is stuck with two people in it|the baby has trouble breathing|"
                 "a tree has crashed into the house|"
                 "the brakes of the bus have failed|the patient is losing blood|our data is being stolen|"
                 "a child is locked in the car|the dam is about to break")
TRIFLES = cells("the plants could use some water|the poster hangs a little low|the library book is due next month|"
                "I have an idea for the summer party|the hallway could do with new paint|"
                "the coffee cups are running low|"
                "the newsletter has a small typing error|we might order new chairs|the garden gate squeaks|"
                "I found your blue pen|the old photos need sorting|the calendar for next year has arrived|"
                "the lamp in the attic flickers|someone should dust the shelves")
EVENTS = cells("the picnic|your birthday party|the concert|the team lunch|the hiking trip|the board game night|"
               "the wedding|"
               "the opening of the shop|the dance class|the football match|the boat trip|the barbecue")
GOODS = cells("coffee mugs|wool socks|garden chairs|notebooks|candles|desk lamps|bath towels|sports bags|light bulbs|"
              "wine glasses|picture frames|pillows|umbrellas|lunch boxes|phone cases|flower pots")
COUNTS = cells("two|three|four|five|six|eight|ten|twelve|twenty")
CAUSES = cells("the letter from {n} arrived|{n} opened the door|I saw the result|{n} rang the bell|"
               "I heard the news from {n}|"
               "we got off the train in {c}|{n} called from {c}|I read what {n} had written|{n} told me about {c}|"
               "the plane to {c} took off|we reached the house of {n}|{n} left for {c}")

MESSAGES = {
    "style": {
        "formal": cells("{dear}I am writing to inquire about {m}.|{dear}I would be grateful if you could send me {m}.|"
                        "{dear}we regret to inform you that {m} is not available.|{dear}please find enclosed {m}.|"
                        "{dear}it would be an honor to discuss {m} with you.|"
                        "{dear}kindly confirm that you have received {m}.|"
                        "{dear}should you require {m}, do not hesitate to contact us.|"
                        "{dear}on behalf of our company, I thank you for {m}.|"
                        "We would appreciate your opinion on {m}. Yours sincerely, {s}|"
                        "I hereby request {m}. With kind regards, {s}|"
                        "Allow me to draw your attention to {m}. Sincerely, {s}|"
                        "Ms. {s} has asked me to provide you with {m}. Yours faithfully, {n}"),
        "casual": cells("hey {n}, where's {m}?|Yo {n}, can you grab {m} for me?|gonna need {m} soon, ok {n}?|"
                        "lol {n}, I totally forgot {m}|Wanna look at {m} later, {n}?|Dude, {m} is so cool!! Tell {n}|"
                        "Thx for {m}, {n}, you rock!|No worries about {m}, mate. {n} has got it.|"
                        "Hiya {n}, got {m} yet?|"
                        "oops, kinda lost {m} again, sorry {n}|{n}!! guess who's got {m}, haha|"
                        "dunno about {m}, just ask {n}. see ya!"),
    },
    "kind": {
        "spam": cells("Congratulations {n}! You have won {g}. Click here to claim it now.|"
                      "You were chosen to receive {g}, absolutely free!|Act now, {n}, and get {g} at no cost!|"
                      "Last chance! Send us your bank details and {g} is yours.|Make {k} dollars a day from home, {n}!|"
                      "Pay only {k} dollars today and get {g} for free. Limited offer!|"
                      "Dear winner, to receive {g} just pay a small fee of {k} dollars.|"
                      "{n}, you have inherited {k} dollars. Reply with your password.|WIN {g}!!! Click the link, {n}!|"
                      "Lose weight in {q} days or get {k} dollars back. Order now!|"
                      "Cheap pills, {k} pieces, no prescription. And {g} on top!|"
                      "{n}, only you get this secret offer, {g} for {k} dollars!!!"),
        "normal": cells("Hi {n}, the meeting about {m} starts at {h}.|Can you send me {m} by {d}, {n}?|"
                        "Thanks for {m}, {n}. See you on {d}.|{n}, dinner is at {h} on {d}.|"
                        "I left {m} on your desk, {n}.|"
                        "Shall we talk about {m} on {d} at {h}?|{n} and I will be home around {h}.|"
                        "I have a question about {m}. Are you free on {d}?|Please bring {m} to the office on {d}, {n}.|"
                        "The train arrives at {h}. Can {n} pick me up?|Happy birthday, {n}! I will call you at {h}.|"
                        "Good morning {n}, I paid {k} dollars for the {i} on {d}."),
    },
    "urgency": {
        "high": cells("Please come right now, {n}, {t}!|Help, {n}! {T}.|This cannot wait, {n}. {T}.|"
                      "{T}, send someone at once!|"
                      "Emergency at the house of {n}, {t}!|{n}, drop everything, {t}!|Call {n} immediately, {t}.|"
                      "We need help this minute because {t}. Tell {n}!|{T} and every second counts, {n}!|"
                      "Where are you, {n}? {T}, hurry!"),
        "low": cells("When you have time, {n}, {f}.|No hurry, {n}, but {f}.|Just so you know, {n}, {f}.|"
                     "{F}. Next month is fine, {n}.|It can wait until {d}, but {f}.|A small thing for {n}, {f}.|"
                     "Whenever it suits you, {n}. {F}.|Nothing important, {n}, only that {f}.|"
                     "By the way, {n}, {f}.|{F}. Let us talk about it some day, {n}."),
    },
    "reply": {
        "yes": cells("Yes, I would love to come to {e} on {d}.|Count me in for {e}, {n}!|"
                     "Sure, {n}, {e} on {d} sounds great.|"
                     "I will be there for {e} at {h}.|Of course I am coming to {e}, {n}.|"
                     "Thank you for inviting me to {e}, {n}, I accept with pleasure.|"
                     "{d} suits me fine, so see you at {e}, {n}.|I would not miss {e} for anything, {n}.|"
                     "Great idea, {n}! I am looking forward to {e} on {d}.|"
                     "No problem, {n}, I can make it to {e} at {h}."),
        "no": cells("Sorry, {n}, I cannot make it to {e} on {d}.|I am afraid I am busy during {e}, {n}.|"
                    "Thanks for asking, {n}, but I have to miss {e}.|Unfortunately {e} on {d} does not work for me.|"
                    "I have to work on {d}, so {e} will be without me, {n}.|"
                    "I wish I could come to {e}, {n}, but I am away.|"
                    "Please go to {e} without me, {n}.|{n}, I must say no to {e} this time.|"
                    "At {h} I have to be elsewhere, so I will skip {e}, {n}.|"
                    "I would rather stay home than go to {e}, {n}."),
    },
    "intent": {
        "order": cells("I would like to buy {q} {i}.|Please send {q} {i} to my home in {c}.|"
                       "Can I have {q} {i}, please?|"
                       "Put {q} {i} on my bill and ship them to {c}.|We want to order {q} {i} by {d}.|"
                       "My name is {n} and I need {q} {i} delivered on {d}.|I'll take {q} of the {i}, thank you.|"
                       "Add {q} {i} to my basket and check out."),
        "cancellation": cells("Please cancel my order of {q} {i}.|I no longer want the {q} {i} that I ordered.|"
                              "Do not send the {i} to {c}, I have changed my mind.|"
                              "I take back my order for {q} {i} from {d}.|"
                              "My name is {n} and I wish to call off the delivery of {q} {i}.|"
                              "Stop my order, I don't need the {q} {i} any more.|"
                              "Is it too late to cancel the {q} {i} that I ordered on {d}?|"
                              "The {q} {i} for {n} are not needed after all, so cancel them."),
        "complaint": cells("The {q} {i} arrived broken.|I am very angry, the {i} fell apart after a day.|"
                           "You sent me the wrong {i} on {d}.|Some of the {i} were dirty, which is not acceptable.|"
                           "This is {n} from {c}, and your {i} are of terrible quality.|"
                           "I paid for {q} {i} and got an empty box.|I have been waiting for my {q} {i} for weeks!|"
                           "Your driver was rude when he brought the {i} to {c} on {d}."),
        "question": cells("Do the {i} come in blue?|How much do {q} {i} cost?|"
                          "How long does it take to ship {i} to {c}?|"
                          "Are the {i} made in {c}?|Which of your {i} would you recommend to {n}?|"
                          "What size are the {i}?|Is there a discount on {q} {i}?|Will you have {i} in stock on {d}?"),
    },
    "emotion": {
        "joy": cells("I jumped for joy when {x}.|What a happy moment when {x}!|I could not stop smiling after {x}.|"
                     "I was so glad when {x}.|My heart danced as {x}.|I laughed with delight when {x}.|"
                     "Never have I been happier than when {x}.|I was over the moon because {x}."),
        "sadness": cells("I cried for hours after {x}.|My heart was heavy when {x}.|Tears ran down my face as {x}.|"
                         "I felt so lonely after {x}.|I was deeply sad when {x}.|I have been grieving since {x}.|"
                         "All I could do was weep when {x}.|I was heartbroken because {x}."),
        "anger": cells("I was furious when {x}.|I slammed my fist on the table when {x}.|"
                       "How dare they! {X} and I am outraged.|"
                       "My blood boiled as {x}.|I shouted with rage when {x}.|I am still mad because {x}.|"
                       "I lost my temper after {x}.|It makes me so angry that {x}."),
        "fear": cells("My hands were shaking with fear when {x}.|I was terrified when {x}.|I froze in horror as {x}.|"
                      "I have been afraid to sleep since {x}.|I screamed in panic when {x}.|"
                      "I was scared to death because {x}.|"
                      "A cold dread came over me after {x}.|I hid under the bed, frightened, when {x}."),
    },
}

WORDS = {
    "color": cells("red|blue|green|yellow|purple|pink|brown|black|white|gray|violet|turquoise"),
    "fruit": cells("apple|banana|cherry|grape|lemon|mango|peach|pear|plum|strawberry|melon|pineapple"),
    "vegetable": cells("carrot|potato|onion|cabbage|spinach|cucumber|lettuce|pumpkin|broccoli|celery|radish|"
                       "cauliflower"),
    "drink": cells("tea|milk|water|lemonade|wine|beer|cocoa|cider|juice|whiskey"),
    "clothing": cells("shirt|coat|jacket|hat|scarf|glove|sock|skirt|dress|sweater|trousers|blouse"),
    "furniture": cells("table|chair|bed|sofa|shelf|desk|wardrobe|bench|stool|cupboard|armchair"),
    "instrument": cells("piano|violin|guitar|flute|drum|trumpet|harp|cello|saxophone|clarinet|accordion"),
    "vehicle": cells("car|bus|train|truck|tram|bicycle|ship|airplane|helicopter|motorcycle|ferry|tractor"),
    "body part": cells("arm|leg|hand|foot|head|knee|elbow|shoulder|nose|ear|finger|neck"),
    "tool": cells("hammer|saw|screwdriver|drill|shovel|rake|pliers|axe|wrench|chisel|ladder"),
    "relative": cells("mother|father|sister|brother|aunt|uncle|cousin|grandmother|grandfather|nephew|niece|daughter"),
    "sport": cells("tennis|football|swimming|skiing|boxing|hockey|golf|rowing|cycling|basketball|volleyball|judo"),
    "building": cells("church|school|castle|hospital|museum|tower|station|bakery|library|factory|barn|temple"),
}
