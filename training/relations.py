"""How facts about countries, places, animals, elements and planets are asked and said; the list of all relations."""

from __future__ import annotations

from collections.abc import Callable

from .everyday import EVERYDAY
from .items import a
from .things import CITIES, CITY_RIVERS, LANDMARKS, RANGES
from .wording import Relation, relation
from .world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, plural

Near = Callable[[str, str], bool]

_land = {c.name: c for c in COUNTRIES}
_elements = {x.name: x.kind for x in ELEMENTS}
_kinds = {name: x.kind for x in ANIMALS for name in (x.name, a(x.name), plural(x.name))}

ALSO_SPOKEN = {
    "English": "India Kenya Singapore Malaysia Pakistan Ethiopia Bangladesh Sweden Denmark Norway Iceland Finland"
               " the Philippines South Africa the Netherlands Luxembourg Germany Austria Switzerland Belgium Slovenia",
    "French": "Canada Belgium Switzerland Luxembourg Algeria Tunisia Morocco Vietnam",
    "German": "Belgium Luxembourg Italy the Czech Republic Hungary",
    "Spanish": "the United States the Philippines Morocco", "Italian": "Switzerland Slovenia Croatia",
    "Portuguese": "Luxembourg", "Russian": "Ukraine Estonia Latvia Lithuania Mongolia", "Swedish": "Finland",
    "Mandarin": "Singapore Malaysia", "Malay": "Singapore Indonesia", "Indonesian": "Malaysia",
    "Urdu": "India", "Hindi": "Pakistan Nepal", "Bengali": "India", "Persian": "Iraq", "Turkish": "Bulgaria Germany",
    "Serbian": "Croatia Slovenia", "Croatian": "Serbia Slovenia", "Danish": "Iceland", "Arabic": "Iran Senegal",
    "Hungarian": "Slovakia Romania Serbia", "Slovak": "the Czech Republic", "Czech": "Slovakia", "Dutch": "Germany",
}
MEAT = {"meat", "fish", "insects", "mice", "krill", "crabs", "small fish", "insects and worms",
        "fish and small animals", "shrimp and algae"}
GREENS = {"grass", "leaves", "nectar", "bamboo", "nuts", "eucalyptus leaves", "leaves and grass", "grass and hay",
          "grass and shrubs", "desert plants", "bark and twigs", "leaves and twigs", "leaves and wood"}
WATERS = {"the sea", "cold seas", "warm seas", "rivers and seas"}
DRY = {"deserts", "forests", "savannas", "houses", "farmyards", "mountains", "trees", "fields", "eucalyptus forests",
       "bamboo forests", "burrows", "grasslands", "gardens", "hives", "webs", "caves"}


def _also_spoken(land: str, language: str) -> bool:
    return land in ALSO_SPOKEN.get(language, "")


def _apart(first: set[str], second: set[str], facts: dict[str, str]) -> Near:
    """Only a value of the other group counts as wrong."""

    def near(entity: str, value: str) -> bool:
        truth = facts[entity]
        return not ((truth in first and value in second) or (truth in second and value in first))

    return near


def _other_kind(young: dict[str, str]) -> Near:
    """A word for a young animal is wrong if only other classes of animals use it."""
    classes: dict[str, set[str]] = {}
    for entity, value in young.items():
        classes.setdefault(value, set()).add(_kinds[entity])

    def near(entity: str, value: str) -> bool:
        return _kinds[entity] in classes[value]

    return near


PLURAL_SIGHTS = {"Falls", "Lakes", "walls", "Gardens", "Pyramids", "churches", "Islands", "Cliffs", "ruins",
                 "Mountains", "Towers", "Caves", "windmills", "Lines", "Hills", "Terraces", "Baths",
                 "Casemates", "Sundarbans"}

FOOD = {a(x.name): x.food for x in ANIMALS}
FOODS = {plural(x.name): x.food for x in ANIMALS}
HOME = {a(x.name): x.home for x in ANIMALS}
HOMES = {plural(x.name): x.home for x in ANIMALS}
YOUNG = {a(x.name): a(x.young) for x in ANIMALS}
BABY = {x.name: a(x.young) for x in ANIMALS}

SIGHTS = """
noun: the country of {e} / the country where {e} <is> / the country where you can see {e}
    / the country that has {e} / the country you must visit to see {e}
ask: where <is> {e} / in which country <is> {e} / which country <is> {e} in / where can I see {e} / where do I find {e}
    / what country <is> {e} in / where must I go to see {e} / to which country must I travel for {e}
    / {e} <is> in which country / in what country can you visit {e} / which country can I visit {e} in
    / where in the world <is> {e} / which country has {e} / where can tourists see {e} / where <is> {e} located
clause: where {e} <is> / in which country {e} <is> / where I can see {e} / where to find {e} / which country {e} <is> in
    / where to go for {e}
say: {e} <is> in {v} / you can see {e} in {v} / you find {e} in {v} / the country of {e} is {v}
then: where <is> <it> / which country <is> <it> in / where must I go / in which country is that / where do I find <it>
    / what country should I travel to / which country is that in
terse: {b} country / {b} where / where {b} / {b} location / country of {b}
check: <is> {e} in {v} / can I see {e} in {v} / do I find {e} in {v} / must I go to {v} to see {e}
unseen: which country's border must I cross to admire {e} / which country gets visitors because of {e}
"""


def is_plural(sight: str) -> bool:
    """Whether a sight takes "are"."""
    return any(word in sight.split() for word in PLURAL_SIGHTS)


COUNTRY_RELATIONS = (
    relation("capital", "country", {n: c.capital for n, c in _land.items()}, """
noun: the capital of {e} / the capital city of {e} / {e}'s capital / the name of the capital of {e}
    / {e}'s capital city / the seat of government of {e} / the city where the government of {e} sits
ask: which city is the capital of {e} / what city is the capital of {e} / {e} has which capital
    / which city is {e}'s capital / what capital does {e} have / which capital does {e} have
    / what is the capital called in {e} / in which city does the government of {e} sit
    / which town is the capital of {e} / {e}'s capital is which city / how is the capital of {e} called
    / what is the name of {e}'s capital city / where does the government of {e} sit / which city governs {e}
clause: what the capital of {e} is / which city is the capital of {e} / what {e}'s capital is
    / what the capital of {e} is called / which capital {e} has / in which city the government of {e} sits
say: the capital of {e} is {v} / the capital city of {e} is {v} / {e}'s capital is {v} / {e} has the capital {v}
then: what is its capital / what is the capital / which city is the capital / what is the capital called
    / which city is its capital / what is the capital city / what's its capital / what is the capital there
    / where does its government sit
terse: {b} capital / capital {b} / capital of {b} / {b} capital city / capital {b}? / {b}: capital? / capital city {b}
check: is {v} the capital of {e} / is {e}'s capital {v} / is the capital of {e} {v} / is {v} {e}'s capital
    / does {e} have the capital {v} / is {v} the capital city of {e}
back: which country has {v} as its capital / {v} is the capital of which country / {v} is the capital of what country
    / what country is {v} the capital of / which nation's capital is {v} / of which country is {v} the capital
    / which country has the capital {v} / which state is governed from {v} / what nation has {v} for its capital
    / which country's capital is {v} / {v} is which country's capital / which land is {v} the capital of
    / whose capital is {v} / to which country does the capital {v} belong
back_noun: the country whose capital is {v} / the land whose capital is {v} / the nation with the capital {v}
    / the country that has {v} as its capital / the country of which {v} is the capital / the state with {v} as capital
    / the country governed from {v}
back_say: {v} is the capital of {e}
unseen: where would I find the parliament and government of {e} / {e} is ruled from which city
    / which place has the rank of capital in {e}
unseen_back: if I stand in the capital {v}, which country am I in / {v} serves as the capital for which country
"""),
    relation("continent", "country", {n: c.continent for n, c in _land.items()}, """
noun: the continent of {e} / the continent that {e} is in / {e}'s continent / the continent where {e} is
    / the continent on which {e} lies / the part of the world that {e} is in
ask: which continent is {e} in / what continent is {e} on / where is {e} / on which continent is {e}
    / where in the world is {e} / in which continent is {e} / which continent does {e} belong to / where does {e} lie
    / on what continent does {e} lie / what part of the world is {e} in / {e} is on which continent
    / {e} is in which continent / to which continent does {e} belong / what continent is {e} part of
    / where on the map is {e} / on which continent can I find {e} / where is {e} located
clause: where {e} is / which continent {e} is in / what continent {e} is on / on which continent {e} lies
    / where in the world {e} is / which continent {e} belongs to / where to find {e} / where {e} lies
say: {e} is in {v} / {e} is a country in {v} / {e} lies in {v} / {e} belongs to {v} / the continent of {e} is {v}
then: which continent is it in / where is it / what continent is it on / where in the world is it
    / on which continent does it lie / which continent does it belong to / where is that
terse: {b} continent / continent of {b} / continent {b} / where {b} / {b} where / {b}: which continent?
check: is {e} in {v} / does {e} lie in {v} / is {e} a country in {v} / does {e} belong to {v} / is {e} part of {v}
    / is {e} a part of {v} / can I find {e} in {v}
some: name a country in {v}. / which country is in {v}? / tell me a country in {v}. / give me one country of {v}.
    / name any country of {v}. / can you name a country in {v}? / a country in {v}, please. / what is a country in {v}?
unseen: if I fly to {e}, on which continent do I land / {e} counts as part of which continent
"""),
    relation("language", "country", {n: c.language for n, c in _land.items()}, """
noun: the language of {e} / the main language of {e} / {e}'s language / the language spoken in {e}
    / the language that people speak in {e} / the tongue spoken in {e} / the language used in {e}
    / the most important language of {e} / the language of the people in {e} / the native language in {e}
ask: which language do people speak in {e} / what language is spoken in {e} / what do people in {e} speak
    / which language is spoken in {e} / what do they speak in {e} / they speak what in {e} / what is spoken in {e}
    / what language do they speak in {e} / which tongue do people speak in {e} / in {e}, what language do people speak
    / what language do people use in {e} / which language do the people of {e} speak / how do people talk in {e}
    / in {e} people speak which language / which language is used in {e} / what is the language called in {e}
    / what language will I hear in {e} / what language should I learn for {e} / which language do I need in {e}
clause: which language people speak in {e} / what language is spoken in {e} / what people in {e} speak
    / what they speak in {e} / which language I need in {e} / what the language of {e} is / what is spoken in {e}
    / what language to learn for {e}
say: people in {e} speak {v} / the language of {e} is {v} / in {e} people speak {v} / the people of {e} speak {v}
    / the language spoken in {e} is {v}
then: what language do people speak there / which language do they speak / what is spoken there
    / what language should I learn / which language will I hear there / what do people speak there
    / what is its language / what language do they speak there / which language do I need / what tongue is spoken there
terse: {b} language / language {b} / language of {b} / language spoken in {b} / {b}: language? / {b} spoken language
check: do people in {e} speak {v} / is {v} the language of {e} / is {v} spoken in {e} / do they speak {v} in {e}
    / is the language of {e} {v} / does {e} speak {v} / do the people of {e} speak {v}
back: in which country do people speak {v} / where do people speak {v} / where is {v} spoken
    / which country speaks {v} / in what country is {v} spoken / what country speaks {v} / where do they speak {v}
    / {v} is the language of which country / {v} is spoken in which country / which nation speaks {v}
back_noun: the country where people speak {v} / the land where {v} is spoken / the country whose language is {v}
    / the nation that speaks {v}
back_say: people in {e} speak {v}
some: name a country where people speak {v}. / name one country where {v} is spoken. / where is {v} spoken, for example?
    / give me a country whose language is {v}. / tell me one place where they speak {v}.
    / in which country, for example, do people speak {v}? / can you name a country where they speak {v}?
unseen: what would I hear people talking on the streets of {e} / to chat with locals in {e}, what must I learn
unseen_back: where will {v} help me to get around
""", near=_also_spoken),
    relation("currency", "country", {n: c.currency for n, c in _land.items()}, """
noun: the currency of {e} / {e}'s currency / the money used in {e} / the money of {e} / the currency used in {e}
    / the local currency in {e} / the name of the money in {e} / the cash people use in {e} / the currency in {e}
    / the money that people pay with in {e}
ask: which currency does {e} use / what currency is used in {e} / what money do people use in {e}
    / how do people pay in {e} / what do people pay with in {e} / which money is used in {e}
    / what is the money called in {e} / what is the money in {e} called / what kind of money does {e} have
    / what money do I need in {e} / what cash should I take to {e} / {e} uses what currency / {e} has which currency
    / what currency do they have in {e} / which currency do I need in {e} / with what money do I pay in {e}
    / what do they use for money in {e} / in {e}, what do people pay with / what currency does {e} have
    / which cash do people carry in {e} / what is used as money in {e}
clause: which currency {e} uses / what currency is used in {e} / what people pay with in {e}
    / what the currency of {e} is / what money I need in {e} / what the money in {e} is called
    / how people pay in {e} / which currency I need for {e} / what money they use in {e}
say: the currency of {e} is the {v} / {e} uses the {v} / people in {e} pay with the {v} / the money of {e} is the {v}
    / the currency used in {e} is the {v} / in {e} you pay with the {v}
then: what currency do they use / what money do I need / what money do people use there / how do I pay there
    / which currency do I need / what is its currency / what is the money called / what cash should I bring
    / what do people pay with there / which money should I take along / what currency is used there
    / what is the currency / what kind of money do they have
terse: {b} currency / currency {b} / currency of {b} / money {b} / {b} money / {b}: currency? / money in {b}
check: does {e} use the {v} / is the {v} the currency of {e} / do people in {e} pay with the {v}
    / is the currency of {e} the {v} / can I pay with the {v} in {e} / do they use the {v} in {e}
    / is the {v} used in {e}
back: which country uses the {v} / where do people pay with the {v} / what country has the {v} as its currency
    / in which country do people use the {v} / where is the {v} used / in which country can I pay with the {v}
    / the {v} is the currency of which country / which country's currency is the {v} / what country uses the {v}
    / which nation pays with the {v}
back_noun: the country that uses the {v} / the country whose currency is the {v}
    / the land where people pay with the {v}
    / the country with the {v} as its money
back_say: {e} uses the {v}
some: name a country that uses the {v}. / name one country where people pay with the {v}.
    / which country, for example, uses the {v}? / give me a country whose currency is the {v}.
    / where can I pay with the {v}, for example? / tell me a country with the {v}.
unseen: what coins and notes will I get at a bank in {e} / what do shops in {e} want to be paid in
unseen_back: where would a purse full of the {v} be useful
"""),
    relation("sight", "sight", {s: c.name for c in COUNTRIES for s in c.sights if not is_plural(s)},
             SIGHTS.replace("<is>", "is").replace("<it>", "it"),
             near=lambda sight, land: sight == "Mount Everest" and land == "China"),
    relation("sights", "sights", {s: c.name for c in COUNTRIES for s in c.sights if is_plural(s)},
             SIGHTS.replace("<is>", "are").replace("<it>", "they").replace("find they", "find them")),
    relation("city", "city", CITIES | {c.capital: c.name for c in COUNTRIES if c.capital != c.name}, """
noun: the country of the city {e} / the country that {e} is in / the country where {e} is / the land of the city of {e}
ask: where is {e} / which country is {e} in / in which country is {e} / what country is {e} in
    / {e} is a city in which country / {e} is in which country / which country does {e} belong to
    / to which country does {e} belong / in what country is the city of {e} / where do I find {e}
    / what country is {e} a city of / in which country does {e} lie / where is the city of {e} / where is {e} located
    / what country would I be in if I were in {e} / which nation is {e} part of
clause: where {e} is / which country {e} is in / in which country {e} lies / what country {e} belongs to
    / where the city of {e} is / where to find {e}
say: {e} is in {v} / {e} is a city in {v} / the city of {e} is in {v} / {e} lies in {v} / {e} belongs to {v}
then: where is it / which country is it in / what country is that in / in which country is that / where is that city
    / which country does it belong to
terse: {b} country / {b} which country / {b} where / country of {b} / where {b}
check: is {e} in {v} / is {e} a city in {v} / does {e} lie in {v} / does {e} belong to {v} / is the city of {e} in {v}
    / is {e} part of {v}
some: name a city in {v}. / which city is in {v}? / tell me a city of {v}. / can you name a city in {v}?
unseen: which passport do people from {e} have / under which country's flag does {e} stand
"""),
    relation("landmark", "sight", LANDMARKS, """
noun: the continent of {e} / the continent where {e} is / the part of the world where {e} is
ask: where is {e} / on which continent is {e} / which continent is {e} in / where do I find {e}
    / in what part of the world is {e} / on what continent can I see {e} / where in the world is {e}
clause: where {e} is / on which continent {e} is / where to find {e} / which continent {e} is in
say: {e} is in {v} / you find {e} in {v} / the continent of {e} is {v}
then: where is it / which continent is it in / where in the world is that
terse: {b} continent / {b} where / where {b}
check: is {e} in {v} / can I find {e} in {v}
unseen: which continent would I travel to for {e}
"""),
    relation("range", "mountains", RANGES, """
noun: the continent of {e} / the continent where {e} are
ask: where are {e} / on which continent are {e} / which continent are {e} in / where do I find {e}
    / in what part of the world are {e}
clause: where {e} are / on which continent {e} are / where to find {e}
say: {e} are in {v} / you find {e} in {v}
terse: {b} continent / {b} where
check: are {e} in {v} / can I find {e} in {v}
unseen: which continent would I travel to for {e}
"""),
    relation("river", "city", CITY_RIVERS, """
noun: the river of {e} / the river that flows through {e} / the river in {e}
ask: which river flows through {e} / what river runs through {e} / on which river is {e} / which river is {e} on
    / what river is {e} on / {e} is on which river / which river does {e} lie on / what is the river in {e} called
clause: which river flows through {e} / what river {e} is on / on which river {e} lies
say: the river in {e} is {v} / the river that flows through {e} is {v}
then: which river is it on / what river flows through it / which river flows there
terse: {b} river / river {b} / river in {b}
check: does {v} flow through {e} / is {v} the river in {e} / is {e} on {v}
unseen: along which river was {e} built
"""),
)

ANIMAL_RELATIONS = (
    relation("class", "animal", {a(x.name): x.kind for x in ANIMALS}, """
noun: the animal class of {e} / the class of {e} / the kind of animal that {e} is / the group of animals {e} belongs to
ask: what kind of animal is {e} / what class of animal is {e} / which animal class does {e} belong to
    / what type of animal is {e} / what sort of animal is {e} / {e} is what kind of animal
    / which group of animals does {e} belong to / to which class of animals does {e} belong / what is {e}
    / {e} is a what / what would you call {e}: a mammal, a bird or something else
clause: what kind of animal {e} is / which class of animals {e} belongs to / what {e} is / what sort of animal {e} is
say: {e} is a kind of {v} / the class of {e} is {v} / {e} belongs to the class {v}
then: what kind of animal is it / which class does it belong to / what sort of animal is that / what is it
    / what type of animal is it
terse: {b} class / {b} animal class / {b} kind of animal / {b}: what kind of animal?
check: is {e} a kind of {v} / does {e} belong to the class {v}
unseen: how does a biologist classify {e} / among which animals does {e} count
"""),
    relation("food", "animal", FOOD, """
noun: the food of {e} / the usual food of {e} / the diet of {e} / the thing {e} eats
ask: what does {e} eat / what do you feed {e} / what food does {e} eat / what does {e} live on
    / what does {e} like to eat
    / {e} eats what / what should I feed {e} / what is eaten by {e} / what does {e} have for dinner
    / what does {e} usually eat / what do I give {e} to eat / what does {e} feed on / on what does {e} live
clause: what {e} eats / what to feed {e} / what food {e} eats / what I should feed {e} / what {e} likes to eat
    / what {e} lives on
say: {e} eats {v} / the food of {e} is {v} / {e} feeds on {v} / {e} likes to eat {v}
then: what does it eat / what should I feed it / what does it live on / what does it like to eat
    / what can I give it to eat / what food does it need / what is its food
terse: {b} food / {b} diet / food of {b} / what {b} eat / feed {b} / {b}: food?
check: does {e} eat {v} / does {e} feed on {v} / does {e} like {v} / is {v} the food of {e}
unseen: what is on the menu of {e} / with what does {e} fill its stomach
""", near=_apart(MEAT, GREENS, FOOD)),
    relation("home", "animal", HOME, """
noun: the home of {e} / the habitat of {e} / the natural home of {e} / the place where {e} lives
ask: where does {e} live / where can you find {e} / what is the natural home of {e} / where do you find {e}
    / where is {e} at home / what is the home of {e} / in what place does {e} live / where would I see {e} in nature
    / {e} lives where / where should I look for {e} / what is the habitat of {e} / where can I see {e}
clause: where {e} lives / where you can find {e} / what the habitat of {e} is / where to look for {e}
    / where {e} is at home
say: {e} lives in {v} / you can find {e} in {v} / {e} is at home in {v} / the home of {e} is in {v}
then: where does it live / where can I find it / where is it at home / what is its habitat / where should I look for it
terse: {b} home / {b} habitat / habitat of {b} / where {b} live
check: does {e} live in {v} / can you find {e} in {v} / is {e} at home in {v}
unseen: in what surroundings does {e} spend its life
""", near=_apart(WATERS, DRY, HOME)),
    relation("young", "animal", YOUNG, """
noun: the name for a young one of {e} / the word for the baby of {e} / the name for the young of {e}
    / the word for the offspring of {e}
ask: what is a baby of {e} called / what do you call the young of {e} / what is the young of {e} called
    / what is the offspring of {e} called / how do you call the baby of {e} / what do we call the offspring of {e}
clause: what the young of {e} is called / how to call the baby of {e} / what you call the offspring of {e}
say: the young of {e} is called {v} / the baby of {e} is called {v} / the word for the young of {e} is {v}
then: what is its baby called / what do you call its young / how is its young called / what are its young called
terse: {b} baby / baby {b} / young of {b} / {b} young / {b} baby name / {b} offspring
check: is the young of {e} called {v} / is the baby of {e} called {v} / do you call the young of {e} {v}
unseen: what do farmers and hunters call the little one of {e}
""", near=_other_kind(YOUNG)),
    relation("legs", "animal", {a(x.name): x.legs for x in ANIMALS if x.legs != "no"}, """
noun: the number of legs of {e} / the number of legs that {e} has
ask: how many legs does {e} have / how many legs has {e} / on how many legs does {e} walk / {e} has how many legs
    / how many legs has {e} got / how many legs are there on {e} / how many legs can you count on {e}
clause: how many legs {e} has / on how many legs {e} walks / how many legs there are on {e}
say: {e} has {v} legs / the number of legs of {e} is {v}
then: how many legs does it have / how many legs has it got / on how many legs does it walk
terse: {b} legs / {b} number of legs / legs of {b} / how many legs {b}
check: does {e} have {v} legs / has {e} got {v} legs / is the number of legs of {e} {v}
unseen: how many shoes would {e} need
""", who="what"),
    relation("classes", "animals", {plural(x.name): plural(x.kind) for x in ANIMALS}, """
noun: the animal class of {e} / the class that {e} belong to / the kind of animals that {e} are
ask: what kind of animals are {e} / what are {e} / which animal class do {e} belong to / what sort of animals are {e}
    / {e} are what kind of animals / what class of animals are {e} / to which group of animals do {e} belong
    / what type of animals are {e} / {e} belong to which class
clause: what kind of animals {e} are / what {e} are / which class {e} belong to
say: {e} are {v} / {e} belong to the {v}
then: what kind of animals are they / which class do they belong to / what are they
terse: {b} class / {b} animal group / class of {b}
check: are {e} {v} / do {e} belong to the {v} / do {e} count as {v}
unseen: among which animals do {e} count
"""),
    relation("foods", "animals", FOODS, """
noun: the food of {e} / the favorite food of {e} / the favourite food of {e} / the diet of {e} / what {e} eat
    / the food that {e} like
ask: what do {e} eat / what do {e} like to eat / what do you feed {e} / what food do {e} eat / what do {e} live on
    / {e} eat what / what should I feed {e} / what do {e} usually eat / what do {e} feed on / what is eaten by {e}
    / what should you give {e} to eat / what do {e} have for dinner
clause: what {e} eat / what to feed {e} / what {e} like to eat / what {e} live on / what I should feed my {e}
say: {e} eat {v} / {e} like to eat {v} / {e} feed on {v} / the food of {e} is {v}
then: what do they eat / what should I feed them / what do they live on / what do they like to eat / what is their food
terse: {b} food / {b} diet / what {b} eat / food for {b} / feeding {b}
check: do {e} eat {v} / do {e} feed on {v} / do {e} like to eat {v} / is {v} the food of {e}
unseen: what is on the menu of {e} / what do hungry {e} look for
""", near=_apart(MEAT, GREENS, FOODS)),
    relation("homes", "animals", HOMES, """
noun: the home of {e} / the natural home of {e} / the habitat of {e} / the place where {e} live
ask: where do {e} live / where can I find {e} / where are {e} at home / what is the habitat of {e}
    / where do you find {e}
    / {e} live where / where should I look for {e} / in what kind of place do {e} live / where can you see {e}
clause: where {e} live / where to find {e} / where {e} are at home / what the habitat of {e} is / where I can see {e}
say: {e} live in {v} / you find {e} in {v} / {e} are at home in {v} / the home of {e} is in {v}
then: where do they live / where can I find them / where are they at home / what is their habitat
terse: {b} home / {b} habitat / where {b} live / home of {b}
check: do {e} live in {v} / do you find {e} in {v} / are {e} at home in {v}
unseen: in what surroundings do {e} spend their lives
""", near=_apart(WATERS, DRY, HOMES)),
    relation("baby", "young", BABY, """
noun: the name for a baby {e} / the word for a young {e} / the word for a baby {e} / the name of a baby {e}
    / the right word for a baby {e} / the term for a young {e}
ask: what is a baby {e} called / what do you call a baby {e} / how do you call a young {e} / what is a young {e} called
    / a baby {e} is called what / what do we call a little {e} / what is the young of the {e} called
    / what is a newborn {e} called
clause: what a baby {e} is called / what you call a young {e} / what to call a baby {e} / how a young {e} is called
say: a baby {e} is called {v} / a young {e} is called {v} / the word for a baby {e} is {v}
terse: baby {e} / young {e} / baby {e} name / {e} baby / little {e} name / word for baby {e}
check: is a baby {e} called {v} / do you call a baby {e} {v} / is {v} a baby {e} / is a young {e} called {v}
back: which animal has a young called {v} / which animal's baby is called {v} / what animal is {v} the baby of
    / what does {v} grow up to be / {v} is the baby of which animal / {v} is the young of which animal
    / which animal starts life as {v} / what animal has a baby called {v} / from which animal does {v} come
    / {v} will become what animal / which animal is the mother of {v} / what kind of animal is {v} when it is big
    / which animal's young is {v} / {v} belongs to which animal
back_noun: the animal whose baby is called {v} / the animal whose young is called {v}
back_say: {v} is a baby {e}
some: name an animal whose baby is called {v}. / which animal, for example, has {v}? / name one animal that has {v}.
unseen: what is the little one of the {e} called / when a {e} has just been born, what is it called
unseen_back: who are the parents of {v}
""", near=_other_kind(BABY)),
    relation("legs of all", "animals", {plural(x.name): x.legs for x in ANIMALS if x.legs != "no"}, """
noun: the number of legs that {e} have / the number of legs of {e}
ask: how many legs do {e} have / how many legs have {e} / {e} have how many legs / on how many legs do {e} walk
    / how many legs have {e} got / how many legs do {e} walk on
clause: how many legs {e} have / on how many legs {e} walk
say: {e} have {v} legs / {e} walk on {v} legs / the number of legs that {e} have is {v}
then: how many legs do they have / on how many legs do they walk
terse: {b} legs / how many legs {b} / number of legs {b}
check: do {e} have {v} legs / do {e} walk on {v} legs / have {e} got {v} legs
unseen: how many feet leave prints when {e} walk
"""),
)

SCIENCE_RELATIONS = (
    relation("symbol", "element", {x.name: x.symbol for x in ELEMENTS}, """
noun: the symbol of {e} / the chemical symbol of {e} / the symbol for {e} / {e}'s symbol / the chemical symbol for {e}
    / the sign for {e} / the abbreviation of {e} / the short form of {e} in chemistry
ask: which symbol does {e} have / how do chemists write {e} / what symbol stands for {e} / how is {e} abbreviated
    / what letters stand for {e} / which letters stand for {e} in chemistry / what is {e} in the periodic table
    / how is {e} written in the periodic table / {e} has which symbol / what is the abbreviation for {e}
    / with what symbol do chemists write {e} / what is the chemical sign of {e}
clause: what the symbol of {e} is / which symbol {e} has / how chemists write {e} / what symbol stands for {e}
    / how {e} is written in the periodic table / what letters stand for {e}
say: the symbol of {e} is {v} / the chemical symbol for {e} is {v} / {e} has the symbol {v} / chemists write {e} as {v}
then: what is its symbol / what is the symbol / which symbol does it have / how do chemists write it
    / what letters stand for it / what is its chemical symbol
terse: {b} symbol / symbol {b} / symbol of {b} / chemical symbol {b} / {b}: symbol? / {b} abbreviation
check: is {v} the symbol of {e} / is the symbol of {e} {v} / does {e} have the symbol {v} / does {v} stand for {e}
    / is {e} written as {v}
back: which element has the symbol {v} / what element is {v} / what does {v} stand for in chemistry
    / which element is written as {v} / {v} is the symbol of which element / what element does {v} stand for
    / {v} stands for which element / which element do chemists write as {v} / what is the element {v}
    / what does the symbol {v} mean / which substance has the symbol {v}
    / what does {v} mean in chemistry / what is {v} in chemistry / which chemical element is {v}
    / for which element do we write {v} / what is meant by {v} in the periodic table / which name belongs to {v}
back_noun: the element with the symbol {v} / the element that has the symbol {v} / the name of the element {v}
    / the element that {v} stands for
back_say: {v} is the symbol of {e}
unseen: what would I write for {e} in a formula / which letter or letters mean {e}
unseen_back: what does a chemist mean by {v}
"""),
    relation("number", "element", {x.name: x.number for x in ELEMENTS}, """
noun: the atomic number of {e} / {e}'s atomic number / the number of protons in {e}
    / the number of {e} in the periodic table / the number of protons of {e}
ask: which atomic number does {e} have / how many protons does {e} have / what atomic number does {e} have
    / how many protons are in an atom of {e} / which number does {e} have in the periodic table
    / {e} has which atomic number / how many protons are there in {e} / what number is {e} in the periodic table
clause: what the atomic number of {e} is / which atomic number {e} has / how many protons {e} has
    / which number {e} has in the periodic table
say: the atomic number of {e} is {v} / {e} has the atomic number {v} / {e} is element number {v}
then: what is its atomic number / how many protons does it have / what is the atomic number
    / which number does it have in the periodic table / what number is it
terse: {b} atomic number / atomic number {b} / atomic number of {b} / {b} protons / {b} number / {b}: atomic number?
check: is {v} the atomic number of {e} / is the atomic number of {e} {v} / does {e} have the atomic number {v}
    / is {e} element number {v} / does {e} have {v} protons
back: which element has the atomic number {v} / what is the element number {v} / which element is number {v}
    / what element has {v} protons / which element has {v} protons / what is element {v} / which element is element {v}
    / which chemical element has {v} protons / an atom of which element has {v} protons
    / {v} is the atomic number of which element / what element is number {v} in the periodic table
back_noun: the element with the atomic number {v} / element number {v} / the element with {v} protons
    / the element that has the atomic number {v}
back_say: the element with the atomic number {v} is {e}
unseen: at which number would I find {e} in the periodic table
unseen_back: whose atoms contain {v} protons
"""),
    relation("state", "element", {x.name: x.state for x in ELEMENTS}, """
noun: the state of {e} at room temperature / the normal state of {e}
ask: is {e} a solid, a liquid or a gas / what state is {e} in at room temperature / is {e} solid, liquid or gas
    / in which state is {e} at room temperature / what is {e} at room temperature, a solid, a liquid or a gas
    / what state does {e} have in a normal room
clause: what state {e} is in at room temperature / whether {e} is a solid, a liquid or a gas
say: at room temperature {e} is a {v} / {e} is a {v} at room temperature
then: is it a solid, a liquid or a gas / what state is it in at room temperature / is it solid, liquid or gas
terse: {b} state / {b} solid liquid or gas / state of {b}
check: is {e} a {v} / is {e} a {v} at room temperature
unseen: if I had {e} in a glass at home, would it be a solid, a liquid or a gas
"""),
    relation("element", "element", {x.name: x.kind for x in ELEMENTS}, """
noun: the group of {e} / the kind of element that {e} is / the type of element that {e} is
ask: what kind of element is {e} / is {e} a metal or a nonmetal / what type of element is {e}
    / what sort of element is {e} / {e} is what kind of element / is {e} a metal, a metalloid, a nonmetal or a noble gas
clause: what kind of element {e} is / what sort of element {e} is / whether {e} is a metal or a nonmetal
say: {e} is an element of the kind {v} / {e} is a {v}
then: what kind of element is it / what type of element is it / is it a metal or a nonmetal
terse: {b} kind of element / {b} metal or nonmetal / {b} element type
check: is {e} an element of the kind {v} / is {e} a {v}
unseen: how do chemists classify {e}
""", near=lambda entity, value: {value, _elements[entity]} == {"nonmetal", "noble gas"}),
    relation("planet", "planet", {x.name: x.place for x in PLANETS}, """
noun: the place of {e} in the order from the sun / the position of {e} counted from the sun
    / the place of {e} among the planets
ask: which planet from the sun is {e} / where is {e} in the order of the planets / in what place from the sun is {e}
    / which place does {e} have among the planets / what number from the sun is {e} / where does {e} come from the sun
clause: which planet from the sun {e} is / where {e} is in the order of the planets / in what place {e} comes
say: counted from the sun, {e} comes {v} / {e} is the {v} planet from the sun / in the order from the sun, {e} comes {v}
then: which planet from the sun is it / what place from the sun does it have / where is it in the order of the planets
terse: {b} position from the sun / {b} order from sun / place of {b}
check: counted from the sun, is {e} the {v} planet / is {e} the {v} planet from the sun / is {e} the {v} planet
    / does {e} come {v} from the sun
back: which planet is the {v} from the sun / what is the {v} planet from the sun / which is the {v} planet
    / what planet is {v} from the sun / which planet comes {v} / what planet comes {v} from the sun
    / counted from the sun, which planet is the {v}
back_noun: the {v} planet from the sun / the {v} planet / the planet that comes {v} from the sun
    / the {v} planet of the solar system
back_say: the {v} planet from the sun is {e}
unseen: flying outward from the sun, as which planet would I meet {e}
unseen_back: flying outward from the sun, which planet would I meet {v}
"""),
    relation("giant", "planet", {x.name: x.kind for x in PLANETS}, """
noun: the kind of planet that {e} is / the type of planet that {e} is
ask: what kind of planet is {e} / what type of planet is {e} / what sort of planet is {e} / {e} is what kind of planet
clause: what kind of planet {e} is / what sort of planet {e} is
say: the planet {e} is a kind of {v} / as a planet, {e} is a kind of {v}
then: what kind of planet is it / what type of planet is that
terse: {b} planet type / {b} kind of planet
check: is the planet {e} a kind of {v} / does {e} belong to the planets of the kind {v}
unseen: how do astronomers classify {e}
"""),
)

RELATIONS: tuple[Relation, ...] = (*COUNTRY_RELATIONS, *ANIMAL_RELATIONS, *SCIENCE_RELATIONS, *EVERYDAY)
BY_NAME = {of.name: of for of in RELATIONS}
