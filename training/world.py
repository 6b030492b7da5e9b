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


PLURALS = {"buffalo": "buffaloes", "butterfly": "butterflies", "deer": "deer", "fox": "foxes", "goose": "geese",
           "moose": "moose", "mosquito": "mosquitoes", "mouse": "mice", "octopus": "octopuses", "ostrich": "ostriches",
           "salmon": "salmon", "sheep": "sheep", "trout": "trout", "wolf": "wolves"}


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
Algeria/Algiers/Africa/Arabic/Algerian dinar/the Casbah of Algiers+Timgad
Argentina/Buenos Aires/South America/Spanish/peso/Iguazu Falls+the Obelisk
Australia/Canberra/Oceania/English/Australian dollar/the Sydney Opera House+Uluru
Austria/Vienna/Europe/German/euro/Schönbrunn Palace+the Vienna State Opera
Bangladesh/Dhaka/Asia/Bengali/taka/Lalbagh Fort+the Sundarbans
Belgium/Brussels/Europe/Dutch/euro/the Atomium+the Grand Place
Brazil/Brasília/South America/Portuguese/real/Sugarloaf Mountain+Copacabana Beach
Bulgaria/Sofia/Europe/Bulgarian/euro/Rila Monastery+the Alexander Nevsky Cathedral
Canada/Ottawa/North America/English/Canadian dollar/the CN Tower+Lake Louise
Chile/Santiago/South America/Spanish/Chilean peso/Easter Island+Torres del Paine
China/Beijing/Asia/Mandarin/yuan/the Great Wall+the Forbidden City
Colombia/Bogotá/South America/Spanish/Colombian peso/the Gold Museum+the walls of Cartagena
Costa Rica/San José/North America/Spanish/colón/Arenal Volcano+Manuel Antonio Park
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
Lithuania/Vilnius/Europe/Lithuanian/euro/Trakai Castle+Gediminas Tower
Luxembourg/Luxembourg City/Europe/Luxembourgish/euro/Vianden Castle+the Casemates
Malaysia/Kuala Lumpur/Asia/Malay/ringgit/the Petronas Towers+the Batu Caves
Mexico/Mexico City/North America/Spanish/Mexican peso/Chichen Itza+Teotihuacan
Mongolia/Ulaanbaatar/Asia/Mongolian/tugrik/the Gobi Desert+Gandan Monastery
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
Serbia/Belgrade/Europe/Serbian/Serbian dinar/Belgrade Fortress+the Church of Saint Sava
Singapore/Singapore/Asia/English/Singapore dollar/Marina Bay+the Merlion
Slovakia/Bratislava/Europe/Slovak/euro/Bratislava Castle+Spiš Castle
Slovenia/Ljubljana/Europe/Slovene/euro/Lake Bled+the Postojna Cave
South Africa/Pretoria/Africa/Zulu/rand/Table Mountain+Kruger National Park
South Korea/Seoul/Asia/Korean/won/Gyeongbokgung+N Seoul Tower
Spain/Madrid/Europe/Spanish/euro/the Sagrada Família+the Alhambra
Sweden/Stockholm/Europe/Swedish/Swedish krona/the Vasa Museum+Gamla Stan
Switzerland/Bern/Europe/German/Swiss franc/the Matterhorn+Chillon Castle
Thailand/Bangkok/Asia/Thai/baht/the Grand Palace+Wat Arun
Tunisia/Tunis/Africa/Arabic/Tunisian dinar/the ruins of Carthage+the theater of El Jem
Turkey/Ankara/Asia/Turkish/lira/Hagia Sophia+Cappadocia
Ukraine/Kyiv/Europe/Ukrainian/hryvnia/Saint Sophia's Cathedral+the Golden Gate of Kyiv
the United Kingdom/London/Europe/English/pound sterling/Big Ben+Stonehenge
the United States/Washington, D.C./North America/English/US dollar/the Statue of Liberty+the Grand Canyon
Uruguay/Montevideo/South America/Spanish/Uruguayan peso/Punta del Este+the Palacio Salvo
Venezuela/Caracas/South America/Spanish/bolívar/Angel Falls+Mount Roraima
Vietnam/Hanoi/Asia/Vietnamese/dong/Ha Long Bay+Hoi An""".splitlines()]

ANIMALS = [Animal(*row.split("/")) for row in """\
ant/insect/seeds and sugar/nests in the ground/larva/six
bat/mammal/insects/caves/pup/two
bear/mammal/berries and fish/forests/cub/four
beaver/mammal/bark and twigs/rivers/kit/four
bee/insect/nectar/hives/larva/six
beetle/insect/leaves and wood/forests/larva/six
buffalo/mammal/grass/savannas/calf/four
butterfly/insect/nectar/gardens/caterpillar/six
camel/mammal/desert plants/deserts/calf/four
cat/mammal/meat/houses/kitten/four
cheetah/mammal/meat/savannas/cub/four
chicken/bird/grain/farmyards/chick/two
cow/mammal/grass/farmyards/calf/four
crocodile/reptile/meat/rivers/hatchling/four
deer/mammal/leaves and grass/forests/fawn/four
dog/mammal/meat/houses/puppy/four
dolphin/mammal/fish/the sea/calf/no
donkey/mammal/grass and hay/farmyards/foal/four
duck/bird/water plants/ponds/duckling/two
eagle/bird/fish and small animals/mountains/eaglet/two
elephant/mammal/leaves and grass/savannas/calf/four
flamingo/bird/shrimp and algae/lakes/chick/two
fox/mammal/mice and berries/forests/kit/four
frog/amphibian/insects/ponds/tadpole/four
giraffe/mammal/leaves/savannas/calf/four
goat/mammal/grass and shrubs/mountains/kid/four
goose/bird/grass/farmyards/gosling/two
hamster/mammal/seeds and grain/fields/pup/four
hedgehog/mammal/insects and worms/gardens/hoglet/four
hippo/mammal/grass/rivers/calf/four
horse/mammal/grass/farmyards/foal/four
kangaroo/mammal/grass/grasslands/joey/two
koala/mammal/eucalyptus leaves/eucalyptus forests/joey/four
leopard/mammal/meat/savannas/cub/four
lion/mammal/meat/savannas/cub/four
lizard/reptile/insects/deserts/hatchling/four
llama/mammal/grass/mountains/cria/four
monkey/mammal/fruit/jungles/infant/two
moose/mammal/leaves and twigs/forests/calf/four
mosquito/insect/nectar and blood/wetlands/larva/six
mouse/mammal/seeds/fields/pup/four
octopus/mollusk/crabs/the sea/larva/no
ostrich/bird/plants and seeds/savannas/chick/two
otter/mammal/fish/rivers/pup/four
owl/bird/mice/forests/owlet/two
panda/mammal/bamboo/bamboo forests/cub/four
parrot/bird/fruit and seeds/jungles/chick/two
penguin/bird/fish/cold seas/chick/two
pig/mammal/roots and grain/farmyards/piglet/four
pigeon/bird/seeds/cities/squab/two
rabbit/mammal/grass and vegetables/burrows/kit/four
rhino/mammal/grass/savannas/calf/four
salmon/fish/small fish/rivers and seas/fry/no
seal/mammal/fish/cold seas/pup/no
shark/fish/fish/the sea/pup/no
sheep/mammal/grass/farmyards/lamb/four
snail/mollusk/leaves/gardens/hatchling/no
snake/reptile/mice/grasslands/hatchling/no
spider/arachnid/insects/webs/spiderling/eight
squirrel/mammal/nuts/trees/kit/four
swan/bird/water plants/lakes/cygnet/two
tiger/mammal/meat/jungles/cub/four
toad/amphibian/insects/gardens/tadpole/four
trout/fish/insects and worms/rivers and lakes/fry/no
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
