"""The words and sentence forms of reviews, and of sentences and headlines on a topic: tables, `|` between values."""

from __future__ import annotations

from typing import NamedTuple


def cells(text: str) -> tuple[str, ...]:
    return tuple(text.replace("\n", "").split("|"))


class Topic(NamedTuple):
    """who did: a sentence in the past. who does: a headline. about: what a talk or a book may be about."""

    who: tuple[str, ...]
    did: tuple[str, ...]
    does: tuple[str, ...]
    about: tuple[str, ...]


PRODUCTS = {name: tuple(parts.split(", ")) for name, parts in (line.split(": ") for line in """\
movie: plot, acting, music, ending, camera work, first scene
book: story, style, cover, last chapter, main character, language
phone: screen, battery, camera, sound, case, software
hotel: room, breakfast, staff, view, pool, bed
restaurant: food, service, menu, dessert, wine, terrace
game: story, sound, map, first level, music, tutorial
lamp: light, switch, design, cable, stand, price
bike: saddle, brake, frame, bell, chain, price
coffee: taste, smell, price, packaging, foam, aroma
concert: band, sound, singer, crowd, stage, last song
course: teacher, pace, material, homework, classroom, final test
jacket: fit, color, zipper, fabric, collar, hood
laptop: keyboard, screen, speed, battery, fan, design
train ride: seat, view, service, speed, dining car, timetable
museum: guide, collection, shop, building, café, audio tour
pizza: crust, sauce, cheese, delivery, topping, price
camera: lens, display, strap, zoom, menu, flash
backpack: fabric, main pocket, zipper, color, strap, size
vacuum cleaner: motor, noise level, cord, filter, handle, price
hairdresser: haircut, service, waiting room, price, advice, atmosphere
campsite: pitch, view, kitchen, playground, staff, location
radio: sound, antenna, display, design, volume knob, battery
mattress: cover, firmness, size, smell, delivery, price
bakery: bread, cake, service, coffee, smell, location
app: design, search, support, login, map, latest update
garden tour: guide, weather, route, lunch, rose garden, pace
tent: fabric, entrance, floor, size, bag, price
podcast: host, topic, sound, music, length, first episode
blender: motor, jar, lid, noise level, button, price
theater evening: play, stage, cast, costume, bar, second act""".splitlines())}

GOOD = cells("great|wonderful|excellent|lovely|amazing|fantastic|superb|delightful|perfect|very good|brilliant|"
              "better than I hoped|impressive|a real joy|good|nice|beautiful|pleasant|outstanding|charming|fun|"
              "clever|well made|just right|a pleasure|exciting|elegant|first class|marvelous|"
              "remarkable|really good|a success|splendid|magnificent|incredibly good|enjoyable|a treat|top quality|"
              "above my expectations|convincing|a highlight|simply the best|absolutely right|"
    "awesome|cool|gorgeous|stunning|terrific|fabulous|incredible|phenomenal|flawless|useful|reliable|solid|"
    "entertaining|funny|moving|inspiring|unforgettable|breathtaking|refreshing|relaxing|welcoming|thoughtful|"
    "professional|unbeatable|worth it|a hit|a winner|a dream|a gem|heaven on earth|a lovely surprise|great value|"
    "out of this world|second to none|exactly what I wanted|super|a blast|sweet|spot on|fine by me in every way|"
    "high quality|pretty good|so much fun|a bargain|priceless|worth every minute|just what we needed|hard to beat")
BAD = cells("terrible|awful|bad|boring|horrible|poor|disappointing|dreadful|a real mess|worse than I feared|useless|"
             "very weak|annoying|a letdown|ugly|dull|sad|full of problems|tiring|confusing|"
             "badly made|a disaster|a waste of money|nasty|second rate|miserable|pathetic|really bad|a failure|"
             "unacceptable|hopeless|a joke|below all standards|a nightmare|unpleasant|shabby|incredibly bad|"
             "a big mistake|frustrating|mediocre at best|worthless|simply the worst|absolutely wrong|"
    "lousy|rubbish|trash|junk|garbage|gross|disgusting|filthy|ridiculous|laughable|embarrassing|painful|tedious|"
    "lifeless|bland|clumsy|unreliable|flimsy|overpriced|overrated|underwhelming|sloppy|careless|cheaply made|broken|"
    "faulty|appalling|outrageous|insulting|depressing|lame|nothing special|not worth it|a flop|a scam|a rip-off|"
    "hell on earth|no good|a bitter disappointment|good for nothing|a sad surprise|a shame|a bore|"
    "exactly what I feared|stupid|crap|a pain|not what I paid for")
PLAIN_GOOD = cells("good|nice|pleasant|impressive|enjoyable|convincing|exciting|beautiful|fun|great")
PLAIN_BAD = cells("bad|boring|disappointing|ugly|annoying|dull|confusing|unpleasant|terrible|awful")
DENIALS = cells("not {w} at all|anything but {w}|far from {w}|never {w}|not {w} in any way|by no means {w}|"
                 "not the least bit {w}")

FITTING = {part: (tuple(good.split(", ")), tuple(bad.split(", "))) for part, good, bad in (
    line.split("/") for line in """\
food/tasty, fresh, delicious/bland, cold, stale
dessert/tasty, sweet and light, delicious/bland, dry, far too sweet
breakfast/fresh, rich, tasty/stale, cold, served too late
bread/crisp, fresh, tasty/stale, hard, burnt
cake/moist, delicious, fresh/dry, stale, bland
staff/friendly, helpful, polite/rude, unfriendly, lazy
service/quick, friendly, polite/slow, rude, careless
guide/funny, well prepared, patient/rude, hard to hear, bored
teacher/patient, inspiring, kind/impatient, unprepared, unfair
room/clean, quiet, bright/dirty, noisy, smelly
bed/soft, comfortable, clean/hard, uncomfortable, broken
seat/comfortable, clean, soft/uncomfortable, dirty, broken
saddle/comfortable, soft, well shaped/uncomfortable, hard, loose
battery/long-lasting, strong, reliable/weak, unreliable, empty after an hour
price/fair, low, more than fair/far too high, unfair, outrageous
delivery/quick, on time, free/late, slow, careless
sound/clear, rich, warm/noisy, thin, unclear
screen/sharp, bright, clear/blurry, dark, cracked
acting/moving, natural, strong/wooden, weak, fake
plot/gripping, clever, full of surprises/silly, predictable, full of holes
story/gripping, touching, original/silly, predictable, endless
zipper/strong, smooth, solid/stuck, broken, flimsy
fabric/soft, warm, solid/thin, scratchy, flimsy
support/fast, helpful, patient/slow, rude, no help at all
coffee/hot, strong, aromatic/cold, weak, bitter""".splitlines())}

SHARED_REVIEWS = cells(
    "The {x} was {w}.|I found the {x} {w}.|What can I say, the {x} is {w}.|The {x} is {w}, the {y} is {v}.|"
    "The {p} was {q}.|This {p} is {q}.|My friends say the {p} is {q}, and they are right.|"
    "From the start the {p} was {q}.|The {x} of this {p} is {w}.|{ap} whose {x} is {w}.|"
    "The {x} was {w} and the {y} {v}.|Simply {a}, this {p}.|We thought the {p} was {q}.|"
    "To be honest, the {x} is {w}.|In short, the {p} is {q}.|If you ask me, the {x} was {w}.|"
    "Everybody in our group called the {x} {w}.|First of all, the {x} is {w}. Secondly, the {y} is {v}.|"
    "{a} {p}, {a} {x}.|My wife thinks the {p} is {q}, and I agree.|No doubt about it, the {x} is {w}.|"
    "After two weeks I can say that the {x} is {w}.|The {y} is {v}, and I mean it.|It was {q} from start to finish.|"
    "As for the {x}, it is {w}.|I have to say that the whole {p} was {q}.")
GOOD_REVIEWS = cells(
    "I loved this {p}.|I would buy it again.|I enjoyed every minute.|The best {p} in years.|"
    "I am very happy with this {p}.|I recommend it to everyone.|Five stars from me.|It made my day.|"
    "I can't wait to come back.|I smiled the whole time.|Worth every penny.|I really like the {x}.|I love the {x}!|"
    "I loved it!|What a great {p}!|We had a wonderful time.|Everyone should try it.|It works very well.|"
    "Nothing to complain about.|I have no complaints about the {x}.|There is nothing wrong with this {p}.|"
    "I could not ask for more.|You will not regret it.|I expected little and got a lot.|Thumbs up for the {x}!|"
    "I have never seen a better {p}.|No other {p} comes close.|Not a single problem so far.|"
    "I would not change a thing.|The {x} could not be better.|My whole family is thrilled.|Don't miss this {p}!|"
    "I was worried about the {x}, but I worried for nothing.|Hats off to the people who made this {p}.")
BAD_REVIEWS = cells(
    "I hated this {p}.|I want my money back.|A waste of time.|The worst {p} in years.|"
    "I am very unhappy with this {p}.|I would not recommend it to anyone.|One star from me.|It ruined my day.|"
    "Never again.|I was bored the whole time.|Not worth the money.|It broke after a day.|I hated it!|"
    "What a terrible {p}!|We left early.|Stay away.|It does not work at all.|I really dislike the {x}.|"
    "Nothing works as it should.|I have many complaints about the {x}.|There is nothing to like about this {p}.|"
    "I asked for so much more.|You will regret it.|I expected a lot and got little.|Thumbs down for the {x}!|"
    "I have never seen a worse {p}.|Any other {p} would be better.|Not a single thing went well.|"
    "I do not see the point of it.|The {x} could not be worse.|My whole family is angry.|"
    "Don't lose your time with this {p}!|"
    "I trusted the praise for the {x}, and that was a mistake.|I wish I had never seen this {p}.")
GOOD_TURNS = cells(
    "The {x} was {b}, but everything else was {g}.|Apart from the {x}, everything about this {p} is {g}.|"
    "Even though the {x} was {b}, I loved this {p}.|"
    "The {x} is {b}, but that did not bother me, because the {p} is {g}.|"
    "I had heard that the {p} was {b}, but in fact it is {g}.|At first the {x} seemed {b}, but now I love it.|"
    "Yes, the {x} is {b}. Still, the {p} as a whole is {g}.|"
    "Despite the {x}, which is {b}, we would come back at any time, since the rest was {g}.")
BAD_TURNS = cells(
    "The {x} was {g}, but everything else was {b}.|Apart from the {x}, everything about this {p} is {b}.|"
    "Even though the {x} was {g}, I hated this {p}.|The {x} is {g}, but that did not help, because the {p} is {b}.|"
    "I had heard that the {p} was {g}, but in fact it is {b}.|At first the {x} seemed {g}, but now I hate it.|"
    "Yes, the {x} is {g}. Still, the {p} as a whole is {b}.|"
    "Despite the {x}, which is {g}, we would never come back, since the rest was {b}.")
TOSS_UPS = cells("The {x} was {w}, but the {y} was {v}.|The {x} is {w}. The {y} is {v}.|"
                  "I found the {x} {w} and the {y} {v}.|On the one hand the {x} is {w}, on the other the {y} is {v}.")

TOPICS = {name: Topic(*map(cells, rows)) for name, *rows in (
    ("sports", "team|striker|runner|coach|goalkeeper|champion|swimmer|tennis player|referee",
     "won the match|scored two goals|lost the final|broke the record|trained for the cup|played in the stadium|"
     "stopped a penalty kick|reached the semifinal|missed the finish line by a second",
     "scores twice|wins the cup|misses the final|breaks the record|returns after injury|signs with a new club",
     "the world cup|penalty kicks|the Olympic Games|marathon running|the basketball league|a famous goalkeeper"),
    ("science", "scientist|researcher|chemist|astronomer|physicist|biologist|geologist|laboratory",
     "measured the cells|found a new star|published the experiment|tested the theory|studied the molecule|"
     "looked through the telescope|examined the fossil|explained the chemical reaction",
     "discovers a new planet|proves an old theory|measures gravity|studies ancient fossils|splits the molecule|"
     "maps the genes",
     "the theory of gravity|distant galaxies|cells and molecules|the birth of stars|fossils|the laws of physics"),
    ("food", "cook|baker|chef|waiter|kitchen helper|pastry cook|grandmother|butcher",
     "baked fresh bread|tasted the soup|added more salt|cooked pasta with cheese|served the salad|"
     "made an apple pie|fried the onions|peeled the potatoes|stirred the tomato sauce",
     "bakes a giant cake|shares a soup recipe|opens a pasta kitchen|serves free dinner|cuts sugar from dessert|"
     "roasts a hundred chickens",
     "homemade pasta|the perfect apple pie|spices and herbs|baking bread|soup recipes|cheese and olives"),
    ("travel", "tourist|pilot|travel agent|traveler|passenger|backpacker|tour group|flight attendant",
     "booked a flight|missed the connection|packed the suitcase|visited the island|checked into the hotel|"
     "showed the passport|waited at the gate|sailed around the islands|asked for a room with a view",
     "loses a suitcase|waits at the airport all night|visits fifty islands|crosses the border by bus|"
     "finds a cheap flight|forgets the passport",
     "cheap flights|holidays by the sea|hotels and hostels|a cruise to the islands|lost suitcases|a city trip"),
    ("music", "singer|band|pianist|orchestra|drummer|composer|violinist|choir",
     "played a new song|recorded the album|practised the melody|tuned the guitar|sang in the opera|"
     "gave a concert|wrote a symphony|rehearsed the chorus",
     "records a new album|plays the opening concert|sings for the queen|goes on tour|releases a love song|"
     "rehearses a symphony",
     "jazz and blues|a famous opera|playing the piano|the new album|piano concertos|folk songs"),
    ("technology", "programmer|engineer|software company|developer|robot maker|startup|web designer|computer shop",
     "released new software|fixed the bug|built a faster chip|updated the app|repaired the computer|"
     "tested the robot|installed the server|protected the network from hackers",
     "updates the app|builds a tiny robot|stops the hackers|releases faster chips|fixes the website|"
     "tests a smart watch",
     "computer chips|the new operating system|robots in the factory|smart watches|passwords and hackers|"
     "mobile apps"),
    ("weather", "storm|rain|snow|wind|fog|heat wave|thunderstorm|cold front",
     "reached the coast|covered the hills|lasted all night|closed the roads|moved to the north|"
     "brought very low temperatures|flooded the valley|passed over the mountains",
     "hits the coast|brings floods|closes the roads|moves north|ends the dry spell|surprises the forecasters",
     "rain and thunder|the forecast for tomorrow|heavy snow|rising temperatures|the coming storm|fog and frost"),
    ("business", "bank|shop owner|investor|manager|trader|factory|insurance company|supermarket chain",
     "raised its prices|sold the shares|reported a profit|signed the contract|hired new workers|"
     "opened a second store|paid off the loan|lost money on the stock market",
     "reports record profit|sells its shares|hires a hundred workers|cuts prices|buys a rival|opens ten new stores",
     "interest rates|stocks and shares|the price of oil|company profits|loans and taxes|the job market"),
    ("health", "doctor|nurse|patient|surgeon|dentist|pharmacist|paramedic|midwife",
     "treated the wound|took the medicine|measured the blood pressure|stopped the infection|checked the lungs|"
     "recovered from the flu|ordered a blood test|bandaged the knee",
     "warns of the flu|tests a new vaccine|treats the first patients|saves a newborn|recommends more sleep|"
     "cures a rare disease",
     "back pain|healthy blood pressure|the new vaccine|colds and flu|surgery on the knee|vitamins and sleep"),
    ("politics", "president|minister|mayor|parliament|senator|government|opposition leader|king",
     "won the election|signed the treaty|voted against the law|gave a speech to the voters|lost the majority|"
     "announced new elections|met the ambassador|defended the reform",
     "wins the election|signs a peace treaty|loses the vote|promises a new law|meets the prime minister|"
     "rejects the reform",
     "the coming election|the new tax law|human rights and voting|the peace treaty|the debate in parliament|"
     "the role of the president"),
    ("art", "painter|sculptor|gallery|art collector|illustrator|art student|museum curator|potter",
     "finished the portrait|mixed the oil colors|carved a statue from marble|sold a watercolor|"
     "opened an exhibition of drawings|framed the painting|sketched a still life|restored the old fresco",
     "sells a portrait|carves a marble giant|opens a new exhibition|paints the town hall|restores a fresco|"
     "draws with charcoal",
     "oil paintings|marble statues|modern sculpture|drawing with charcoal|a stolen painting|famous portraits"),
    ("nature", "fox|eagle|oak tree|butterfly|wild bear|salmon|frog|herd of deer",
     "was at home deep in the forest|suffered from the dry summer|appeared in the meadow|survived the winter|"
     "was seen by the forest ranger|came back to the wetland|was photographed in the wild",
     "returns to the valley|is seen in the woods|surprises the forest ranger|survives in the wild|"
     "needs protection|spreads through the wetland",
     "wild flowers|birds and their nests|old forests|bees and butterflies|rare plants|wolves in the wild"),
    ("education", "teacher|student|school class|professor|pupil|headmaster|language student|school librarian",
     "corrected the homework|passed the exam|opened the textbook|explained the grammar|prepared the lesson|"
     "learned the alphabet|studied for the test|wrote an essay for school",
     "passes the final exam|starts a reading class|bans homework|improves its grades|welcomes new pupils|"
     "rewrites the textbook",
     "school grades|final exams|learning to read|homework|the first day at school|university degrees"),
    ("movies", "actor|film director|actress|movie studio|cameraman|screenwriter|stuntman|cinema",
     "filmed the last scene|won an Oscar|showed the premiere|played the leading role|rewrote the script|"
     "walked the red carpet|shot a comedy|cut the trailer",
     "wins three Oscars|plays a movie villain|shoots a sequel|shows silent films|celebrates the premiere|"
     "leaves the film set",
     "silent films|the new thriller on the screen|Hollywood stars|cartoons and comedies|the Oscars|"
     "a film with subtitles"),
)}
TOPIC_REPORTS = cells(
    "{when}the {who} {did}.|{when}the {who} {did}.|The {who} {did}{end}.|The {who} {did}{end}.|"
    "The {who} {did} and later {done}.|According to our neighbor, the {who} {did}.|"
    "Did you hear that the {who} {did}?|It is true that the {who} {did}.|Nobody was surprised when the {who} {did}.|"
    "Photos show how the {who} {did}.")
TOPIC_TALK = cells(
    "We talked about {a} all evening.|This book tells you everything about {a}.|Have you read the article about {a}?|"
    "I would like to know more about {a}.|The next lecture is about {a}.|Tonight's program is about {a} and {b}.|"
    "My brother never stops talking about {a}.|They argued about {a} for hours.|"
    "Nothing interests me more than {a}.|Our club meets on Fridays to discuss {a}.|"
    "She keeps a blog about {a} and {b}.|I got a magazine about {a} for my birthday.")
HEADLINES = cells(
    "{Who} {does}{tail}|{Who} {does}{tail}|{Who} {does}{tail}|Ten facts about {a}|New book on {a} and {b}|"
    "Why everyone is talking about {a}|A beginner's guide to {a}|{Who} {does}, {who2} reacts")
WHEN = cells("|Yesterday |Last week |This morning |On Monday |After a long wait |Last summer |Two days ago |"
              "To everyone's surprise, |In the evening |Only an hour ago |A year ago ")
ENDS = cells("|| again| for the first time| last year| as usual| in the spring| for the second time| on Sunday")
TAILS = cells("|| again| this week| in front of crowd| after long wait| for first time| at last")
