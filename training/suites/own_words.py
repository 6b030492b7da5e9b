"""Cases as people write them, in no template of ours: the hardest part of the evaluation.

QUESTIONS is the earlier set. Everything after it was written freely by hand, from the list of the skills and the tables
of `world.py` alone, without a look at the wordings of the generators. None of it is ever trained on, and no generator's
wording is tuned to it.

A line is a row and " / " stands between its fields; an indented line goes on with the row above it. Answers that "must
contain" something are compared without regard to case. In EXTRACT every value is written as the sentence has it, and
ages, quantities and prices (whole dollars) are integers.
"""

from __future__ import annotations

import json


def _rows(text: str) -> list[list[str]]:
    return [row.split(" / ") for row in text.replace("\n    ", " ").splitlines()]


# Question / what the answer must contain: the earlier set.
QUESTIONS: tuple[tuple[str, str], ...] = tuple(
    (question, answer) for question, answer in (row.rsplit(" / ", 1) for row in """\
Paris is the capital of what nation? / France
I'm going to Tokyo next week. What country is that the capital of? / Japan
If I travel to Brazil, which language will I hear? / Portuguese
Hey, quick one: capital of Norway? / Oslo
Which money should I bring to Japan? / yen
In what part of the world is Kenya located? / Africa
What's the name of Italy's capital city? / Rome
Could you remind me which city is the seat of government of Canada? / Ottawa
What language is mostly used by people living in Austria? / German
My kid asks what a baby kangaroo is called. / joey
how do you call a baby sheep / lamb
What do pandas like to eat? / bamboo
Are whales mammals? / Yes
How many legs do spiders have? / eight
Where do penguins live? / sea
What type of animal is a frog exactly? / amphibian
Chemical symbol for gold? / Au
Fe stands for which element? / iron
What is the number of protons in an oxygen atom? / 8
Is helium a noble gas? / Yes
Which planet comes third from the sun? / Earth
Which is the biggest planet of all? / Jupiter
What planet do people call the red planet? / Mars
Who came up with the telephone? / Bell
The light bulb was invented by whom? / Edison
Penicillin: who found it? / Fleming
Which writer gave us Hamlet? / Shakespeare
Who's the author of the book Frankenstein? / Shelley
The opposite of hot is what? / cold
Tell me a word that means the opposite of big. / small
What colour has the sky? / blue
How would a French person say hello? / bonjour
How much is 15 and 27 together? / 42
I have 20 apples and eat 6. How many are left? / 14
add 33 and 12 / 45
What do you get if you take 9 away from 50? / 41
Which number is bigger: 71 or 17? / 71
Where would I find the Eiffel Tower? / France
The Colosseum stands in which country? / Italy
Is Madrid the capital of Portugal? / No""".splitlines()))

# Question about a fact / what the answer must contain.
FACTS: tuple[tuple[str, str], ...] = tuple((question, answer) for question, answer in _rows("""\
what's the capital of Portugal again / Lisbon
We're flying to Warsaw in May. Which country are we going to? / Poland
My pen friend lives in Budapest. Which country is that in? / Hungary
Canberra or Sydney, which one is Australia's capital? / Canberra
I always mix them up: what is the capital city of Turkey, please? / Ankara
Somebody told me that Nairobi is a capital. Of which country? / Kenya
Kyiv belongs to which country? / Ukraine
what do they speak in Egypt / Arabic
My new neighbours are from Iran. What's their mother tongue, most likely? / Persian
Which language should I learn a bit of before moving to Chile? / Spanish
what kind of money do people use in India / rupee
What do Hungarians call their currency? / forint
I found some zloty in an old coat. Which country did I bring them from? / Poland
On what continent would you find Peru? / South America
is Nepal in Asia? / Yes
Where would I have to go to see the Taj Mahal? / India
Our class is planning a hike up to Machu Picchu. What country is it in? / Peru
the cn tower, which country is it in? / Canada
what's a baby deer called / fawn
Our mare is going to give birth soon! What is the word for a newborn horse? / foal
Baby swans have a special name, don't they? What is it? / cygnet
What will a tadpole grow into? / frog
how many legs has an ant got / six
Is a bat a bird or a mammal? / mammal
Which class of animals do crocodiles and snakes belong to? / reptile
What does a koala chew on all day? / eucalyptus
squirrels love to eat what? / nuts
In what sort of landscape do camels live? / desert
Bees fly home in the evening. What do we call the place they live in? / hive
An owl is what sort of animal? / bird
what's the symbol for silver / Ag
Which element does Na stand for? / sodium
In chemistry class I saw the letters Pb. Which metal was that? / lead
What number does gold have in the periodic table? / 79
At room temperature one metal is liquid. Which? / mercury
is neon a metal or a gas? / gas
which planet is the one with the big rings / Saturn
Tell my daughter which planet is closest to the sun, please. / Mercury
And which planet is the farthest out from the sun? / Neptune
second planet counting from the sun? / Venus
Who do we have to thank for the printing press? / Gutenberg
who invented dynamite / Nobel
The saxophone is named after its inventor. What was his first name? / Adolphe
Which scientist do we remember for discovering radium? / Curie
who wrote dracula / Stoker
I'm reading Moby-Dick at the moment. Which author wrote it? / Melville
Whose novel is Oliver Twist? / Dickens
what's the opposite of always / never
I need a word that means the reverse of "remember". / forget
Someone who isn't rich is what? / poor
what colour are flamingos / pink
My crayon should match a lump of coal. Which colour do I take? / black
What colour does an emerald have? / green
I'd love to climb the world's highest mountain one day. What is it called? / Everest
Who set foot on the moon before anybody else? / Armstrong
If today is Monday, what day is it tomorrow? / Tuesday
which ocean is the biggest / Pacific
how do you say hi in Spanish / hola
My boss is from Sweden. What's hello in Swedish? / hej
Konnichiwa means hello in which language? / Japanese"""))

# Addition or subtraction without a story / what the answer must contain.
SUMS: tuple[tuple[str, str], ...] = tuple((question, answer) for question, answer in _rows("""\
what's 347 plus 215 / 562
take 38 away from 91 / 53
Can you add 64 and 29 for me? / 93
812 minus 390, please / 422
I need the total of 156 and 77. / 233
how much is 500 less 123 / 377
Quick, 83 and 48 makes what? / 131
If you start at 700 and go down by 256, where do you end up? / 444
Put 408 and 391 together. / 799
difference between 95 and 47? / 48
what do I get when I add 19 to 234 / 253
Subtract 65 from 310. / 245
999 - 451 is? / 548
Give me the sum of 72 and 88. / 160
What number is 46 more than 375? / 421
What number is 59 below 203? / 144
could you work out 624+187 / 811
90 take away 17 / 73
I have to know what 268 and 345 come to. / 613
how far apart are 842 and 137 / 705"""))

# Problem in two steps / what the answer must contain.
PROBLEMS: tuple[tuple[str, str], ...] = tuple((question, answer) for question, answer in _rows("""\
I bought 3 boxes of crayons with 12 in each, and my sister gave me 5 crayons on top. How many is that altogether? / 41
Tom had 50 dollars, spent 18 on a book and then 7 on lunch. How many dollars are left? / 25
There were 24 kids on the bus. At the first stop 9 got off, at the next one 6 got on. How many kids are on it now? / 21
A muffin costs 4 dollars. We take 7 of them and pay with a 50 dollar note. How much change do we get? / 22
My grandma knits 2 scarves a week. After 6 weeks she gives 5 of them away. How many does she keep? / 7
if 4 friends share 36 cookies equally and one of them eats 3 of hers, how many cookies does she have left / 6
A train has 8 carriages with 40 seats each, and 75 seats are empty. How many seats are taken? / 245
Lena is 12. Her brother is 5 years older, and their mum is twice as old as the brother. How old is mum? / 34
We planted 15 tulips and 20 roses, but the rabbits ate 8 of the flowers. How many flowers are still there? / 27
I read 14 pages on Monday and 21 on Tuesday, and the book has 90. How many pages do I still have to read? / 55
Cinema night: 2 adults at 11 dollars each and a child for 6 dollars. What do we pay in total? / 28
There are 5 shelves with 18 books on each. Someone borrows 13 books. How many stay on the shelves? / 77
A farmer collects 60 eggs, breaks 4 by accident and packs the rest into boxes of 8. How many boxes does he fill? / 7
Mia walks 3 km to school and 3 km back home, 5 days a week. How many km does she walk to school and back in a week? / 30
At nine there were 31 people in the pool. Then 17 more came, and at noon 22 went home. How many were left? / 26
I earn 15 dollars an hour and worked for 6 hours, then I paid 20 dollars for fuel. How much of my pay remains? / 70
So we've got 3 teams of 11 kids coming to the camp, plus 4 coaches. How many people is that? / 37
Paul has 9 marbles and Ana has 4 times as many as him. How many marbles do they have between them? / 45
A rope is 80 metres long. We cut off 35 metres and split the rest into 5 equal pieces.
    How many metres long is each piece? / 9
My phone was at 95 percent in the morning. It lost 40 percent by noon and another 28 percent by the evening.
    What percentage does it show now? / 27
The restaurant has 10 bottles in the cellar and orders 12 boxes with 6 bottles each. How many bottles will it have? / 82
Last year the club had 58 members. 14 left and 25 new ones joined. How many are there now? / 69
4 friends order a pizza for 22 dollars and drinks for 14 dollars. They split the bill evenly.
    How many dollars does each of them pay? / 9
Sara saves 10 dollars a week for 8 weeks, and then her uncle adds 45 dollars. How much money has she got? / 125
The car park has 7 rows with 20 spaces in each row, and 96 cars are parked there. How many spaces are free? / 44"""))

# Review / positive or negative.
REVIEWS: tuple[tuple[str, str], ...] = tuple((review, sentiment) for review, sentiment in _rows("""\
Best pizza I have had in years, we will be back next week. / positive
Waited an hour and the food came cold. Never again. / negative
The zip broke on the second day. / negative
The nurse was so kind that I forgot I was scared. / positive
Could not put this book down, I read it in one night. / positive
Boring from the first page to the last. / negative
They charged me twice and nobody answers the phone. / negative
Works exactly as promised, and the battery lasts for days. / positive
My kids laughed from start to finish. / positive
Our room smelled of smoke and the bed was dirty. / negative
Lovely little hotel, spotless room and a great breakfast. / positive
It stopped working after a week, what a waste of money. / negative
Bought it for my mum and she adores it. / positive
Ten out of ten, would order again! / positive
The waiter was rude and got our order wrong. / negative
I fell asleep halfway through this awful film. / negative
The driver was friendly and we got there early. / positive
honestly the comfiest shoes I own / positive
Way too expensive for such a tiny, tasteless portion. / negative
The app keeps crashing and I lost all my notes. / negative
What a concert, I still have goosebumps. / positive
I wanted to like this phone, but the screen is terrible. / negative
Five stars for the soup, and the bread was heavenly. / positive
My parcel arrived late and the vase inside was smashed. / negative
worst haircut of my life / negative
Setting it up took two minutes and it has never failed me since. / positive
The guide knew everything and made the whole tour fun. / positive
So loud at night that we could not sleep at all. / negative
I was not expecting much, but this film is wonderful. / positive
The instructions make no sense and two screws were missing. Sent it back. / negative"""))

# Sentence / its topic.
HEADLINES: tuple[tuple[str, str], ...] = tuple((sentence, topic) for sentence, topic in _rows("""\
The home side scored twice in the last five minutes and won the cup. / sports
Fry the onions gently, then stir in the tomatoes and a pinch of salt. / food
Heavy rain tonight, with strong winds along the coast by morning. / weather
Shares in the bank rose when it reported a record profit. / business
The choir sang three encores before the audience let them go. / music
Astronomers have spotted a faint star that nobody had seen before. / science
The update makes the phone start faster and fixes a bug in the camera. / technology
Pack a light bag, keep your passport handy and be at the airport two hours early. / travel
Our goalkeeper hurt her knee and will miss the next three matches. / sports
This soup tastes best with fresh bread and a spoonful of cream. / food
After a week of frost the temperature will finally climb above ten degrees. / weather
The company cut its prices after sales had dropped for the third year in a row. / business
Her new album has only a piano, a cello and her own voice on it. / music
Researchers looked at the cells under a microscope and found a new kind of bacteria. / science
Hackers got into the server because the password was far too short. / technology
Tourists love the old town, and most of them stay in small hotels by the harbour. / travel
She ran the marathon in under three hours for the first time. / sports
For dessert there was a warm apple pie with vanilla sauce. / food
Thick fog in the valley should clear by noon, then plenty of sunshine. / weather
Two big supermarket chains plan to merge and close forty shops. / business
The band is looking for a new drummer who can also sing. / music
In a lab experiment, mice that slept longer found their way through the maze more quickly. / science
The new laptop has a bigger screen, a faster chip and twice the memory. / technology
We spent our holiday going from island to island by ferry, with a map and two backpacks. / travel"""))

# Sentence / its language.
LANGUAGES: tuple[tuple[str, str], ...] = tuple((sentence, language) for sentence, language in _rows("""\
Could you pass me the salt, please? / English
Ich habe heute leider keine Zeit. / German
Je n'ai pas encore mangé ce matin. / French
Mañana vamos a la playa con los niños. / Spanish
Stasera mangiamo la pizza a casa di Luca. / Italian
Kannst du bitte das Fenster zumachen? / German
I left my umbrella on the bus this morning. / English
No sé dónde he dejado mis gafas. / Spanish
Où as-tu mis les clés de la voiture ? / French
Non ho capito la domanda, puoi ripetere? / Italian
The children are playing in the garden. / English
Me gusta mucho el café con leche. / Spanish
Der Zug kommt zehn Minuten später. / German
Il gatto dorme sempre sul divano. / Italian
Il fait très beau aujourd'hui. / French
We should call your grandmother tonight. / English
Mi hermano vive cerca de la estación. / Spanish
Nous allons au marché tous les samedis. / French
Wir gehen am Sonntag mit dem Hund spazieren. / German
Domani devo alzarmi molto presto. / Italian
Hoy hace demasiado calor para correr. / Spanish
Meine Tante backt den besten Kuchen. / German
Ma sœur travaille dans un petit café. / French
It has been raining since yesterday. / English"""))

# Passage / question it answers / what the answer must contain / question it does not answer.
PASSAGES: tuple[tuple[str, str, str, str], ...] = tuple((passage, question, answer, absent)
                                                        for passage, question, answer, absent in _rows("""\
Marta Velling runs a small bookshop in Orrenby. She opened it six years ago, after leaving her job at a bank.
    Every Friday evening she reads stories to the children of the village. Her brother built all the shelves.
    / Who built the shelves in the shop? / brother / How many books does the shop have?
The ferry on Lake Tarn leaves Dunmoor at eight in the morning and comes back at five. It carries forty passengers
    and three cars. In winter it does not run at all because of the ice.
    / Why is there no ferry in winter? / ice / What does a ticket for the ferry cost?
Old Mr. Pettigan keeps eleven hens and a goat called Biscuit. The goat once ate a hat during a wedding.
    Since then he ties it to the apple tree. Nobody in Hollowfield minds.
    / What is the name of the goat? / Biscuit / Whose wedding was it?
In the summer the Brack twins worked at their uncle's campsite. Nils cleaned the kitchen and Ida gave swimming
    lessons. They earned enough to buy a used canoe.
    / What did the twins buy with the money? / canoe / How old are the twins?
The town of Selby Ness has a clock that is always ten minutes slow. A mayor had it set that way so that nobody would
    miss the last train. Visitors find it confusing, but the people who live there are proud of it.
    / How many minutes is the clock behind? / ten / In which year was the clock built?
Amara Quill moved from the city to Fenwick Island last spring. She is the only doctor there and visits her patients
    on a red bicycle. At night she likes to paint the sea.
    / How does Amara get to her patients? / bicycle / What is the name of the city that Amara left?
The Harrow Street choir was founded by two bus drivers. Today thirty-four people sing in it, and the youngest is
    fifteen. They practise on Tuesdays in the old fire station. Next month they will sing at the hospital.
    / On what day does the choir practise? / Tuesday / Who conducts the choir?
Bruno Castel bakes bread in Vallorda every night from two to six. His rye loaf won a prize in the capital last year.
    He says that his secret is the water from the village spring.
    / What does Bruno call his secret? / water / Which school did Bruno go to?
When the storm hit Gullhaven, the lighthouse was without power for three hours. Joan Arkley lit a row of oil lamps by
    hand. All the fishing boats came home safely. The next day the fishermen brought her a basket of crabs.
    / What did the fishermen give Joan? / crabs / How many boats were out at sea?
Pia got a telescope for her ninth birthday. The first thing she looked at was the moon, and the second was a cat on
    the roof next door. Now she wants to start an astronomy club at Linden School.
    / What kind of club would Pia like to start? / astronomy / Who gave Pia the telescope?
The river Osk flows past three villages: Tellin, Marrow and Upper Bray. Only Marrow has a bridge. People from the
    other two have to go a long way round to get across.
    / Which village has a bridge? / Marrow / How deep is the river Osk?
Samir's cafe is closed on Mondays because he goes to the market to buy spices. The rest of the week it opens at seven.
    His best seller is a lentil soup. He learned to cook it from his aunt.
    / Who taught Samir to make the soup? / aunt / In what street is the cafe?
Greta Holm has been driving a tram in Nordby for twenty years. She knows most of her passengers by name.
    In December she hangs little stars in the windows. Next year she will travel through Canada with her husband.
    / Where does Greta want to travel? / Canada / What is her husband's job?
One foggy morning a package lay at the gate of Castle Wend. Inside, the guard found a silver key and a note with
    a single word on it. He gave both to the librarian.
    / Who got the key and the note from the guard? / librarian / Who left the package at the gate?
The Pinewood path is fourteen kilometres long and starts behind the church in Aldern. Halfway there is a hut that
    sells tea and cake. Dogs are welcome as long as they are on a lead.
    / Where does the path begin? / church / Who owns the hut?
Last autumn Theo Manning planted garlic, leeks and pumpkins. Snails ate the leeks, and the garlic never came up.
    The pumpkins, however, were so big that he had to move them with a wheelbarrow.
    / Which of the things he planted grew well? / pumpkin / How much did the biggest one weigh?
Nobody in Brindle Bay had a piano until Mrs. Odell arrived with hers on a boat. She now gives lessons to nine pupils.
    One of them, Leo, plays at every wedding in town.
    / Who plays the piano at weddings? / Leo / How old is Mrs. Odell?
The Kestrel Hotel has twenty rooms, and each is named after a bird. Breakfast is served until ten in the glass hall.
    There is no lift, but the staff will gladly carry your bags.
    / What are the rooms named after? / bird / How much is a room per night?
Yusuf repairs old radios in a garage in East Marlow. He never charges children or students. His favourite radio
    is a green one from his grandfather. It still works perfectly.
    / What colour is the radio that Yusuf likes best? / green / How many radios has Yusuf repaired?
On Saturday Clara and her cousin Jonas rowed to Heron Island. They had forgotten their sandwiches at home, so they
    picked blackberries for lunch. A sudden shower soaked them on the way back, but they sang all the way.
    / What did the two of them eat at lunch? / blackberries / How old is Jonas?"""))

# Sentence / the fields in it.
EXTRACT: tuple[tuple[str, dict[str, str | int]], ...] = tuple((sentence, json.loads(wanted))
                                                              for sentence, wanted in _rows("""\
Hi, I'm Nadia, 29, and I work as a vet in Bergen.
    / {"name": "Nadia", "age": 29, "job": "vet", "city": "Bergen"}
Oskar turned 41 last week; he lives in Turin and spends every free minute fishing.
    / {"name": "Oskar", "age": 41, "city": "Turin", "hobby": "fishing"}
Our new plumber is called Ray and he's 36. / {"name": "Ray", "age": 36, "job": "plumber"}
Have you met Ines? She loves chess and has just moved to Leeds. / {"name": "Ines", "city": "Leeds", "hobby": "chess"}
Walter, 67, is still working as a tailor. / {"name": "Walter", "age": 67, "job": "tailor"}
If you ever come to Lyon, ask for Chloe, the best baker in town. / {"name": "Chloe", "job": "baker", "city": "Lyon"}
All that 18-year-old Priya talks about is yoga. / {"name": "Priya", "age": 18, "hobby": "yoga"}
My dentist is called Hugo; when he isn't working he goes sailing.
    / {"name": "Hugo", "job": "dentist", "hobby": "sailing"}
The caller gave her name as Rosa, said that she was 52 and that she lived in Porto.
    / {"name": "Rosa", "age": 52, "city": "Porto"}
Felix here, 23, a cook from Dresden with a passion for climbing.
    / {"name": "Felix", "age": 23, "job": "cook", "city": "Dresden", "hobby": "climbing"}
Please send 4 lamps to Julia Brandt. / {"item": "lamps", "quantity": 4, "customer": "Julia Brandt"}
Dana here, I'd like to order 2 blankets, the ones for 35 dollars.
    / {"item": "blankets", "quantity": 2, "price": 35, "customer": "Dana"}
Kenji just picked up the 12 notebooks he had ordered. / {"item": "notebooks", "quantity": 12, "customer": "Kenji"}
The bill for Olga says 1 bicycle, 240 dollars.
    / {"item": "bicycle", "quantity": 1, "price": 240, "customer": "Olga"}
We need 30 chairs by Monday and can pay 15 dollars for each. / {"item": "chairs", "quantity": 30, "price": 15}
Sold 6 mugs at 8 dollars a piece to a lady called Teresa.
    / {"item": "mugs", "quantity": 6, "price": 8, "customer": "Teresa"}
Amir changed his mind and now wants 5 candles instead. / {"item": "candles", "quantity": 5, "customer": "Amir"}
A backpack for 59 dollars, that was all Lucy wanted. / {"item": "backpack", "price": 59, "customer": "Lucy"}
Put me down for 10 tickets, 18 dollars each, under the name Morgan.
    / {"item": "tickets", "quantity": 10, "price": 18, "customer": "Morgan"}
Just the 1 umbrella for Pavel today. / {"item": "umbrella", "quantity": 1, "customer": "Pavel"}"""))

# What the user tells / what the user asks later / what the answer must contain.
MEMORY: tuple[tuple[str, str, str], ...] = tuple((told, asked, answer) for told, asked, answer in _rows("""\
My sister's name is Paula and she is a pilot. / What does my sister do for a living? / pilot
I parked the car on level 4, next to the lift. / On which level did I leave the car? / 4
Please call me Captain, that's what everybody does. / So what should you call me? / Captain
I can't eat nuts, they make me ill. / Remind me, which food do I have to avoid? / nuts
We are meeting Greg at the museum at three. / Where are we meeting Greg? / museum
Turquoise is my favourite colour, I even painted my door that way. / Which colour do I like best? / turquoise
the wifi password is bluefish / what was the wifi password again? / bluefish
I've just moved from Madrid to Oslo. / Which city do I live in now? / Oslo
My dog is called Pepper and my cat is called Salt. / What's my cat's name? / Salt
I'm 34, by the way. / How old did I say I was? / 34
The party is on Friday, not on Saturday as we first thought. / What day is the party? / Friday
I have two boys, Max and Eli. Max is the older one. / Which of my sons is older? / Max
I play the violin in a small orchestra. / Do you remember which instrument I play? / violin
Tonight we're all having dinner at Rita's place. / At whose place is the dinner? / Rita
I hid the birthday present under the stairs. / Where did I hide the present? / stairs"""))
