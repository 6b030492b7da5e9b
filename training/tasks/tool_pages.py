"""Invented things that only a look-up knows, the pages about them, and how their properties are asked and said.

Names are put together from syllables, so nearly every one is new; values are numbers, names of other invented things
or common words. Nothing here is about the real world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from .invented import COLORS, JOBS, PEOPLE

FIRST = ("Bal", "Bor", "Cal", "Dar", "Del", "Dor", "El", "Fal", "Far", "Gar", "Hal", "Hor", "Jor", "Kal", "Kel", "Lor",
         "Mal", "Mar", "Mel", "Nor", "Or", "Pal", "Ral", "Ren", "Sal", "Sel", "Sor", "Tal", "Tel", "Tor", "Ul", "Val",
         "Vel", "Vor", "Wil", "Yar", "Zan", "Zel", "Zor")
MIDDLE = ("", "", "a", "e", "i", "o", "an", "ar", "en", "er", "il", "in", "on", "or")
LAST = ("dan", "den", "din", "don", "dor", "gan", "gar", "kin", "lan", "len", "lin", "lon", "mar", "mas", "mer", "min",
        "mon", "nar", "nas", "nel", "nor", "ran", "rel", "ren", "rin", "ris", "ron", "ros", "san", "sel", "tan", "tas",
        "tel", "ten", "tin", "ton", "tor", "van", "ven", "vik", "vin", "von")
LANDS = ("Arvenia", "Belloria", "Corvania", "Delmora", "Estaria", "Falmark", "Gorland", "Hestia", "Ilmaria", "Jorvia",
         "Kestland", "Lormark", "Mervania", "Norland", "Ostania", "Palmoria", "Rovenia", "Selmark", "Torvania")
SIDES = ("north", "south", "east", "west")
ADJECTIVES = ("Silver", "Golden", "Quiet", "Last", "First", "Broken", "Hidden", "Long", "Red", "Blue", "White", "Old",
              "Empty", "Distant", "Frozen", "Little", "Lost", "Second", "Burning", "Secret")
NOUNS = ("Door", "River", "Garden", "Winter", "Letter", "House", "Road", "Bell", "Mirror", "Island", "Bridge", "Lamp",
         "Forest", "Tower", "Ship", "Window", "Song", "Key", "Clock", "Harbour")
GOODS = ("lamp", "chair", "table", "clock", "radio", "kettle", "camera", "bag", "tent", "desk", "printer", "drill",
         "guitar", "jacket", "mixer", "phone", "heater", "bicycle", "sofa", "carpet")


def word(rng: Random) -> str:
    return rng.choice(FIRST) + rng.choice(MIDDLE) + rng.choice(LAST)


def person(rng: Random) -> str:
    return f"{rng.choice(PEOPLE)} {word(rng)}"


def book(rng: Random) -> str:
    title = f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
    return title if rng.random() < 0.3 else f"{title} of {word(rng)}"


def affixed(template: str) -> Callable[[Random], str]:
    return lambda rng: template.format(word(rng))


def number(low: int, high: int) -> Callable[[Random], str]:
    return lambda rng: str(rng.randint(low, high))


def one_of(words: tuple[str, ...]) -> Callable[[Random], str]:
    return lambda rng: rng.choice(words)


@dataclass(frozen=True, slots=True)
class Rank:
    """How two things are compared by a number.

    more, less: what the thing with the larger, the smaller number does ("is higher"). asks: where `tool_asks` has the
    questions about the difference and the sum; the unseen ones, if any, are for the evaluation alone. {a} is the one
    that `more` fits, or `less` where `down` is set.
    """

    more: str
    less: str
    asks: str
    gap_unseen: tuple[str, ...]
    gap_said: str
    down: bool = False
    total_unseen: tuple[str, ...] = ()
    total_said: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A property. told: sentences of a page. unseen: questions that only the evaluation asks; `tool_asks` has others.

    said: the answer as a sentence. link: the kind of thing that the value names; by: how a question says that thing.
    """

    noun: str
    value: Callable[[Random], str]
    told: tuple[str, ...]
    unseen: tuple[str, ...]
    said: str
    link: str = ""
    by: tuple[str, ...] = ()
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """name: draws a name. bare: how the name is made from the word alone, if it is ("Mount {}")."""

    called: str
    name: Callable[[Random], str]
    opening: tuple[str, ...]
    fields: tuple[Field, ...]
    bare: str = ""


@dataclass(frozen=True, slots=True)
class Thing:
    """An invented thing; `values` are by the noun of the field."""

    kind: Kind
    name: str
    values: dict[str, str]

    def __getitem__(self, field: Field) -> str:
        return self.values[field.noun]

    def page(self, rng: Random, wanted: Field, *, silent: bool = False) -> str:
        """Some sentences about it; the wanted property is among them, unless the page is to be silent about it."""
        others = [f for f in self.kind.fields if f is not wanted]
        shown = rng.sample(others, rng.randint(1, 2)) + ([] if silent else [wanted])
        rng.shuffle(shown)
        opening = rng.choice(self.kind.opening).format(n=self.name, p=rng.choice(LANDS), d=rng.choice(SIDES))
        return " ".join([opening, *(rng.choice(f.told).format(n=self.name, v=self[f]) for f in shown)])


FOUNDED = Rank(
    "was founded later", "was founded earlier",
    "founded",
    ("When {b} was founded, how old was {a} already?",), "{a} is {d} years older than {b}.", down=True)

MOUNTAIN = Kind("mountain", affixed("Mount {}"), (
    "{n} is a mountain in the {d} of {p}.", "{n} is one of the mountains of {p}.", "{n} stands in the {d} of {p}."), (
    Field("height", number(1000, 8999), (
        "It is {v} metres high.", "Its top is {v} metres above the sea.", "The summit stands at {v} metres.",
        "{n} has a height of {v} metres.", "It rises to {v} metres."),
        ("How many metres does one climb from the sea to the top of {n}?", "What is the elevation of {n}?"),
        "{n} is {v} metres high.",
        rank=Rank("is higher", "is lower", "mountain",
            ("{b} does not reach as high as {a}. How many metres are missing?",),
            "{a} is {d} metres higher than {b}.")),
    Field("year of the first climb", number(1750, 1990), (
        "It was first climbed in {v}.", "The first people reached its top in {v}.", "Its first climb was in {v}."),
        ("Since which year has {n} been conquered?", "In what year did the first climbers stand on {n}?"),
        "{n} was first climbed in {v}."),
    Field("range", lambda rng: f"{word(rng)} Range", (
        "It is part of the {v}.", "It belongs to the {v}."),
        ("Name the mountain range around {n}.",), "{n} is part of the {v}.")), bare="Mount {}")

TOWN = Kind("town", word, (
    "{n} is a town in the {d} of {p}.", "{n} is a small city in {p}.", "The town of {n} lies in the {d} of {p}."), (
    Field("population", number(1000, 99999), (
        "It has {v} inhabitants.", "{v} people live there.", "Its population is {v}.", "{n} is home to {v} people."),
        ("{n} is home to how many people?", "How many residents are counted in {n}?"),
        "{n} has {v} inhabitants.",
        rank=Rank("has more people", "has fewer people", "town",
            ("If everybody in {b} moved out, {a} would still have how many more people than {b} had?",),
            "{a} has {d} more people than {b}.",
            total_unseen=("If {a} and {b} became one town, how many people would live in it?",),
            total_said="Together {a} and {b} have {d} inhabitants.")),
    Field("founding year", number(1100, 1899), (
        "It was founded in {v}.", "The town dates from {v}.", "People founded it in {v}."),
        ("Since what year has {n} existed?", "How far back does {n} go? Give the year."),
        "{n} was founded in {v}.", rank=FOUNDED),
    Field("river", lambda rng: f"River {word(rng)}", (
        "It lies on the {v}.", "The {v} runs through it.", "Its river is the {v}."),
        ("Standing on a bridge in {n}, which river would I see?",), "{n} lies on the {v}.", "river",
        ("the river of {n}", "the river that runs through {n}")),
    Field("mayor", person, (
        "The mayor is {v}.", "Its mayor is {v}.", "{v} is the mayor."),
        ("Who runs the town hall of {n}?",), "The mayor of {n} is {v}.", "person",
        ("the mayor of {n}", "the person who is mayor of {n}"))))

RIVER = Kind("river", affixed("River {}"), (
    "{n} is a river in {p}.", "{n} is one of the rivers of {p}.", "{n} crosses the {d} of {p}."), (
    Field("length", number(1000, 6999), (
        "It is {v} kilometres long.", "Its length is {v} kilometres.", "From spring to mouth it runs {v} kilometres."),
        ("How many kilometres would a boat travel along all of {n}?",), "{n} is {v} kilometres long.",
        rank=Rank("is longer", "is shorter", "river",
            ("{b} is the shorter river. How many kilometres more does {a} run?",),
            "{a} is {d} kilometres longer than {b}.",
            total_unseen=("Laid end to end, how many kilometres would {a} and {b} cover?",),
            total_said="Together {a} and {b} are {d} kilometres long.")),
    Field("mouth", lambda rng: f"Lake {word(rng)}", (
        "It flows into {v}.", "It ends in {v}.", "Its water goes to {v}."),
        ("Following {n} down to its end, which lake do I reach?",), "{n} flows into {v}."),
    Field("source", affixed("Mount {}"), (
        "Its source is on {v}.", "It rises on {v}.", "Its spring is on {v}."),
        ("Following {n} up to its spring, which mountain do I reach?",), "{n} rises on {v}.", "mountain",
        ("the mountain where {n} rises", "the mountain with the source of {n}"))), bare="River {}")

PERSON = Kind("person", person, (
    "{n} is well known in {p}.", "{n} is famous in the {d} of {p}.", "Many people in {p} know {n}."), (
    Field("year of birth", number(1850, 1995), (
        "The year of birth is {v}.", "{n} was born in {v}.", "Born in {v}, {n} grew up in a large family."),
        ("In what year did the life of {n} begin?", "Which birth year does {n} have?"),
        "{n} was born in {v}.",
        rank=Rank("was born later", "was born earlier", "person",
            ("In the year when {b} was born, which age did {a} reach?",),
            "{a} is {d} years older than {b}.", down=True)),
    Field("birthplace", word, (
        "The birthplace is {v}.", "{n} comes from {v}.", "{n} was born in the town of {v}."),
        ("From which town does {n} come?",), "{n} was born in {v}.", "town",
        ("the birthplace of {n}", "the town where {n} was born")),
    Field("job", one_of(JOBS), (
        "The job of {n} is {v}.", "The profession of {n} is {v}.", "{n} learned the trade of {v}."),
        ("How does {n} earn money?", "Which trade does {n} follow?"), "The job of {n} is {v}.")))

BOOK = Kind("book", book, (
    "{n} is a book about life in {p}.", "{n} is a novel.", "{n} is a book that is read in {p}."), (
    Field("author", person, (
        "It was written by {v}.", "The author is {v}.", "{v} wrote it."),
        ("Whose work is the book {n}?", "Which writer gave us {n}?"), "{n} was written by {v}.", "person",
        ("the author of {n}", "the person who wrote {n}")),
    Field("year", number(1880, 2015), (
        "It came out in {v}.", "It was first printed in {v}.", "It was published in {v}."),
        ("Since which year can people buy {n}?",), "{n} came out in {v}.",
        rank=Rank("came out later", "came out earlier", "book",
            ("Readers of {a} had to wait how many years for {b}?",),
            "{a} came out {d} years before {b}.", down=True)),
    Field("number of pages", number(101, 989), (
        "It has {v} pages.", "The book is {v} pages long.", "It runs to {v} pages."),
        ("On which page does {n} end?",), "{n} has {v} pages.")))

COMPANY = Kind("company", affixed("{} Works"), (
    "{n} is a company in {p}.", "{n} is one of the large firms of {p}.", "{n} makes goods in the {d} of {p}."), (
    Field("number of employees", number(1000, 89999), (
        "It has {v} employees.", "{v} people work there.", "It employs {v} people."),
        ("How large is the staff of {n}?", "{n} pays how many workers?"), "{n} has {v} employees.",
        rank=Rank("employs more people", "employs fewer people", "company",
            ("{b} wants to be as large as {a}. How many people must it hire?",),
            "{a} has {d} more employees than {b}.",
            total_unseen=("If {a} and {b} join, how large is the new staff?",),
            total_said="Together {a} and {b} have {d} employees.")),
    Field("founding year", number(1850, 2010), (
        "It was founded in {v}.", "The firm dates from {v}.", "It opened its doors in {v}."),
        ("Since what year has {n} been in business?",), "{n} was founded in {v}.", rank=FOUNDED),
    Field("director", person, (
        "The director is {v}.", "It is led by {v}.", "{v} is its director."),
        ("Who is in charge of {n}?",), "The director of {n} is {v}.", "person",
        ("the director of {n}", "the person who leads {n}")),
    Field("home town", word, (
        "Its home town is {v}.", "Its main office is in {v}.", "It has its seat in {v}."),
        ("To which town must I travel to visit the head office of {n}?",), "{n} is based in {v}.", "town",
        ("the home town of {n}", "the town where {n} is based"))), bare="{} Works")

PRODUCT = Kind("product", lambda rng: f"{word(rng)} {rng.choice(GOODS)}", (
    "The {n} is sold in {p}.", "The {n} comes from the {d} of {p}.", "The {n} is popular in {p}."), (
    Field("price", number(13, 999), (
        "It costs {v} dollars.", "Its price is {v} dollars.", "One pays {v} dollars for it.",
        "The shops sell it for {v} dollars."),
        ("For how many dollars can I buy the {n}?", "What will the shop charge me for the {n}?"),
        "The {n} costs {v} dollars.",
        rank=Rank("costs more", "costs less", "product", (), "")),
    Field("weight", number(1010, 9899), (
        "It weighs {v} grams.", "Its weight is {v} grams.", "On the scales it shows {v} grams."),
        ("If I put the {n} on the scales, how many grams do I read?",), "The {n} weighs {v} grams.",
        rank=Rank("weighs more", "weighs less", "product",
            ("The {b} is the lighter one. How many grams does the {a} have more?",),
            "The {a} weighs {d} grams more than the {b}.",
            total_unseen=("How many grams is a parcel with one {a} and one {b}, without the box?",),
            total_said="Together the {a} and the {b} weigh {d} grams.")),
    Field("colour", one_of(COLORS), (
        "It is {v}.", "Its colour is {v}.", "It is painted {v}."),
        ("If I order the {n}, which colour will I get?",), "The {n} is {v}."),
    Field("maker", affixed("{} Works"), (
        "It is made by {v}.", "The maker is {v}.", "{v} makes it."),
        ("From which company's factory does the {n} come?",), "The {n} is made by {v}.", "company",
        ("the company that makes the {n}", "the maker of the {n}"))))

TOWER = Kind("tower", affixed("{} Tower"), (
    "{n} is a tower in {p}.", "{n} is a well-known building in {p}.", "{n} stands in the {d} of {p}."), (
    Field("number of steps", number(1000, 2999), (
        "It has {v} steps.", "{v} steps lead to the top.", "One climbs {v} steps to its roof."),
        ("How many steps must I climb to see the view from {n}?",), "{n} has {v} steps.",
        rank=Rank("has more steps", "has fewer steps", "tower",
            ("After {b}, I climb {a}. How many steps more is that?",), "{a} has {d} more steps than {b}.",
            total_unseen=("I climb {a} and then {b}. How many steps is that in all?",),
            total_said="Together {a} and {b} have {d} steps.")),
    Field("opening year", number(1880, 2015), (
        "It opened in {v}.", "It was opened in {v}.", "Visitors have come since {v}."),
        ("Since what year have people been let into {n}?",), "{n} opened in {v}.",
        rank=Rank("opened later", "opened earlier", "opening",
            ("{a} stood open for how many years when {b} opened?",),
            "{a} opened {d} years before {b}.", down=True)),
    Field("architect", person, (
        "The architect was {v}.", "It was planned by {v}.", "{v} was its architect."),
        ("Who drew the plans for {n}?",), "The architect of {n} was {v}.", "person",
        ("the architect of {n}", "the person who planned {n}"))), bare="{} Tower")

KINDS = (MOUNTAIN, TOWN, RIVER, PERSON, BOOK, COMPANY, PRODUCT, TOWER)
BY_NAME = {kind.called: kind for kind in KINDS}
LINKS = tuple((kind, field) for kind in KINDS for field in kind.fields if field.link)
RANKED = tuple((kind, field) for kind in KINDS for field in kind.fields if field.rank)


def thing(rng: Random, kind: Kind, name: str = "") -> Thing:
    return Thing(kind, name or kind.name(rng), {field.noun: field.value(rng) for field in kind.fields})
