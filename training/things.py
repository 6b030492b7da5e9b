"""Facts about everyday things, words, people and their works, as plain tables. General knowledge; no phrasing."""

from __future__ import annotations


def _pairs(text: str) -> dict[str, str]:
    """Rows `left/right; left/right`."""
    return dict(row.split("/") for row in text.replace(";\n", "; ").split("; "))


INVENTORS = _pairs("""\
the telephone/Alexander Graham Bell; the light bulb/Thomas Edison; the World Wide Web/Tim Berners-Lee;
dynamite/Alfred Nobel; the radio/Guglielmo Marconi; the printing press/Johannes Gutenberg;
the electric battery/Alessandro Volta; the lightning rod/Benjamin Franklin; the diesel engine/Rudolf Diesel;
the motor car/Karl Benz; the airship/Ferdinand von Zeppelin; the saxophone/Adolphe Sax;
the first vaccine/Edward Jenner; the hot air balloon/the Montgolfier brothers; the airplane/the Wright brothers;
the Rubik's Cube/Ernő Rubik; the mercury thermometer/Daniel Fahrenheit; the Braille alphabet/Louis Braille;
the Morse code/Samuel Morse; the safety razor/King Camp Gillette; the analytical engine/Charles Babbage;
the cinema camera/the Lumière brothers; the television/John Logie Baird; the ballpoint pen/László Bíró;
the jet engine/Frank Whittle; the telescope/Hans Lippershey; the stethoscope/René Laennec;
the mercury barometer/Evangelista Torricelli; the cotton gin/Eli Whitney; the Ferris wheel/George Ferris;
the Geiger counter/Hans Geiger; the theremin/Leon Theremin; the polio vaccine/Jonas Salk;
the rabies vaccine/Louis Pasteur; the vacuum flask/James Dewar; the lawn mower/Edwin Budding;
the language Esperanto/L. L. Zamenhof; the programming language Python/Guido van Rossum;
the Linux kernel/Linus Torvalds; Lego/Ole Kirk Christiansen""")

DISCOVERERS = _pairs("""\
penicillin/Alexander Fleming; radium/Marie Curie; X-rays/Wilhelm Röntgen; the law of gravity/Isaac Newton;
the theory of relativity/Albert Einstein; the electron/J. J. Thomson; the moons of Jupiter/Galileo Galilei;
the laws of inheritance/Gregor Mendel; evolution by natural selection/Charles Darwin;
the planet Uranus/William Herschel; oxygen/Joseph Priestley; hydrogen/Henry Cavendish; the neutron/James Chadwick;
the atomic nucleus/Ernest Rutherford; the dwarf planet Pluto/Clyde Tombaugh; the blood groups/Karl Landsteiner;
insulin/Frederick Banting; the circulation of the blood/William Harvey; the laws of planetary motion/Johannes Kepler;
radioactivity/Henri Becquerel; the periodic table/Dmitri Mendeleev; the tomb of Tutankhamun/Howard Carter""")

AUTHORS = _pairs("""\
Hamlet/William Shakespeare; Don Quixote/Miguel de Cervantes; War and Peace/Leo Tolstoy;
Pride and Prejudice/Jane Austen; Oliver Twist/Charles Dickens; Frankenstein/Mary Shelley;
Faust/Johann Wolfgang von Goethe; The Odyssey/Homer; Les Misérables/Victor Hugo; Moby-Dick/Herman Melville;
Dracula/Bram Stoker; Alice in Wonderland/Lewis Carroll; Treasure Island/Robert Louis Stevenson;
Crime and Punishment/Fyodor Dostoevsky; The Divine Comedy/Dante Alighieri; Robinson Crusoe/Daniel Defoe;
Romeo and Juliet/William Shakespeare; Macbeth/William Shakespeare; A Christmas Carol/Charles Dickens;
The Hobbit/J. R. R. Tolkien; Harry Potter/J. K. Rowling; Jane Eyre/Charlotte Brontë; Wuthering Heights/Emily Brontë;
The Metamorphosis/Franz Kafka; The Three Musketeers/Alexandre Dumas; Around the World in Eighty Days/Jules Verne;
Nineteen Eighty-Four/George Orwell; Animal Farm/George Orwell; The Little Prince/Antoine de Saint-Exupéry;
Pinocchio/Carlo Collodi; Peter Pan/J. M. Barrie; The Jungle Book/Rudyard Kipling; The Time Machine/H. G. Wells;
Heidi/Johanna Spyri; Pippi Longstocking/Astrid Lindgren; Winnie-the-Pooh/A. A. Milne; Ulysses/James Joyce;
The Old Man and the Sea/Ernest Hemingway; Tom Sawyer/Mark Twain; The Picture of Dorian Gray/Oscar Wilde;
Anna Karenina/Leo Tolstoy""")

OPPOSITES = _pairs("""\
hot/cold; big/small; fast/slow; happy/sad; high/low; rich/poor; strong/weak; wet/dry; full/empty; hard/soft;
early/late; loud/quiet; open/closed; clean/dirty; near/far; thick/thin; sweet/sour; brave/afraid; always/never;
day/night; up/down; left/right; true/false; begin/end; buy/sell; push/pull; win/lose; remember/forget;
inside/outside; above/below; before/after; first/last; deep/shallow; wide/narrow; sharp/blunt; cheap/expensive;
easy/difficult; polite/rude; war/peace; give/take; front/back; north/south; east/west; friend/enemy; success/failure;
increase/decrease; lend/borrow; guilty/innocent; light/dark; old/young; summer/winter; ask/answer; love/hate;
tall/short""")

COLORS = _pairs("""\
the sky/blue; grass/green; snow/white; a banana/yellow; a ripe tomato/red; coal/black; an orange/orange;
a flamingo/pink; milk/white; a lemon/yellow; a plum/purple; chocolate/brown; an elephant/gray; an emerald/green;
a ruby/red; a carrot/orange; a cucumber/green; a strawberry/red; a blueberry/blue; a pumpkin/orange; a lime/green;
a sunflower/yellow; blood/red; a polar bear/white; a crow/black; sugar/white; rice/white; broccoli/green;
a raspberry/red; a cherry/red; a sapphire/blue; a fire engine/red""")

RECORDS = _pairs("""\
the largest planet/Jupiter; the smallest planet/Mercury; the hottest planet/Venus; the red planet/Mars;
the planet that is famous for its rings/Saturn; the farthest planet from the sun/Neptune;
the closest planet to the sun/Mercury; the largest animal/the blue whale; the tallest animal/the giraffe;
the largest land animal/the elephant; the fastest land animal/the cheetah; the largest bird/the ostrich;
the largest ocean/the Pacific Ocean; the highest mountain/Mount Everest; the largest country/Russia;
the largest continent/Asia; the smallest continent/Australia; the largest island/Greenland;
the lightest element/hydrogen; the largest desert of sand/the Sahara; the star closest to the earth/the sun;
the star at the center of the solar system/the sun; the planet that we live on/Earth;
the coldest continent/Antarctica; the deepest ocean/the Pacific Ocean; the largest rainforest/the Amazon rainforest;
the smallest country/Vatican City; the hardest natural material/diamond;
the metal that is liquid at room temperature/mercury; the gas that we breathe to live/oxygen;
the largest organ of the body/the skin; the boiling point of water in Celsius/100 degrees;
the freezing point of water in Celsius/0 degrees; the king of the animals/the lion; the largest fish/the whale shark;
the animal with the longest neck/the giraffe; the first letter of the alphabet/A; the last letter of the alphabet/Z;
the first day of the weekend/Saturday; the coldest season/winter; the hottest season/summer""")

HELLO = _pairs("""\
French/bonjour; Spanish/hola; German/hallo; Italian/ciao; Portuguese/olá; Japanese/konnichiwa; Mandarin/nǐ hǎo;
Hindi/namaste; Swahili/jambo; Swedish/hej; Turkish/merhaba; Korean/annyeong; Polish/cześć; Arabic/marhaba;
Thai/sawasdee; Vietnamese/xin chào; Finnish/hei""")

PAINTERS = _pairs("""\
the Mona Lisa/Leonardo da Vinci; The Starry Night/Vincent van Gogh; Guernica/Pablo Picasso; The Scream/Edvard Munch;
The Night Watch/Rembrandt; Girl with a Pearl Earring/Johannes Vermeer; The Birth of Venus/Sandro Botticelli;
Water Lilies/Claude Monet; The Kiss/Gustav Klimt; The Persistence of Memory/Salvador Dalí""")

COMPOSERS = _pairs("""\
The Magic Flute/Wolfgang Amadeus Mozart; Für Elise/Ludwig van Beethoven; The Four Seasons/Antonio Vivaldi;
Swan Lake/Pyotr Tchaikovsky; Carmen/Georges Bizet; Aida/Giuseppe Verdi; Tosca/Giacomo Puccini;
the Mass in B minor/Johann Sebastian Bach; The Blue Danube/Johann Strauss;
The Barber of Seville/Gioachino Rossini""")

CITIES = _pairs("""\
Barcelona/Spain; Seville/Spain; Valencia/Spain; Milan/Italy; Venice/Italy; Florence/Italy; Naples/Italy;
Munich/Germany; Hamburg/Germany; Cologne/Germany; Lyon/France; Marseille/France; Zurich/Switzerland;
Geneva/Switzerland; Salzburg/Austria; Graz/Austria; Porto/Portugal; Krakow/Poland; Manchester/the United Kingdom;
Liverpool/the United Kingdom; Edinburgh/the United Kingdom; Oxford/the United Kingdom; Antwerp/Belgium;
Rotterdam/the Netherlands; Gothenburg/Sweden; Bergen/Norway; Istanbul/Turkey; Saint Petersburg/Russia;
New York/the United States; Chicago/the United States; Los Angeles/the United States;
San Francisco/the United States; Boston/the United States; Toronto/Canada; Montreal/Canada; Vancouver/Canada;
Sydney/Australia; Melbourne/Australia; Auckland/New Zealand; Rio de Janeiro/Brazil; São Paulo/Brazil; Shanghai/China;
Mumbai/India; Osaka/Japan; Kyoto/Japan; Busan/South Korea; Casablanca/Morocco; Marrakesh/Morocco; Lagos/Nigeria;
Cape Town/South Africa; Johannesburg/South Africa; Alexandria/Egypt; Karachi/Pakistan""")

LANDMARKS = _pairs("""\
the Nile/Africa; the Congo River/Africa; the Amazon/South America; the Danube/Europe; the Rhine/Europe;
the Thames/Europe; the Seine/Europe; the Volga/Europe; the Mississippi/North America; the Yangtze/Asia;
the Ganges/Asia; the Mekong/Asia; Mount Kilimanjaro/Africa; Mont Blanc/Europe; the Sahara/Africa; the Gobi/Asia;
Lake Victoria/Africa; Lake Titicaca/South America; Lake Baikal/Asia""")

RANGES = _pairs("""\
the Alps/Europe; the Pyrenees/Europe; the Andes/South America; the Himalayas/Asia; the Rocky Mountains/North America;
the Atlas Mountains/Africa""")

CITY_RIVERS = _pairs("""\
London/the Thames; Paris/the Seine; Vienna/the Danube; Budapest/the Danube; Cairo/the Nile; Rome/the Tiber;
Cologne/the Rhine; Prague/the Vltava; Lisbon/the Tagus; Baghdad/the Tigris; Warsaw/the Vistula; Dublin/the Liffey""")

MONTHS = _pairs("""\
January/31; February/28; March/31; April/30; May/31; June/30; July/31; August/31; September/30; October/31;
November/30; December/31""")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SEASONS = ("spring", "summer", "autumn", "winter")
ORDER = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
         "twelfth")

COUNTS = _pairs("""\
days in a week/seven; months in a year/twelve; weeks in a year/fifty-two; days in a year/365; seasons in a year/four;
hours in a day/twenty-four; minutes in an hour/sixty; seconds in a minute/sixty; years in a decade/ten;
years in a century/100; letters in the English alphabet/twenty-six; vowels in the English alphabet/five;
planets in the solar system/eight; continents in the world/seven; centimeters in a meter/100;
meters in a kilometer/1,000; grams in a kilogram/1,000; cents in a dollar/100; eggs in a dozen/twelve;
colors in a rainbow/seven; players in a soccer team/eleven; players in a basketball team/five;
strings on a violin/four; strings on a guitar/six; keys on a piano/eighty-eight; wheels on a car/four;
wheels on a bicycle/two; wheels on a tricycle/three; fingers on a hand/five; toes on a foot/five;
squares on a chessboard/sixty-four""")

SIDES = _pairs("""\
a triangle/three; a square/four; a rectangle/four; a rhombus/four; a pentagon/five; a hexagon/six; a heptagon/seven;
an octagon/eight; a nonagon/nine; a decagon/ten""")

SENSES = _pairs("""\
see/the eyes; hear/the ears; smell/the nose; taste/the tongue; chew/the teeth; think/the brain; breathe/the lungs;
digest food/the stomach""")

MADE_FROM = _pairs("""\
bread/flour; cheese/milk; butter/milk; yogurt/milk; wine/grapes; chocolate/cocoa beans; paper/wood; glass/sand;
ketchup/tomatoes; honey/nectar; flour/grain; olive oil/olives; popcorn/corn; tofu/soybeans; beer/barley;
cider/apples; steel/iron; marzipan/almonds; leather/animal skin; lemonade/lemons""")

DISHES = _pairs("""\
sushi/Japan; pizza/Italy; spaghetti/Italy; paella/Spain; goulash/Hungary; kimchi/South Korea; fondue/Switzerland;
moussaka/Greece; borscht/Ukraine; pad thai/Thailand; poutine/Canada; pho/Vietnam; ceviche/Peru; feta/Greece;
haggis/the United Kingdom; the taco/Mexico; the baguette/France""")

SPORTS = _pairs("""\
tennis/a racket; badminton/a racket; golf/a club; baseball/a bat; cricket/a bat; hockey/a stick; billiards/a cue;
table tennis/a paddle""")

INSTRUMENTS = _pairs("""\
the violin/string instrument; the cello/string instrument; the guitar/string instrument; the harp/string instrument;
the flute/wind instrument; the clarinet/wind instrument; the oboe/wind instrument; the trumpet/brass instrument;
the trombone/brass instrument; the tuba/brass instrument; the drum/percussion instrument;
the piano/keyboard instrument; the organ/keyboard instrument""")

WORK = _pairs("""\
a baker/bakes bread; a teacher/teaches students; a doctor/treats sick people; a painter/paints pictures;
a farmer/grows food; a pilot/flies airplanes; a nurse/cares for patients; a gardener/looks after plants;
a singer/sings songs; a lawyer/gives legal advice; a cook/prepares meals; a writer/writes books;
a carpenter/makes things from wood; a sailor/works on ships; a dentist/treats teeth; a plumber/repairs pipes;
a tailor/makes clothes; a barber/cuts hair; a firefighter/puts out fires; a butcher/sells meat;
a fisherman/catches fish; a librarian/lends out books; a mechanic/repairs cars; a shoemaker/makes shoes;
a florist/sells flowers; a judge/decides cases in court; a translator/translates texts; an actor/plays roles;
an architect/designs buildings; an astronomer/studies the stars""")

WORKPLACES = _pairs("""\
a baker/a bakery; a teacher/a school; a doctor/a hospital; a surgeon/a hospital; a farmer/a farm; a cook/a kitchen;
a librarian/a library; a judge/a court; a waiter/a restaurant; a mechanic/a garage; an actor/a theater;
a scientist/a laboratory; a banker/a bank; a miner/a mine; a sailor/a ship""")

MIXES = _pairs("""\
blue and yellow/green; red and yellow/orange; red and blue/purple; black and white/gray; red and white/pink""")

PAST = _pairs("""\
go/went; see/saw; eat/ate; run/ran; come/came; take/took; give/gave; write/wrote; speak/spoke; sing/sang;
drink/drank; swim/swam; fly/flew; buy/bought; think/thought; bring/brought; teach/taught; catch/caught; find/found;
make/made; say/said; know/knew; sleep/slept; drive/drove; break/broke; begin/began; fall/fell; feel/felt; hold/held;
sell/sold; walk/walked; play/played; look/looked; help/helped; work/worked; open/opened""")

PLURAL_WORDS = _pairs("""\
mouse/mice; child/children; man/men; woman/women; foot/feet; tooth/teeth; goose/geese; person/people; sheep/sheep;
fish/fish; leaf/leaves; knife/knives; wolf/wolves; wife/wives; half/halves; city/cities; country/countries;
baby/babies; story/stories; box/boxes; bus/buses; church/churches; potato/potatoes; tomato/tomatoes; hero/heroes;
dog/dogs; cat/cats; car/cars; tree/trees; book/books; house/houses; table/tables; day/days; boy/boys""")

KINDS = _pairs("""\
a rose/flower; a tulip/flower; a sunflower/flower; a daisy/flower; an oak/tree; a pine/tree; a birch/tree;
a hammer/tool; a saw/tool; a screwdriver/tool; a bus/vehicle; a truck/vehicle; a train/vehicle; a tram/vehicle;
a diamond/gem; a ruby/gem; an emerald/gem; an apple/fruit; a banana/fruit; a pear/fruit; a cherry/fruit;
a plum/fruit; a strawberry/fruit; a carrot/vegetable; an onion/vegetable; a potato/vegetable; a cabbage/vegetable;
a chair/piece of furniture; a table/piece of furniture; a sofa/piece of furniture; a shirt/piece of clothing;
a coat/piece of clothing; a sock/piece of clothing; a jacket/piece of clothing; a sweater/piece of clothing;
a skirt/piece of clothing; a scarf/piece of clothing; a hat/piece of clothing; a glove/piece of clothing;
a bed/piece of furniture; a desk/piece of furniture; a shelf/piece of furniture; a cupboard/piece of furniture;
a wardrobe/piece of furniture; an armchair/piece of furniture; a lily/flower; an orchid/flower; a violet/flower;
a daffodil/flower; a poppy/flower; an elm/tree; a fir/tree; a willow/tree; a spruce/tree; a poplar/tree;
a wrench/tool; a drill/tool; a shovel/tool; an axe/tool; a rake/tool; a car/vehicle; a bicycle/vehicle;
a motorcycle/vehicle; a taxi/vehicle; a tractor/vehicle; a van/vehicle; a lemon/fruit; a peach/fruit; a mango/fruit;
a pineapple/fruit; a raspberry/fruit; a grape/fruit; a radish/vegetable; a leek/vegetable; a turnip/vegetable;
a beet/vegetable; a doll/toy; a teddy bear/toy; a puzzle/toy; a kite/toy; a rattle/toy;
a palace/building; a cathedral/building; a church/building; a castle/building; a barn/building; a cottage/building""")

GROWS = _pairs("""\
apples/on trees; pears/on trees; cherries/on trees; plums/on trees; lemons/on trees; oranges/on trees;
coconuts/on palm trees; grapes/on vines; melons/on vines; blueberries/on bushes; raspberries/on bushes;
carrots/in the ground; potatoes/in the ground; onions/in the ground; radishes/in the ground; beets/in the ground""")

DEFINITIONS = _pairs("""\
a library/a place where you can borrow books; a bakery/a shop that sells bread;
a museum/a place where works of art are shown; a hospital/a place where sick people are treated;
a school/a place where children learn; a pharmacy/a shop that sells medicine;
an airport/a place where airplanes take off and land; a harbor/a place where ships are safe;
a zoo/a place where you can look at animals; a dictionary/a book that explains words; an atlas/a book of maps;
a novel/a long story in a book; an island/a piece of land with water all around it;
a desert/a dry place where little rain falls; a volcano/a mountain that can throw out lava;
a lake/a large body of water with land around it; a capital/the city where the government of a country sits;
an orphan/a child without parents; a widow/a woman whose husband has died; a triangle/a shape with three sides;
a thermometer/a tool that measures temperature; a compass/a tool that shows where north is;
a telescope/a tool for looking at distant things; an umbrella/a thing that keeps you dry in the rain;
a fridge/a machine that keeps food cold; a bridge/a way over a river or a road; ice/frozen water;
steam/water in the form of gas""")

FIRSTS = _pairs("""\
the first person on the moon/Neil Armstrong; the first person in space/Yuri Gagarin;
the first president of the United States/George Washington; the first woman in space/Valentina Tereshkova;
the first man to reach the South Pole/Roald Amundsen;
the first president of South Africa after apartheid/Nelson Mandela""")
