"""The closed world of facts that the model knows, as plain tables. General knowledge; no prose, no phrasing.

A name that takes an article carries it ("the Netherlands"); `bare` drops it.
"""

from __future__ import annotations

from typing import NamedTuple


class Country(NamedTuple):
    name: str
    capital: str
    continent: str
    language: str
    currency: str
    sights: tuple[str, str]


class Animal(NamedTuple):
    name: str
    kind: str
    food: str
    home: str
    young: str
    legs: str


class Element(NamedTuple):
    name: str
    symbol: str
    number: str
    state: str
    kind: str


class Planet(NamedTuple):
    name: str
    place: str
    kind: str
    note: str


PLURALS = {"butterfly": "butterflies", "deer": "deer", "fox": "foxes", "mouse": "mice", "octopus": "octopuses",
           "ostrich": "ostriches", "salmon": "salmon", "sheep": "sheep", "wolf": "wolves"}


def plural(noun: str) -> str:
    """More than one of an animal or a class of animals."""
    return "fish" if noun == "fish" else PLURALS.get(noun, f"{noun}s")


def bare(name: str) -> str:
    return name.removeprefix("the ")


def _country(row: str) -> Country:
    name, capital, continent, language, currency, sights = row.split("/")
    first, second = sights.split("+")
    return Country(name, capital, continent, language, currency, (first, second))


COUNTRIES = [_country(row) for row in """\
Argentina/Buenos Aires/South America/Spanish/peso/Iguazu Falls+the Obelisk
Australia/Canberra/Oceania/English/Australian dollar/the Sydney Opera House+Uluru
Austria/Vienna/Europe/German/euro/Schönbrunn Palace+the Vienna State Opera
Belgium/Brussels/Europe/Dutch/euro/the Atomium+the Grand Place
Brazil/Brasília/South America/Portuguese/real/Sugarloaf Mountain+Copacabana Beach
Bulgaria/Sofia/Europe/Bulgarian/euro/Rila Monastery+the Alexander Nevsky Cathedral
Canada/Ottawa/North America/English/Canadian dollar/the CN Tower+Lake Louise
Chile/Santiago/South America/Spanish/Chilean peso/Easter Island+Torres del Paine
China/Beijing/Asia/Mandarin/yuan/the Great Wall+the Forbidden City
Colombia/Bogotá/South America/Spanish/Colombian peso/the Gold Museum+the walls of Cartagena
Croatia/Zagreb/Europe/Croatian/euro/the Plitvice Lakes+the walls of Dubrovnik
Cuba/Havana/North America/Spanish/Cuban peso/Old Havana+the Malecón
the Czech Republic/Prague/Europe/Czech/koruna/Charles Bridge+Prague Castle
Denmark/Copenhagen/Europe/Danish/Danish krone/Tivoli Gardens+the Little Mermaid
Ecuador/Quito/South America/Spanish/US dollar/the Galápagos Islands+Cotopaxi
Egypt/Cairo/Africa/Arabic/Egyptian pound/the Pyramids of Giza+the Sphinx
Estonia/Tallinn/Europe/Estonian/euro/Tallinn Old Town+Kadriorg Palace
Ethiopia/Addis Ababa/Africa/Amharic/birr/the churches of Lalibela+the Simien Mountains
Finland/Helsinki/Europe/Finnish/euro/Suomenlinna+Helsinki Cathedral
France/Paris/Europe/French/euro/the Eiffel Tower+the Louvre
Germany/Berlin/Europe/German/euro/the Brandenburg Gate+Neuschwanstein Castle
Ghana/Accra/Africa/English/cedi/Cape Coast Castle+Kakum National Park
Greece/Athens/Europe/Greek/euro/the Acropolis+Delphi
Hungary/Budapest/Europe/Hungarian/forint/Buda Castle+the Széchenyi Baths
Iceland/Reykjavik/Europe/Icelandic/Icelandic krona/the Blue Lagoon+Gullfoss
India/New Delhi/Asia/Hindi/Indian rupee/the Taj Mahal+the Red Fort
Indonesia/Jakarta/Asia/Indonesian/rupiah/Borobudur+Komodo National Park
Iran/Tehran/Asia/Persian/rial/Persepolis+Golestan Palace
Iraq/Baghdad/Asia/Arabic/Iraqi dinar/the ruins of Babylon+the Malwiya Minaret
Ireland/Dublin/Europe/English/euro/the Cliffs of Moher+Trinity College
Italy/Rome/Europe/Italian/euro/the Colosseum+the Leaning Tower of Pisa
Jamaica/Kingston/North America/English/Jamaican dollar/Dunn's River Falls+the Blue Mountains
Japan/Tokyo/Asia/Japanese/yen/Mount Fuji+the Tokyo Skytree
Kenya/Nairobi/Africa/Swahili/Kenyan shilling/the Maasai Mara+Mount Kenya
Latvia/Riga/Europe/Latvian/euro/Riga Old Town+Turaida Castle
Malaysia/Kuala Lumpur/Asia/Malay/ringgit/the Petronas Towers+the Batu Caves
Mexico/Mexico City/North America/Spanish/Mexican peso/Chichen Itza+Teotihuacan
Morocco/Rabat/Africa/Arabic/dirham/the Hassan Tower+Jemaa el-Fnaa
Nepal/Kathmandu/Asia/Nepali/Nepalese rupee/Mount Everest+Boudhanath
the Netherlands/Amsterdam/Europe/Dutch/euro/the Rijksmuseum+the windmills of Kinderdijk
New Zealand/Wellington/Oceania/English/New Zealand dollar/Milford Sound+Mount Cook
Nigeria/Abuja/Africa/English/naira/Zuma Rock+Yankari Park
Norway/Oslo/Europe/Norwegian/Norwegian krone/Geirangerfjord+the Vigeland Park
Pakistan/Islamabad/Asia/Urdu/Pakistani rupee/the Badshahi Mosque+Faisal Mosque
Peru/Lima/South America/Spanish/sol/Machu Picchu+the Nazca Lines
the Philippines/Manila/Asia/Filipino/Philippine peso/the Chocolate Hills+the Banaue Rice Terraces
Poland/Warsaw/Europe/Polish/zloty/Wawel Castle+the Wieliczka Salt Mine
Portugal/Lisbon/Europe/Portuguese/euro/Belém Tower+Pena Palace
Romania/Bucharest/Europe/Romanian/leu/Bran Castle+the Palace of the Parliament
Russia/Moscow/Europe/Russian/ruble/Red Square+the Hermitage
Saudi Arabia/Riyadh/Asia/Arabic/riyal/Hegra+the Kingdom Centre
Senegal/Dakar/Africa/French/CFA franc/Gorée Island+the Pink Lake
Singapore/Singapore/Asia/English/Singapore dollar/Marina Bay+the Merlion
South Africa/Pretoria/Africa/Zulu/rand/Table Mountain+Kruger National Park
South Korea/Seoul/Asia/Korean/won/Gyeongbokgung+N Seoul Tower
Spain/Madrid/Europe/Spanish/euro/the Sagrada Família+the Alhambra
Sweden/Stockholm/Europe/Swedish/Swedish krona/the Vasa Museum+Gamla Stan
Switzerland/Bern/Europe/German/Swiss franc/the Matterhorn+Chillon Castle
Thailand/Bangkok/Asia/Thai/baht/the Grand Palace+Wat Arun
Turkey/Ankara/Asia/Turkish/lira/Hagia Sophia+Cappadocia
Ukraine/Kyiv/Europe/Ukrainian/hryvnia/Saint Sophia's Cathedral+the Golden Gate of Kyiv
the United Kingdom/London/Europe/English/pound sterling/Big Ben+Stonehenge
the United States/Washington, D.C./North America/English/US dollar/the Statue of Liberty+the Grand Canyon
Vietnam/Hanoi/Asia/Vietnamese/dong/Ha Long Bay+Hoi An""".splitlines()]

ANIMALS = [Animal(*row.split("/")) for row in """\
ant/insect/seeds and sugar/nests in the ground/larva/six
bat/mammal/insects/caves/pup/two
bear/mammal/berries and fish/forests/cub/four
bee/insect/nectar/hives/larva/six
butterfly/insect/nectar/gardens/caterpillar/six
camel/mammal/desert plants/deserts/calf/four
cat/mammal/meat/houses/kitten/four
chicken/bird/grain/farmyards/chick/two
cow/mammal/grass/farmyards/calf/four
crocodile/reptile/meat/rivers/hatchling/four
deer/mammal/leaves and grass/forests/fawn/four
dog/mammal/meat/houses/puppy/four
dolphin/mammal/fish/the sea/calf/no
duck/bird/water plants/ponds/duckling/two
eagle/bird/fish and small animals/mountains/eaglet/two
elephant/mammal/leaves and grass/savannas/calf/four
fox/mammal/mice and berries/forests/kit/four
frog/amphibian/insects/ponds/tadpole/four
giraffe/mammal/leaves/savannas/calf/four
goat/mammal/grass and shrubs/mountains/kid/four
horse/mammal/grass/farmyards/foal/four
kangaroo/mammal/grass/grasslands/joey/two
koala/mammal/eucalyptus leaves/eucalyptus forests/joey/four
lion/mammal/meat/savannas/cub/four
monkey/mammal/fruit/jungles/infant/two
mouse/mammal/seeds/fields/pup/four
octopus/mollusk/crabs/the sea/larva/no
ostrich/bird/plants and seeds/savannas/chick/two
owl/bird/mice/forests/owlet/two
panda/mammal/bamboo/bamboo forests/cub/four
penguin/bird/fish/cold seas/chick/two
pig/mammal/roots and grain/farmyards/piglet/four
rabbit/mammal/grass and vegetables/burrows/kit/four
salmon/fish/small fish/rivers and seas/fry/no
shark/fish/fish/the sea/pup/no
sheep/mammal/grass/farmyards/lamb/four
snake/reptile/mice/grasslands/hatchling/no
spider/arachnid/insects/webs/spiderling/eight
squirrel/mammal/nuts/trees/kit/four
swan/bird/water plants/lakes/cygnet/two
tiger/mammal/meat/jungles/cub/four
turtle/reptile/plants/warm seas/hatchling/four
whale/mammal/krill/the sea/calf/no
wolf/mammal/meat/forests/pup/four
zebra/mammal/grass/savannas/foal/four""".splitlines()]

ELEMENTS = [Element(*row.split("/")) for row in """\
hydrogen/H/1/gas/nonmetal
helium/He/2/gas/noble gas
lithium/Li/3/solid/metal
carbon/C/6/solid/nonmetal
nitrogen/N/7/gas/nonmetal
oxygen/O/8/gas/nonmetal
fluorine/F/9/gas/nonmetal
neon/Ne/10/gas/noble gas
sodium/Na/11/solid/metal
magnesium/Mg/12/solid/metal
aluminium/Al/13/solid/metal
silicon/Si/14/solid/metalloid
phosphorus/P/15/solid/nonmetal
sulfur/S/16/solid/nonmetal
chlorine/Cl/17/gas/nonmetal
argon/Ar/18/gas/noble gas
potassium/K/19/solid/metal
calcium/Ca/20/solid/metal
titanium/Ti/22/solid/metal
chromium/Cr/24/solid/metal
iron/Fe/26/solid/metal
cobalt/Co/27/solid/metal
nickel/Ni/28/solid/metal
copper/Cu/29/solid/metal
zinc/Zn/30/solid/metal
krypton/Kr/36/gas/noble gas
silver/Ag/47/solid/metal
tin/Sn/50/solid/metal
iodine/I/53/solid/nonmetal
platinum/Pt/78/solid/metal
gold/Au/79/solid/metal
mercury/Hg/80/liquid/metal
lead/Pb/82/solid/metal
uranium/U/92/solid/metal""".splitlines()]

PLANETS = [Planet(*row.split("/")) for row in """\
Mercury/first/rocky planet/It is the smallest planet.
Venus/second/rocky planet/It is the hottest planet.
Earth/third/rocky planet/It is the planet we live on.
Mars/fourth/rocky planet/It is called the red planet.
Jupiter/fifth/gas giant/It is the largest planet.
Saturn/sixth/gas giant/It is famous for its rings.
Uranus/seventh/ice giant/It spins on its side.
Neptune/eighth/ice giant/It is the farthest planet from the sun.""".splitlines()]


def _pairs(text: str) -> dict[str, str]:
    return dict(row.split("/") for row in text.splitlines())


INVENTORS = _pairs("""\
the telephone/Alexander Graham Bell
the light bulb/Thomas Edison
the World Wide Web/Tim Berners-Lee
dynamite/Alfred Nobel
the radio/Guglielmo Marconi
the printing press/Johannes Gutenberg
the electric battery/Alessandro Volta
the lightning rod/Benjamin Franklin
the diesel engine/Rudolf Diesel
the motor car/Karl Benz
the airship/Ferdinand von Zeppelin
the saxophone/Adolphe Sax
the first vaccine/Edward Jenner
the hot air balloon/the Montgolfier brothers
the airplane/the Wright brothers
the Rubik's Cube/Ernő Rubik
the mercury thermometer/Daniel Fahrenheit
the Braille alphabet/Louis Braille
the Morse code/Samuel Morse
the safety razor/King Camp Gillette
the analytical engine/Charles Babbage
the cinema camera/the Lumière brothers""")

DISCOVERERS = _pairs("""\
penicillin/Alexander Fleming
radium/Marie Curie
X-rays/Wilhelm Röntgen
the law of gravity/Isaac Newton
the theory of relativity/Albert Einstein
the electron/J. J. Thomson
the moons of Jupiter/Galileo Galilei
the laws of inheritance/Gregor Mendel
evolution by natural selection/Charles Darwin
the planet Uranus/William Herschel""")

AUTHORS = _pairs("""\
Hamlet/William Shakespeare
Don Quixote/Miguel de Cervantes
War and Peace/Leo Tolstoy
Pride and Prejudice/Jane Austen
Oliver Twist/Charles Dickens
Frankenstein/Mary Shelley
Faust/Johann Wolfgang von Goethe
The Odyssey/Homer
Les Misérables/Victor Hugo
Moby-Dick/Herman Melville
Dracula/Bram Stoker
Alice in Wonderland/Lewis Carroll
Treasure Island/Robert Louis Stevenson
Crime and Punishment/Fyodor Dostoevsky
The Divine Comedy/Dante Alighieri
Robinson Crusoe/Daniel Defoe""")

OPPOSITES = _pairs("""\
hot/cold
big/small
fast/slow
happy/sad
light/dark
old/young
high/low
rich/poor
strong/weak
wet/dry
full/empty
hard/soft
early/late
loud/quiet
open/closed
clean/dirty
near/far
thick/thin
sweet/sour
brave/afraid
always/never
day/night
up/down
left/right
true/false
begin/end
buy/sell
push/pull
win/lose
remember/forget""")

COLORS = _pairs("""\
the sky/blue
grass/green
snow/white
a banana/yellow
a ripe tomato/red
coal/black
an orange/orange
a flamingo/pink
milk/white
a lemon/yellow
a plum/purple
chocolate/brown
an elephant/gray
an emerald/green
a ruby/red""")

RECORDS = _pairs("""\
the largest planet/Jupiter
the smallest planet/Mercury
the hottest planet/Venus
the red planet/Mars
the planet that is famous for its rings/Saturn
the farthest planet from the sun/Neptune
the closest planet to the sun/Mercury
the largest animal/the blue whale
the tallest animal/the giraffe
the largest land animal/the elephant
the fastest land animal/the cheetah
the largest bird/the ostrich
the largest ocean/the Pacific Ocean
the highest mountain/Mount Everest
the largest country/Russia
the largest continent/Asia
the smallest continent/Australia
the largest island/Greenland
the lightest element/hydrogen
the largest desert of sand/the Sahara
the star closest to the earth/the sun
the first person on the moon/Neil Armstrong
the number of days in a week/seven
the number of months in a year/twelve
the number of hours in a day/twenty-four
the number of minutes in an hour/sixty
the number of letters in the English alphabet/twenty-six
the first month of the year/January
the last month of the year/December
the day after Monday/Tuesday
the day before Sunday/Saturday""")

HELLO = _pairs("""\
French/bonjour
Spanish/hola
German/hallo
Italian/ciao
Portuguese/olá
Japanese/konnichiwa
Mandarin/nǐ hǎo
Hindi/namaste
Swahili/jambo
Swedish/hej
Turkish/merhaba
Korean/annyeong""")
