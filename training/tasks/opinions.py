"""What people say of products, places and services they liked or did not like: experiences, verdicts, moods."""

from __future__ import annotations

from typing import NamedTuple

from .sentences import cells


class Experience(NamedTuple):
    """things: what it is about. good, bad: what was experienced, as clauses that stand alone."""

    things: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]


EXPERIENCES = {name: Experience(*map(cells, rows)) for name, *rows in (
    ("goods",
     "kettle|toaster|vacuum|blender|lamp|backpack|jacket|watch|umbrella|office chair|pillow|coffee machine|keyboard|"
     "phone|tablet|camera|printer|tent|bike|drill|mattress|pan|toy|sofa|speaker|charger|sweater|knife|skirt|desk|"
     "suitcase|heater|ventilator|mug|bottle|raincoat|stroller|monitor",
     "it arrived a day early|it works like a charm|it still looks brand new after a year|I use it every single day|"
     "it fits perfectly|I have already ordered a second one|my daughter carries it everywhere|"
     "it was easy to put together|it does exactly what it promises|it survived three moves without a scratch|"
     "it paid for itself within a month|I bought one for each of my sisters|it is sturdy and light|"
     "it saved me hours of work|it feels solid in the hand|even my father can use it|it came beautifully wrapped|"
     "it runs as quietly as a mouse|it looks even better than in the photo|it has never let me down|"
     "the colors are lovely|one charge is enough for a week|getting it ready took ten minutes|"
     "it is the first one that did not break|I wonder how I lived without it|the quality surprised me|"
     "it is comfortable all day long|I would buy it again in a heartbeat|all my friends want one now|"
     "it cost little and does a lot|my husband will not give it back|it kept me dry in the worst storm|"
     "it makes every morning easier|it was worth the wait|it cleans up in seconds",
     "it arrived broken|it died on the third day|it fell apart in my hands|"
     "the handle came off on the first day|I sent it back the same day|it looks nothing like the photo|"
     "parts were missing|it smells of plastic|it never worked properly|I had to throw it away|"
     "it scratched the floor|the zipper tore on day two|it is far too small|the box was empty|"
     "it makes a horrible noise|it leaks everywhere|the screen cracked for no reason|the color washed out at once|"
     "it shrank in the first wash|the manual is full of mistakes|it hurts my back|I regret buying it|"
     "I asked for a refund|it overheats after ten minutes|it is already in the trash|"
     "the battery dies within an hour|they sent me the wrong size twice|I returned it and bought another brand|"
     "it feels cheap and flimsy|it gave me an electric shock|it took six weeks to get here|"
     "it got stuck and never moved again|nothing about it is as described|it rusted after one rain|"
     "it is just collecting dust now"),
    ("lodging",
     "hotel|hostel|guest house|cabin|resort|apartment|bed and breakfast|campsite|motel|holiday home|inn|room",
     "I slept like a baby there|the staff greeted us by name|they upgraded us for free|"
     "the sheets were fresh and soft|we woke up to the sound of the sea|breakfast was a feast|the room was spotless|"
     "our host brought us homemade cake|the view took our breath away|we stayed two nights longer than planned|"
     "everything was within walking distance|they let us check in early|it was quiet all night|"
     "the owner gave us great tips|the shower was hot and strong|we have already booked for next year|"
     "the kids did not want to leave|it felt like home|they looked after us so well|the bed was like a cloud|"
     "we found flowers in the room|the pool was clean and warm|they kept our bags without charge|"
     "nothing was too much trouble for them|we felt welcome from the first minute",
     "there were bugs in the bed|the walls were paper thin|we did not sleep at all|the toilet was blocked|"
     "the room smelled of smoke|there was mold in the shower|nobody was at the reception|they charged us twice|"
     "the heating was broken|the sheets were stained|the music went on until four in the morning|"
     "we found hair in the bath|the room looked nothing like the pictures|they had lost our booking|"
     "the water was ice cold|the carpet was sticky|we left after one night|the window looked onto a wall|"
     "breakfast was dry toast and cold coffee|the lock on the door did not work|"
     "they refused to give us another room|the air conditioning dripped on the bed|the pool was closed and dirty|"
     "the receptionist shouted at my wife|we had to ask three times for towels"),
    ("eating",
     "restaurant|café|pizza place|bakery|bistro|diner|burger bar|sushi place|ice cream shop|pub|canteen|food truck|"
     "steak house|tea room",
     "the waiter remembered our names|we licked our plates clean|the fish melted on the tongue|"
     "they gave us dessert on the house|the soup warmed my soul|I could eat there every day|"
     "the portions are generous|the bread came straight from the oven|my plate was empty in minutes|"
     "the cook came out to greet us|every dish was full of flavor|the kids asked for more|"
     "the coffee is the best in town|I dream of that pasta|we ordered the same again|"
     "they were so kind to our children|the pizza was crisp and full of flavor|the service was quick and cheerful|"
     "the menu has something for everyone|we stayed for hours|I ate far too much and loved every bite|"
     "the steak was cooked to perfection|they even made a vegan plate for me|the cake was gone in seconds|"
     "we got the best table in the house",
     "the waiter forgot us twice|the soup was cold|we waited an hour for a salad|there was a hair in my food|"
     "the meat was raw inside|the fish smelled|I was sick all night|the bill was wrong|the chips were soggy|"
     "my burger was burnt|they brought the wrong order and shrugged|the plates were dirty|the portions are tiny|"
     "the bread was stale|the staff rolled their eyes at us|we left half of it on the plate|"
     "the coffee tasted like water|nobody came to take our order|the table was sticky|it was far too salty|"
     "they charged us for tap water|my pasta was a cold lump|the milk had gone sour|"
     "we walked out before the main course|the pizza tasted like cardboard"),
    ("stories",
     "book|novel|film|series|show|documentary|thriller|comedy|story|cartoon|podcast|movie|biography|poem collection|"
     "audiobook|sequel",
     "I could not put it down|I laughed until I cried|it kept me awake all night in the best way|"
     "the ending gave me goosebumps|I have read it three times|I watched it twice in a row|it moved me to tears|"
     "the characters feel like friends|I did not want it to end|every page is a pleasure|"
     "I was hooked from the first minute|the jokes are really funny|it made me think for days|"
     "the whole family loved it|I lent it to all my friends|time flew by|the actors are brilliant|"
     "I stayed up until three to finish it|the language is beautiful|the twist took my breath away|"
     "I already miss the characters|it deserves every prize|the pictures are stunning|"
     "it is even better the second time|I cannot wait for the next part",
     "I fell asleep after ten minutes|I gave up after two chapters|the jokes fall flat|"
     "I saw the ending coming a mile away|the characters are made of wood|nothing ever happens|it goes on and on|"
     "half of the audience walked out|I kept looking at my watch|the plot makes no sense|it is full of mistakes|"
     "I switched it off|I skipped whole pages|it put me to sleep|the actors looked bored|"
     "the ending ruined everything|I want those two hours back|it is a cheap copy of better ones|"
     "I have rarely been so bored|the story drags|I did not care about anyone in it|the dialogue is painful|"
     "I gave it away half read|it insults the viewer|the sound was awful"),
    ("shows",
     "concert|show|play|festival|party|exhibition|tour|museum|zoo|theme park|match|opera|circus|garden|gig|"
     "city tour|fair|boat trip",
     "the crowd sang along to every word|we danced all night|the children's eyes were shining|I got goosebumps|"
     "we did not notice how time went by|the guide made us laugh the whole way|we clapped until our hands hurt|"
     "the singer gave everything|they played two hours without a break|it was over far too soon|"
     "I have never had so much fun|we came home happy and tired|everybody was smiling|the band was on fire|"
     "the lights were magical|we learned so much|I would go again tomorrow|it was worth every cent|"
     "the atmosphere was electric|we bought tickets for next year right away",
     "we could not see a thing|the sound hurt my ears|they started two hours late|we left before the break|"
     "the band could not play|we stood in line for three hours|the guide read everything from a sheet|"
     "half of it was closed|the children cried|there were no seats|the singer forgot the words|"
     "I have paid less for more|it was over after half an hour|the crowd booed|the toilets were disgusting|"
     "they turned us away at the door|the tickets cost a fortune and we saw nothing|we got lost and nobody helped|"
     "everyone was yawning|the star did not show up"),
    ("service",
     "plumber|bank|dentist|courier|hotline|garage|repair shop|phone company|insurance|hairdresser|cleaning service|"
     "online shop|doctor's office|library|gym|post office|electrician|travel agency|taxi company|support team|"
     "delivery service|vet|internet provider|moving company|painter",
     "they called back within minutes|they refunded me without a question|he fixed it in no time|"
     "she took the time to explain everything|they went out of their way to help|"
     "the problem was solved the same day|they sent a new one for free|he was on time and cleaned up afterwards|"
     "the lady on the phone was so patient|they kept every promise|I felt in good hands|it cost less than expected|"
     "they answered all my questions|she made me laugh while she worked|everything went smoothly|"
     "they apologized and made it right|I would trust them with my house|he did not charge me for the small repair|"
     "they are always friendly|I got an appointment at once|my hair has never looked better|"
     "they delivered on a Sunday|he found the fault right away|I left with a smile|"
     "they treated my dog with so much care",
     "they never called back|I was on hold for an hour|nobody answers my letters|they refuse to refund me|"
     "he made it worse|he came four hours late|they hung up on me|she was rude to my mother|they lost my parcel|"
     "the driver threw it over the fence|I have been waiting for six weeks|they charged me for work they never did|"
     "the leak is back already|they keep sending me from one desk to the next|he left a mess behind|"
     "I had to explain everything five times|they broke the door and denied it|they ignored my complaint|"
     "the bill was twice the estimate|they canceled at the last minute|my haircut is crooked|"
     "I changed to another company|they lied to me|the technician had no idea|he hurt me and did not even say sorry"),
    ("rides",
     "train|bus|flight|taxi|ferry|airline|rental car|trip|ride|tram|cruise|bus line",
     "we arrived ten minutes early|the driver helped with our bags|there was plenty of room for my legs|"
     "the crew was lovely|the seats were soft and clean|it was so smooth that I fell asleep|"
     "they found my lost bag within an hour|it was on time to the minute|the pilot even told jokes|"
     "the ticket was a bargain|the views from the window were stunning|boarding was quick and easy|"
     "the conductor was charming|the children got a free drink|it could not have gone better",
     "we stood the whole way|it was three hours late|they lost my suitcase|the driver was on the phone all the time|"
     "the heating did not work|the seat was wet|we missed our connection because of them|"
     "it was canceled without a word|the toilet was out of order|the driver yelled at an old lady|"
     "it broke down in the middle of nowhere|they overbooked and left us behind|it stank|"
     "I was squeezed in like a sardine|the fare doubled overnight"),
    ("lessons",
     "course|class|teacher|app|game|website|program|workshop|school|lesson|trainer|update|tool|seminar|yoga class",
     "I learned more in a week than in a year|it is so easy to use|my son now loves math|"
     "everything is explained step by step|I passed the test thanks to it|it never crashes|"
     "it found what I needed in seconds|it answers every question|I look forward to it every week|"
     "it keeps getting better|it works without a hitch|there are no ads at all|"
     "I was able to follow from the first day|it made me braver|the levels are clever and fun|"
     "it helps me sleep better|I feel fitter already|everyone gets enough attention|I play it every evening|"
     "it has changed how I work",
     "it crashes all the time|it deleted all my photos|I learned nothing|it is full of ads|"
     "I could not log in for days|the last update broke everything|the teacher read from the book|"
     "it froze at the worst moment|the menus are a maze|it ate my battery|I quit after two lessons|"
     "we were forty people in one room|it keeps asking for money|I still cannot do it|the support page is empty|"
     "it is slow as a snail|it logged me out every five minutes|nobody in the class understood a word|"
     "the levels are all the same|I deleted it after a day"),
    ("life",
     "day|evening|weekend|birthday|walk|morning|holiday|picnic|wedding|game night|visit|week",
     "I have not laughed like that for years|the sun shone all day|I came home with a big smile|"
     "all my friends were there|we had so much fun|it was just what I needed|I am over the moon|"
     "everybody had a good time|I felt completely relaxed|we will talk about it for years|it was a dream come true|"
     "I am so grateful|my heart was full of joy|everything went right|I could have hugged the whole world",
     "everything went wrong|I cried all evening|I have never felt so alone|it rained on us and we argued|"
     "nobody came|I just wanted to go home|it left me with a headache|my wallet was stolen|I was bored to tears|"
     "we fought the whole time|it was nothing but stress|I wish it had never happened|I am sick of it|"
     "it was a complete flop|I felt let down by everyone"),
)}

PARTS = cells("handle|lid|button|cable|strap|wheel|lock|cover|hinge|plug|motor|switch|seam|frame|pocket|display|spring|"
              "pump|zipper|filter|base|grip|belt|dial")
PERSONS = {kind: cells(row) for kind, row in {
    "lodging": "host|owner|receptionist|cleaner|manager|staff|porter|lady at the desk",
    "eating": "waiter|waitress|cook|owner|cashier|barman|staff|manager",
    "shows": "guide|host|singer|staff|man at the door|cashier|crew|team",
    "service": "manager|technician|doctor|man on the phone|lady at the desk|driver|shop assistant|team|nurse|clerk",
    "rides": "driver|pilot|conductor|crew|staff|flight attendant|captain|inspector",
    "lessons": "teacher|trainer|support team|tutor|host|coach|team|lady on the phone",
}.items()}
"""Who one meets there."""
GOOD_EVENTS = {
    "part": cells(
        "the {part} is solid|the {part} works fine|the {part} feels great|the {part} never sticks|"
        "the {part} looks beautiful|the {part} is easy to clean|the {part} still works like new|"
        "the {part} fits tightly|the {part} has held for years|the {part} does its job without a sound|"
        "even the {part} is well made|the {part} is a clever idea"),
    "person": cells(
        "the {person} was {so}{trait}|the {person} was {so}{trait}|the {person} was {trait} and {trait2}|"
        "the {person} smiled at us|the {person} took good care of us|the {person} helped me right away|"
        "the {person} thought of everything|the {person} made us feel at home|the {person} solved my problem|"
        "the {person} went the extra mile|the {person} gave us a discount|the {person} thanked us warmly|"
        "a {trait} {person} helped us|I have never met such a {trait} {person}"),
    "feeling": cells(
        "I was {so}{feeling}|I am {so}{feeling}|we went home {feeling}|it left me {feeling}|"
        "my wife was {so}{feeling}|the children were {so}{feeling}|I felt {so}{feeling}|everybody was {feeling}"),
}
BAD_EVENTS = {
    "part": cells(
        "the {part} broke|the {part} came off|the {part} is loose|the {part} was cracked|the {part} got stuck|"
        "the {part} does not work|the {part} was missing|the {part} tore after a week|the {part} is crooked|"
        "the {part} fell off|the {part} rusted|the {part} does not fit|the {part} was dirty|"
        "the {part} makes a noise|even the {part} is badly made|the {part} gave up within days"),
    "person": cells(
        "the {person} was {so}{trait}|the {person} was {so}{trait}|the {person} was {trait} and {trait2}|"
        "the {person} ignored us|the {person} laughed at us|the {person} did not listen|the {person} forgot us|"
        "the {person} shouted at me|the {person} sent us away|the {person} could not care less|"
        "the {person} blamed me for it|the {person} never said sorry|the {person} cheated us|"
        "an absolutely {trait} {person} made us wait|I have never met such a {trait} {person}"),
    "feeling": cells(
        "I was {so}{feeling}|I am {so}{feeling}|we went home {feeling}|it left me {feeling}|"
        "my wife was {so}{feeling}|the children were {so}{feeling}|I felt {so}{feeling}|everybody was {feeling}"),
}
GOOD_TRAITS = cells("friendly|kind|patient|polite|helpful|cheerful|lovely|professional|quick|charming|funny|"
                    "generous|caring|competent|welcoming|warm|sweet|nice|gentle|skilled")
BAD_TRAITS = cells("rude|unfriendly|impatient|careless|lazy|grumpy|dishonest|slow|clueless|moody|"
                   "cold|nasty|unhelpful|bored|loud|pushy|sloppy|lousy|disrespectful|useless")
GOOD_FEELINGS = cells("happy|delighted|glad|relieved|grateful|proud|excited|amazed|cheerful|thrilled|relaxed|"
                      "comfortable|refreshed|overjoyed|content|pleased|at ease|impressed|safe|inspired")
BAD_FEELINGS = cells("angry|upset|sad|annoyed|disappointed|exhausted|shocked|disgusted|embarrassed|furious|frustrated|"
                     "uncomfortable|bored|miserable|unhappy|cheated|confused|sick|ashamed|insulted")
DEGREES = cells("|||so |very |really |truly |more than a little ")

GOOD_VERDICTS = cells(
    "I love it|I absolutely loved it|we loved every minute|I adore it|I am so glad I found it|I highly recommend it|"
    "I can only recommend it|go and get it|you will love it|we will be back|we will definitely come again|"
    "I am a fan|it exceeded my expectations|it was better than I had hoped|I am more than satisfied|I am thrilled|"
    "I am really impressed|I was pleasantly surprised|no complaints whatsoever|I can't complain|"
    "I have nothing bad to say|it could not be better|a big thank you to everyone|well done|keep it up|full marks|"
    "ten out of ten|five stars are not enough|it was money well spent|what a bargain|what a find|a pure delight|"
    "simply wonderful|an absolute gem|just perfect|nice work|thumbs up|it put a smile on my face|"
    "it made us all happy|I have told all my friends about it|I would choose it again|it was not bad at all|"
    "you can't go wrong with it|I have never been disappointed|I did not regret it for a second|"
    "I was wrong to doubt it|I had my doubts, but they were gone at once|first class from start to finish|"
    "it was a pleasure|I enjoyed it very much|it was great fun|it is worth the price|it is a must|"
    "it beats all the others|I am in love with it|it is my new favorite")
BAD_VERDICTS = cells(
    "I hate it|I really hated it|we hated every minute|I regret it|I deeply regret it|I do not recommend it|"
    "I can only warn you|don't buy it|stay away from it|never again|we will not be back|we will never come again|"
    "I am fed up|it fell short of my expectations|it was worse than I had feared|I am not satisfied at all|"
    "I am furious|I am really annoyed|I was badly disappointed|I have nothing but complaints|"
    "I can't say anything good about it|it could not be worse|shame on them|what were they thinking|"
    "do better next time|no thanks|zero out of ten|one star is too many|it was money down the drain|what a rip-off|"
    "what a scam|a pure waste|simply dreadful|an absolute mess|just awful|poor work|thumbs down|it made me angry|"
    "it spoiled our evening|I have warned all my friends|I would not take it for free|it was not good at all|"
    "I expected much more|I have seen far better|I feel cheated|it let me down|I was wrong to trust them|"
    "I had high hopes, but they were gone at once|a disappointment from start to finish|it was a pain|"
    "I did not enjoy it|it was no fun|it is not worth the price|save your money|all the others are better|"
    "I want my money back|it is useless to me")
