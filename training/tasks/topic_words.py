"""What sentences on a topic are about: things, deeds and whole clauses, in everyday words."""

from __future__ import annotations

from typing import NamedTuple

from .sentences import cells


class Matter(NamedTuple):
    """What a topic is made of.

    things: noun phrases. deeds: what anybody may have done, in the past. clauses: they stand alone or after "that".
    """

    things: tuple[str, ...]
    deeds: tuple[str, ...]
    clauses: tuple[str, ...]


MATTERS = {name: Matter(*map(cells, rows)) for name, *rows in (
    ("sports",
     "the match|the goal|the penalty|the referee|the coach|the stadium|the fans|the league table|the championship|"
     "the final score|the trophy|the medal|the race|the sprint|the marathon|the relay|the long jump|the high jump|"
     "the tennis court|the serve|the backhand|the racket|the basketball hoop|the free throw|the home run|"
     "the pitcher|the quarterback|the touchdown|the hockey puck|the ice rink|the boxing ring|the knockout|"
     "the heavyweight title|the golf course|the golf club|the ski slope|the swimming relay|the butterfly stroke|"
     "the cycling tour|the yellow jersey|the team captain|the substitute|the offside rule|the red card|"
     "the yellow card|the warm-up|the training session|the locker room|the play-offs|the semifinal|the underdog|"
     "the Olympic team|the gold medal|the world record|the gymnast|the defender|the midfielder|the rugby team|"
     "the volleyball net|the football pitch|the season opener",
     "scored a goal in the last minute|ran ten kilometers before sunrise|kicked the ball over the bar|"
     "won the race by a second|trained for the marathon|missed the penalty|played tennis twice a week|"
     "signed up for the football team|lost the final in extra time|lifted the trophy|swam fifty laps|"
     "jumped higher than ever before|beat the champion in three sets|cheered for the home team|hit a home run|"
     "crossed the finish line|got a red card|served two aces|threw the javelin|dribbled past three defenders|"
     "watched the match at the stadium|stretched before the run|tied the game|blocked the shot|joined a rowing club",
     "the game went to extra time|the score was two to one at halftime|the goalkeeper saved the penalty|"
     "the crowd roared after the goal|the home side won by three points|the race was decided by a photo finish|"
     "the referee blew the whistle|the coach was sacked after five defeats|the team is at the top of the league|"
     "the striker is out with a knee injury|the match ended in a draw|the runners lined up at the start|"
     "her serve was too strong for the opponent|the champion kept his title|"
     "they need one more point to stay in the league|the players shook hands after the game|"
     "the tournament starts next month|he finished third in the sprint|no one has run a hundred meters faster|"
     "the club bought a young defender|the cyclists climbed the last mountain stage|the boxer went down in round six"),
    ("science",
     "the experiment|the laboratory|the microscope|the telescope|the molecule|the atom|the electron|the nucleus|"
     "the particle|the black hole|the galaxy|the comet|the supernova|the hypothesis|the theory|the equation|"
     "the research paper|the chemical reaction|the acid|the test tube|the periodic table|the DNA sample|the gene|"
     "the chromosome|the enzyme|the protein|the bacteria|the cell membrane|the fossil|the dinosaur skeleton|"
     "the meteorite|the magnetic field|the speed of light|the law of gravity|the big bang|quantum physics|"
     "the theory of evolution|photosynthesis|the orbit of the moon|the space probe|the physicists|the chemists|"
     "the biologists|the astronomers|the measurement|the wavelength|the isotope|the radiation|the vacuum|"
     "the catalyst|the mutation|the tectonic plates|the earth's crust|the solar system|dark matter|the laser beam|"
     "the scientific journal",
     "looked at the cells under the microscope|measured the speed of light|heated the acid in a test tube|"
     "proved the theorem|discovered a new particle|published the results in a journal|"
     "repeated the experiment three times|pointed the telescope at Saturn|calculated the orbit of the comet|"
     "studied the genes of mice|dug up a dinosaur bone|mixed two chemicals|tested the hypothesis|"
     "analyzed the samples in the lab|split the atom|explained how gravity works|counted the electrons|"
     "collected data for the study|dissolved the crystals|decoded the DNA|observed a solar eclipse|"
     "dated the fossils|isolated the enzyme|cooled the gas to a liquid|won a Nobel Prize for physics",
     "water is made of hydrogen and oxygen|the planet has two moons|the experiment confirmed the theory|"
     "light travels faster than sound|the fossils are millions of years old|researchers found a new kind of cell|"
     "the probe sent pictures from Mars|atoms are mostly empty space|the study was published on Tuesday|"
     "the reaction gives off heat|metals expand when they are heated|the star is forty light years away|"
     "the scientists cannot explain the signal|the gene is found in all mammals|"
     "the results must be repeated by another lab|electrons have a negative charge|the earth turns around the sun|"
     "the bacteria doubled every hour|the asteroid will pass close to the earth|the magnet attracts iron|"
     "the universe is expanding|dinosaurs died out long before people appeared"),
    ("food",
     "the recipe|the soup|the stew|the salad|the pasta|the tomato sauce|the garlic|the onions|the olive oil|"
     "the cheese|the butter|the bread dough|the sourdough|the pancakes|the waffles|the cookies|the apple pie|"
     "the chocolate cake|the whipped cream|the ice cream|the fried eggs|the bacon|the steak|the roast chicken|"
     "the grilled fish|the rice|the noodles|the curry|the spices|the pepper|the salt|the sugar|the flour|the oven|"
     "the frying pan|the saucepan|the kitchen knife|the cutting board|the sandwich|the burger|the pizza|the sausage|"
     "the mashed potatoes|the lentils|the beans|the mushrooms|the strawberry jam|the honey|the lemonade|"
     "the breakfast|the lunch|the dessert|the leftovers|the cookbook|the chef|the bakery|the barbecue|the dumplings|"
     "the vegetables",
     "baked a loaf of bread|chopped the onions|boiled the potatoes|fried two eggs|stirred the soup|"
     "added a pinch of salt|kneaded the dough|grilled the fish|ate a bowl of noodles|roasted a chicken|"
     "melted the butter|made pancakes for breakfast|tasted the sauce|squeezed a lemon over the salad|"
     "burned the toast|peeled the carrots|cooked rice with beans|spread jam on the toast|sprinkled cheese on top|"
     "ordered the pasta|whipped the cream|put too much garlic in the stew|tried a new recipe|filled the dumplings|"
     "took the cake out of the oven",
     "the dough has to rest for an hour|the sauce needs more pepper|the cake tastes of lemon and vanilla|"
     "this soup is best with fresh bread|the pasta should cook for nine minutes|dinner smells of garlic and butter|"
     "the chicken is still in the oven|the salad is made with tomatoes and cheese|"
     "the eggs are boiled for five minutes|a little sugar makes the sauce better|the cheese melts on the hot bread|"
     "the meat was tender and juicy|there is honey in the tea|the curry is very spicy|rice goes well with fish|"
     "the bakery sells warm rolls|the recipe calls for two cups of flour|the beans are soaked overnight|"
     "the cookies are crisp on the outside|pancakes are eaten with syrup|the steak was served with fries|"
     "the onions are fried until they are brown"),
    ("travel",
     "the flight|the airport|the boarding pass|the suitcase|the passport|the visa|the luggage|the backpack|"
     "the hotel room|the hostel|the reservation|the tour guide|the travel agency|the itinerary|the sightseeing tour|"
     "the cruise|the ferry|the night train|the train station|the ticket counter|the road trip|the rental car|"
     "the map of the old town|the souvenir|the postcard|the beach resort|the island|the ruins|the castle tour|"
     "the customs officer|the border|the departure gate|the layover|the window seat|the holiday|the campsite|"
     "the check-in|the travel insurance|the tourists|the guidebook|the sleeping bag|the mountain hut|the city trip|"
     "the honeymoon|the jet lag|the round trip|the safari|the package tour|the youth hostel|the coach tour|"
     "the embassy|the local currency|the pilot|the cabin crew|the travel agent|the old harbor|the sunny coast",
     "packed the suitcase|booked a flight|missed the connection|checked into the hotel|flew across the ocean|"
     "walked through the old town with a map|crossed the border by train|lost the passport|"
     "took the ferry to the island|rented a car at the airport|slept in a hostel|sent a postcard from the coast|"
     "traveled around the world|visited the ruins|canceled the reservation|hitchhiked to the sea|"
     "waited four hours at the gate|toured three capitals in a week|stayed in a small hotel by the sea|"
     "exchanged money at the border|changed planes twice|planned a trip through Asia|"
     "spent the holidays on an island|went backpacking for a month|asked a local for the way to the hostel",
     "the plane lands at midnight|our flight was delayed by two hours|the hotel is five minutes from the beach|"
     "the train to the coast leaves at seven|all passengers must show their passports|the luggage never arrived|"
     "the island can only be reached by boat|the old town is full of tourists|the guide showed us the castle|"
     "the next stop is the harbor|we need a visa for that country|the suitcase was too heavy|"
     "the ferry runs twice a day|the airport was crowded|the tour lasts three hours|"
     "the road along the coast is beautiful|boarding starts at gate twelve|there are no rooms left in the hostel|"
     "the holiday begins with a long drive|the cheapest tickets are sold out|the cabin has a view of the sea|"
     "they are on their honeymoon in Italy"),
    ("music",
     "the song|the melody|the chorus|the lyrics|the album|the single|the guitar|the bass|the drums|the piano|"
     "the violin|the cello|the trumpet|the saxophone|the flute|the orchestra|the conductor|the choir|the opera|"
     "the symphony|the string quartet|the concert|the band|the lead singer|the microphone|the rehearsal|"
     "the sheet music|the rhythm|the beat|the chord|the note|the key of C|the tempo|the jazz club|the blues|"
     "the rock festival|the rap song|the folk song|the lullaby|the playlist|the record player|the vinyl record|"
     "the headliner|the encore|the solo|the duet|the tenor|the soprano|the DJ|the music video|the charts|"
     "the recording studio|the amplifier|the harmony|the waltz|the tune",
     "played the guitar|sang in the choir|practiced scales on the piano|recorded a new album|wrote a love song|"
     "tuned the violin|hummed a tune|learned to play the drums|conducted the orchestra|danced to the beat|"
     "listened to jazz|bought a vinyl record|sang an encore|played a trumpet solo|composed a symphony|"
     "joined a rock band|rehearsed for the concert|heard the song on the radio|forgot the lyrics|"
     "strummed a few chords|released a single|whistled the melody|mixed the tracks in the studio|"
     "went on tour with the band|performed a duet",
     "the song stayed in my head for days|the band played for two hours|the singer hit every note|"
     "the piano is out of tune|the chorus is easy to sing along|the album reached number one|"
     "the orchestra began with a slow waltz|the drummer lost the rhythm|the concert was sold out|"
     "her voice filled the opera house|the violin has four strings|the guitar solo lasted three minutes|"
     "the choir rehearses on Thursdays|the new single has a fast beat|this melody is in a minor key|"
     "the tenor sang without a microphone|jazz was born in New Orleans|the fans asked for another song|"
     "the lyrics tell of lost love|the pianist played from memory|the band will release an album in spring|"
     "the bass was too loud"),
    ("technology",
     "the computer|the laptop|the smartphone|the tablet|the app|the software|the update|the operating system|"
     "the keyboard|the touchscreen|the processor|the chip|the hard drive|the memory card|the server|the website|"
     "the browser|the password|the firewall|the virus scanner|the hackers|the cloud storage|the wireless network|"
     "the router|the cable connection|the source code|the programming language|the algorithm|the database|"
     "the artificial intelligence|the chatbot|the robot|the drone|the 3D printer|the smart watch|"
     "the virtual reality headset|the self-driving car|the search engine|the internet|the download|the backup|"
     "the bug|the developer|the programmers|the user interface|the web page|the video call|the satellite navigation|"
     "the USB stick|the printer driver|the graphics card|the electric scooter battery|the sensor|"
     "the machine learning model|the data center|the gadget",
     "installed the update|wrote a computer program|fixed a bug in the code|forgot the password|"
     "restarted the server|built a robot|designed a website|downloaded an app|deleted the files by mistake|"
     "backed up the hard drive|plugged in the router|upgraded the laptop|trained a neural network|coded all night|"
     "unlocked the phone with a fingerprint|printed a part on the 3D printer|launched a new smartphone|"
     "connected the sensors|encrypted the data|clicked on the link|moved the photos to the cloud|reset the tablet|"
     "flew a drone over the roof|programmed the heating by phone|scanned the computer for viruses",
     "the new phone has a faster chip|the website was down all morning|hackers stole millions of passwords|"
     "the app crashes after the update|the battery charges in twenty minutes|the robot can sort parcels|"
     "the software runs on any computer|the internet connection is slow|the car drives itself|"
     "the program contains a serious bug|the laptop has two screens|artificial intelligence can write code|"
     "the server stores all the data|the watch counts your steps|the update is available for download|"
     "the screen can be folded|the company released a new operating system|drones deliver the parcels|"
     "the password must have ten characters|the file is too large to upload|the browser blocks all ads|"
     "the printer has no wireless connection"),
    ("weather",
     "the rain|the drizzle|the downpour|the snow|the snowstorm|the blizzard|the hail|the sleet|the thunder|"
     "the lightning|the thunderstorm|the hurricane|the tornado|the storm|the wind|the breeze|the gusts|the fog|"
     "the mist|the frost|the ice on the roads|the heat wave|the drought|the cold front|the warm front|"
     "the low pressure|the high pressure|the weather forecast|the forecasters|the temperature|the clouds|"
     "the clear sky|the sunshine|the rainbow|the humidity|the rain shower|the flood warning|the monsoon|"
     "the rainy season|the cold spell|the thaw|the icy wind|the storm clouds|the summer heat|the rainfall|"
     "the snowflakes|the black ice|the morning fog|the sunny spells|the storm warning|the barometer|the thermometer|"
     "the weather map|the gray sky|the chilly nights|the freezing cold",
     "got soaked in the rain|heard the thunder|saw a rainbow|shivered in the icy wind|checked the weather forecast|"
     "shoveled the snow|waited for the storm to pass|sweated in the heat wave|slipped on the ice|"
     "watched the lightning|forgot the umbrella in the downpour|measured the rainfall|predicted rain|"
     "warned of strong winds|scraped the frost off the window|walked through thick fog|enjoyed the sunshine|"
     "took shelter from the hail|read the thermometer|complained about the drizzle",
     "it will rain all weekend|the sun comes out in the afternoon|the temperature drops below zero tonight|"
     "snow is expected in the hills|the fog will clear by noon|it was the hottest day of the year|"
     "dark clouds gathered in the west|the wind is getting stronger|the storm knocked down trees|"
     "it has not rained for weeks|tomorrow will be sunny and warm|there was thunder and lightning all night|"
     "the streets are covered with ice|heavy rain caused floods|it is freezing outside|"
     "a cold wind blows from the north|there will be showers in the morning|the heat wave ends on Friday|"
     "the sky is clear and blue|hailstones broke several windows|the hurricane is moving toward the coast|"
     "spring came late and it snowed in April|it gets dark and windy|it will climb to thirty degrees"),
    ("business",
     "the company|the profit|the loss|the shares|the stock market|the stock exchange|the investors|the shareholders|"
     "the merger|the takeover|the startup|the bank loan|the interest rate|the inflation|the budget|the invoice|"
     "the tax return|the sales figures|the quarterly report|the revenue|the turnover|the customers|the competitors|"
     "the market share|the price increase|the contract|the business plan|the board of directors|the chief executive|"
     "the manager|the employees|the wages|the pay rise|the layoffs|the trade union|the strike at the factory|"
     "the factory|the warehouse|the supply chain|the exports|the imports|the retail chain|the advertising campaign|"
     "the brand|the discount|the economy|the recession|the currency|the bond market|the bankruptcy|the accountant|"
     "the insurance company|the real estate market|the oil price|the start of trading|the consumer spending|"
     "the franchise",
     "sold the company|invested in shares|signed the contract|raised the prices|cut two hundred jobs|"
     "opened a second shop|hired new staff|paid back the loan|made a profit|asked the boss for a pay rise|"
     "founded a company|lost money on the stock market|negotiated a lower price|sent the invoice|"
     "bought a competitor|launched an advertising campaign|filed for bankruptcy|presented the sales figures|"
     "closed the factory|borrowed money from the bank|increased the market share|moved production abroad|"
     "doubled the turnover|talked to investors|balanced the books",
     "the shares fell by ten percent|profits rose in the third quarter|the bank raised its interest rates|"
     "the firm will cut a thousand jobs|sales are better than last year|prices have gone up again|"
     "the two companies are going to merge|the market opened higher|investors are worried about inflation|"
     "the shop is closing because of high rents|the workers demand higher wages|"
     "the company has debts of two million|oil is getting more expensive|the customers pay by credit card|"
     "exports fell for the third month|the firm went bankrupt|the dollar lost value|the boss offered him a raise|"
     "the deal is worth a billion|the startup found a new investor|the factory exports cars|"
     "unemployment is at its lowest level"),
    ("health",
     "the doctor|the nurse|the hospital|the surgeon|the operation|the emergency room|the ambulance|the patient|"
     "the diagnosis|the treatment|the therapy|the medicine|the pills|the prescription|the vaccine|the injection|"
     "the flu|the fever|the cough|the sore throat|the headache|the migraine|the stomach ache|the broken leg|"
     "the sprained ankle|the blood test|the blood pressure|the heart attack|the stroke|the diabetes|the allergy|"
     "the asthma|the infection|the antibiotics|the virus outbreak|the cancer screening|the x-ray|the dentist|"
     "the toothache|the filling|the pharmacy|the vitamins|the diet|the calories|the sleep disorder|the stress|"
     "the back pain|the physiotherapist|the wheelchair|the first aid kit|the bandage|the plaster cast|"
     "the intensive care unit|the symptoms|the side effects|the immune system|the cholesterol|the checkup",
     "took a painkiller|broke an arm|caught the flu|saw the doctor about the cough|had a fever for three days|"
     "got a flu shot|measured the blood pressure|went to the dentist|lost ten kilos on a diet|quit smoking|"
     "had an operation on the knee|bandaged the wound|called an ambulance|took antibiotics for a week|"
     "recovered from the illness|suffered from migraines|fainted in the waiting room|swallowed the pills|"
     "donated blood|sprained an ankle|had an x-ray of the hand|sneezed because of an allergy|"
     "prescribed a cough syrup|drank herbal tea for a sore throat|visited a patient in hospital",
     "the patient is in intensive care|smoking damages the lungs|the fever went down overnight|"
     "the vaccine protects against measles|too much sugar is bad for your teeth|the surgeon operated for six hours|"
     "the doctor listened to her heart|the medicine has side effects|his blood pressure is too high|"
     "the wound is healing well|she has been coughing for a week|regular exercise keeps the heart healthy|"
     "the hospital needs more nurses|a good night's sleep lowers stress|the infection is spreading|"
     "the pills must be taken twice a day|the ambulance arrived within minutes|washing your hands prevents disease|"
     "the broken bone was put in plaster|my back hurts when I sit|the dentist pulled out a tooth|"
     "the test shows no sign of cancer"),
    ("politics",
     "the president|the prime minister|the minister|the senator|the mayor|the parliament|the senate|the government|"
     "the opposition|the election|the campaign|the ballot|the polling station|the voters|the vote|the majority|"
     "the coalition|the party leader|the conservatives|the liberals|the democrats|the bill|the law|the constitution|"
     "the reform|the tax reform|the referendum|the treaty|the summit|the ambassador|the sanctions|"
     "the foreign policy|the debate|the speech|the protest march|the demonstrators|the human rights|"
     "the immigration law|the scandal|the resignation|the cabinet|the speaker of the house|the veto|"
     "the opinion poll|the candidate|the swing voters|the city council|the petition|the embassy staff|"
     "the peace talks|the ceasefire|the diplomats|the border policy|the monarchy|the republic|the democracy",
     "voted in the election|ran for president|signed the treaty|gave a speech in parliament|"
     "resigned over the scandal|passed a new law|vetoed the bill|led the opposition|"
     "protested against the government|joined a political party|won the vote by a narrow margin|lost the majority|"
     "negotiated a ceasefire|campaigned in every state|criticized the reform|formed a coalition|"
     "called for new elections|met the foreign minister|counted the ballots|promised lower taxes to the voters|"
     "debated the law all night|signed a petition to the mayor|swore the oath of office|recalled the ambassador|"
     "supported the candidate",
     "the election is too close to call|parliament voted on the new law|the president will speak to the nation|"
     "the minister resigned|the polls open at eight|the opposition calls for new elections|"
     "the senate rejected the bill|thousands marched against the government|the two countries signed a peace treaty|"
     "the voters want a change|the party lost its majority|the candidates met for a debate|"
     "the mayor was elected for a second term|the law bans protests near parliament|the peace talks have failed|"
     "the government has no majority|the court stopped the reform|the council voted for the new budget law|"
     "women got the right to vote|the sanctions stay in force|the coalition broke apart|"
     "the ambassador was called home"),
    ("art",
     "the painting|the portrait|the landscape painting|the still life|the oil paint|the watercolor|the canvas|"
     "the easel|the brush|the palette|the sketch|the drawing|the charcoal|the sculpture|the statue|the marble|"
     "the bronze figure|the clay|the pottery|the ceramics|the mosaic|the fresco|the mural|the graffiti|the gallery|"
     "the art museum|the exhibition|the curator|the art collector|the auction of paintings|the masterpiece|"
     "the forgery|the frame|the abstract painting|the impressionists|the cubists|the Renaissance master|"
     "the self-portrait|the engraving|the woodcut|the print|the collage|the installation|the art critic|"
     "the studio of the painter|the model for the portrait|the brushstrokes|the perspective|the light and shade|"
     "the stained glass|the art school|the sculptor|the illustrator|the cartoonist|the tapestry|the calligraphy",
     "painted a portrait|sketched the harbor in charcoal|carved a figure from wood|mixed the colors on the palette|"
     "visited the gallery|bought a painting at auction|modeled a head in clay|framed the drawing|sold a watercolor|"
     "restored an old fresco|drew a cartoon|sprayed a mural on the wall|exhibited the sculptures|"
     "posed for a painter|collected modern art|took a painting class|cut a stencil|stretched the canvas|"
     "donated a statue to the museum|copied the old masters|signed the canvas|glazed the pottery|"
     "painted with thick brushstrokes|designed a mosaic|opened an exhibition",
     "the painting hangs in the museum|the artist works with clay and bronze|the exhibition shows eighty drawings|"
     "the portrait was sold for a million|the statue stands in the gallery|"
     "the colors are bright and the brushstrokes wide|the painting turned out to be a forgery|"
     "she paints with oil on canvas|the gallery opens a show of young painters|"
     "the sculptor needed three years for the figure|the fresco covers the whole ceiling|"
     "this watercolor shows a harbor|the picture was painted in 1890|the mural brightens the gray wall|"
     "abstract art leaves much to the viewer|the museum bought a lost masterpiece|the drawing is done in pencil|"
     "the impressionists loved light|the critics praised the sculptures|the frame is as old as the picture"),
    ("nature",
     "the forest|the woods|the oak tree|the pine trees|the meadow|the wild flowers|the mushrooms in the forest|"
     "the moss|the fern|the river bank|the wetland|the swamp|the waterfall|the coral reef|the jungle|"
     "the rain forest|the desert fox|the wolf|the wolves|the bear|the deer|the fox|the badger|the hedgehog|"
     "the squirrel|the beaver|the otter|the owl|the eagle|the hawk|the woodpecker|the swallows|the geese|the nest|"
     "the frog|the toad|the snake|the lizard|the butterfly|the caterpillar|the bees|the ants|the beetle|"
     "the spider's web|the dragonfly|the whale|the dolphins|the sharks|the seals|the penguins|the elephants|"
     "the lions|the wildlife|the nature reserve|the national park|the endangered species|the habitat|the seedlings",
     "watched the birds|saw a deer in the forest|spotted a fox in the meadow|planted an oak tree|"
     "listened to the owl|followed the tracks of a wolf|found a bird's nest|counted the butterflies|"
     "picked wild flowers|photographed an eagle|fed the squirrels|protected the wetland|discovered a rare orchid|"
     "heard a woodpecker|climbed an old tree|studied the habits of ants|rescued a hedgehog|"
     "saw dolphins near the shore|identified the mushrooms in the woods|kept bees",
     "the swallows fly south in autumn|the bear sleeps through the winter|the leaves turn red and yellow|"
     "bees carry pollen from flower to flower|the owl hunts at night|wolves live in packs|"
     "the river is home to otters|the oak is three hundred years old|the frogs lay their eggs in the pond|"
     "the whale swims thousands of miles|the birds build their nests in spring|the forest is full of life|"
     "the eagle feeds its young|ants can carry heavy loads|the coral reef is dying|"
     "the deer came to the edge of the forest|elephants live in herds|many species are in danger of dying out|"
     "moss grows on the north side of the tree|the fox has three cubs|the salmon swim up the river|"
     "beavers cut down trees"),
    ("education",
     "the school|the classroom|the teacher|the pupils|the students|the homework|the exam|the test results|"
     "the grades|the report card|the diploma|the degree|the university|the college|the professor|the lecture|"
     "the seminar|the lesson|the textbook|the exercise book|the blackboard|the chalk|the school bell|the timetable|"
     "the school bus|the principal|the kindergarten|the primary school|the high school|the graduation|"
     "the scholarship|the tuition fees|the essay|the thesis|the curriculum|the math lesson|the history lesson|"
     "the spelling test|the vocabulary|the reading class|the study group|the school library|the tutor|"
     "the classmates|the semester|the summer school|the school uniform|the entrance exam|the course for adults|"
     "the campus|the language course|the alphabet|the multiplication table|the school trip|the detention|"
     "the boarding school",
     "passed the exam|failed the math test|did the homework|taught the class to read|studied for the final exam|"
     "learned the vocabulary by heart|graduated from university|corrected the essays|skipped school|"
     "raised a hand in class|got a scholarship|wrote a thesis|attended the lecture|repeated the school year|"
     "applied to three colleges|explained fractions to the pupils|got a good grade in history|forgot the school bag|"
     "took an evening course|copied the homework from a classmate|prepared a lesson|enrolled in a course|"
     "sat in the first row of the classroom|learned the alphabet|read the textbook",
     "the exam lasts three hours|school starts again in September|the pupils learn to write in first grade|"
     "the lecture was hard to follow|the teacher explained the rule twice|the homework is due on Monday|"
     "there are thirty students in the class|the grades were better than last year|"
     "the university offers a new degree|the school needs more teachers|the children learn to read and count|"
     "the bell rings at eight and class begins|the professor gave the students an essay|the course ends with a test|"
     "she teaches math at a high school|the students sat in the library before the finals|tuition is too expensive|"
     "the class wrote a dictation|many pupils have trouble with fractions|"
     "the kindergarten takes children from three years|the diploma is handed out in June|"
     "exams are marked by two teachers"),
    ("movies",
     "the movie|the film|the thriller|the comedy|the horror film|the western|the cartoon|the documentary|"
     "the blockbuster|the sequel|the remake|the trailer|the premiere|the box office|the cinema|the movie theater|"
     "the big screen|the popcorn|the director|the producer|the actor|the actress|the leading role|the villain|"
     "the hero of the film|the stuntman|the extras|the screenplay|the script|the plot twist|the car chase|"
     "the love scene|the opening scene|the closing credits|the special effects|the soundtrack of the film|"
     "the subtitles|the film festival|the red carpet|the Oscar|the film critics|the camera crew|the movie set|"
     "the costume designer|the animation studio|the silent film|the science fiction film|the spy film|the film star|"
     "the movie poster|the close-up|the film adaptation|the series finale|the film archive|the director's cut",
     "watched a movie|filmed a car chase|played the villain|directed a comedy|won an Oscar|"
     "shot the film in ten weeks|auditioned for the leading role|wrote the screenplay|saw the sequel at the cinema|"
     "fell asleep during the film|walked the red carpet|cut the last scene|rented a horror film|"
     "starred in a western|produced a documentary|did all the stunts|showed a silent film|"
     "quoted lines from the film|voiced a cartoon character|cried at the end of the movie|"
     "bought popcorn and cinema tickets|cast an unknown actress|watched the trailer|dubbed the film|"
     "reviewed the new thriller",
     "the film opens in cinemas on Friday|the movie is based on a true story|the actress plays a spy|"
     "the sequel is longer than the first part|the film was shot in black and white|the last scene was cut|"
     "the hero dies at the end of the film|the director is known for his thrillers|the special effects took a year|"
     "the movie won three Oscars|the cinema shows old westerns|the actor did his own stunts|the film has subtitles|"
     "the trailer gives away the ending|the villain escapes in the final scene|"
     "the comedy made millions at the box office|the cartoon is for children and adults|"
     "the stars walked down the red carpet|the story takes place on a spaceship in the film|"
     "the screenplay was written by two sisters|the film lasts almost three hours"),
)}
