"""How each kind of fact may be asked and said: the phrasings over the tables of `world`."""

from __future__ import annotations

from dataclasses import dataclass

from .items import a
from .world import (
    ANIMALS,
    AUTHORS,
    COLORS,
    COUNTRIES,
    DISCOVERERS,
    ELEMENTS,
    HELLO,
    INVENTORS,
    OPPOSITES,
    PLANETS,
    RECORDS,
    plural,
)


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """`facts` maps an entity {e} to its value {v}.

    phrases: noun phrases that mean the value; FRAMES turns each into questions.
    questions: questions of its own. says: sentences whose last word is the value, but for a full stop.
    reverse: questions from value to entity; only values that one entity has are asked.
    check: a yes-or-no question.
    """

    name: str
    facts: dict[str, str]
    phrases: tuple[str, ...]
    questions: tuple[str, ...]
    says: tuple[str, ...]
    check: str
    reverse: tuple[str, ...] = ()
    reverse_says: str = ""


FRAMES = ("What is {p}?", "What is {p}?", "Name {p}.", "Tell me {p}.", "Please tell me {p}.", "Do you know {p}?",
          "Can you tell me {p}?", "I would like to know {p}.", "What's {p}?", "Give me {p}.", "{p}?",
          "Could you tell me {p}?", "Please name {p}.", "Say what {p} is.", "Do you know what {p} is?")

UNSEEN_FRAMES = ("I forgot {p}. What is it?", "Would you please tell me what {p} is?", "I need to know {p}.",
                 "Quick question: what is {p}?", "Remind me what {p} is.")
"""Phrasings that only the evaluation uses."""

_land = {c.name: c for c in COUNTRIES}

RELATIONS = (
    Relation(
        "capital", {n: c.capital for n, c in _land.items()},
        ("the capital of {e}", "the capital city of {e}", "{e}'s capital", "the name of the capital of {e}"),
        ("Which city is the capital of {e}?", "What city is the capital of {e}?", "{e} has which capital?"),
        ("The capital of {e} is {v}.", "The capital city of {e} is {v}.", "{e}'s capital is {v}."),
        "Is {v} the capital of {e}?",
        ("Which country has {v} as its capital?", "{v} is the capital of which country?",
         "What country is {v} the capital of?"), "{v} is the capital of {e}."),
    Relation(
        "continent", {n: c.continent for n, c in _land.items()},
        ("the continent of {e}", "the continent that {e} is in", "{e}'s continent"),
        ("Which continent is {e} in?", "What continent is {e} on?", "Where is {e}?", "On which continent is {e}?",
         "Where in the world is {e}?"),
        ("{e} is in {v}.", "{e} is a country in {v}.", "{e} lies in {v}."), "Is {e} in {v}?"),
    Relation(
        "language", {n: c.language for n, c in _land.items()},
        ("the language of {e}", "the main language of {e}", "{e}'s language", "the language spoken in {e}"),
        ("Which language do people speak in {e}?", "What language is spoken in {e}?", "What do people in {e} speak?",
         "Which language is spoken in {e}?"),
        ("The language of {e} is {v}.", "People in {e} speak {v}.", "In {e} people speak {v}."),
        "Do people in {e} speak {v}?"),
    Relation(
        "currency", {n: c.currency for n, c in _land.items()},
        ("the currency of {e}", "{e}'s currency", "the money used in {e}"),
        ("Which currency does {e} use?", "What currency is used in {e}?", "What money do people use in {e}?",
         "How do people pay in {e}?"),
        ("The currency of {e} is the {v}.", "{e} uses the {v}.", "People in {e} pay with the {v}."),
        "Does {e} use the {v}?"),
    Relation(
        "sight", {s: c.name for c in COUNTRIES for s in c.sights},
        ("the country of {e}", "the country where {e} is"),
        ("Where is {e}?", "In which country is {e}?", "Which country is {e} in?", "Where can I see {e}?"),
        ("{e} is in {v}.", "You can see {e} in {v}."), "Is {e} in {v}?"),
    Relation(
        "class", {a(x.name): x.kind for x in ANIMALS},
        ("the animal class of {e}", "the class of {e}"),
        ("What kind of animal is {e}?", "What class of animal is {e}?", "Which animal class does {e} belong to?"),
        ("{e} is a kind of {v}.",), "Is {e} a kind of {v}?"),
    Relation(
        "food", {a(x.name): x.food for x in ANIMALS},
        ("the food of {e}", "the usual food of {e}"),
        ("What does {e} eat?", "What do you feed {e}?", "What food does {e} eat?"),
        ("{e} eats {v}.", "The food of {e} is {v}."), "Does {e} eat {v}?"),
    Relation(
        "home", {a(x.name): x.home for x in ANIMALS},
        ("the home of {e}", "the habitat of {e}"),
        ("Where does {e} live?", "Where can you find {e}?", "What is the natural home of {e}?"),
        ("{e} lives in {v}.", "You can find {e} in {v}."), "Does {e} live in {v}?"),
    Relation(
        "young", {a(x.name): a(x.young) for x in ANIMALS},
        ("the name for a young one of {e}", "the word for the baby of {e}"),
        ("What is a baby of {e} called?", "What do you call the young of {e}?"),
        ("The young of {e} is called {v}.",), "Is the young of {e} called {v}?"),
    Relation(
        "legs", {a(x.name): x.legs for x in ANIMALS if x.legs != "no"},
        ("the number of legs of {e}", "the number of legs that {e} has"),
        ("How many legs does {e} have?", "How many legs has {e}?"),
        ("The number of legs of {e} is {v}.",), "Is the number of legs of {e} {v}?"),
    Relation(
        "classes", {plural(x.name): plural(x.kind) for x in ANIMALS}, ("the animal class of {e}",),
        ("What kind of animals are {e}?", "What are {e}?", "Which animal class do {e} belong to?"),
        ("{e} are {v}.",), "Are {e} {v}?"),
    Relation(
        "foods", {plural(x.name): x.food for x in ANIMALS}, ("the food of {e}", "the favorite food of {e}"),
        ("What do {e} eat?", "What do {e} like to eat?", "What do you feed {e}?"),
        ("{e} eat {v}.", "{e} like to eat {v}."), "Do {e} eat {v}?"),
    Relation(
        "homes", {plural(x.name): x.home for x in ANIMALS}, ("the home of {e}", "the natural home of {e}"),
        ("Where do {e} live?", "Where can I find {e}?", "Where are {e} at home?"),
        ("{e} live in {v}.", "You find {e} in {v}."), "Do {e} live in {v}?"),
    Relation(
        "baby", {x.name: a(x.young) for x in ANIMALS}, ("the name for a baby {e}", "the word for a young {e}"),
        ("What is a baby {e} called?", "What do you call a baby {e}?", "How do you call a young {e}?"),
        ("A baby {e} is called {v}.",), "Is a baby {e} called {v}?"),
    Relation(
        "legs of all", {plural(x.name): x.legs for x in ANIMALS if x.legs != "no"},
        ("the number of legs that {e} have",), ("How many legs do {e} have?", "How many legs have {e}?"),
        ("The number of legs that {e} have is {v}.",), "Is the number of legs that {e} have {v}?"),
    Relation(
        "symbol", {x.name: x.symbol for x in ELEMENTS},
        ("the symbol of {e}", "the chemical symbol of {e}", "the symbol for {e}", "{e}'s symbol"),
        ("Which symbol does {e} have?", "How do chemists write {e}?"),
        ("The symbol of {e} is {v}.", "The chemical symbol for {e} is {v}."), "Is {v} the symbol of {e}?",
        ("Which element has the symbol {v}?", "What element is {v}?"), "{v} is the symbol of {e}."),
    Relation(
        "number", {x.name: x.number for x in ELEMENTS},
        ("the atomic number of {e}", "{e}'s atomic number"),
        ("Which atomic number does {e} have?", "How many protons does {e} have?"),
        ("The atomic number of {e} is {v}.", "{e} has the atomic number {v}."), "Is {v} the atomic number of {e}?",
        ("Which element has the atomic number {v}?", "What is the element number {v}?"),
        "The element with the atomic number {v} is {e}."),
    Relation(
        "state", {x.name: x.state for x in ELEMENTS},
        ("the state of {e} at room temperature",),
        ("Is {e} a solid, a liquid or a gas?", "What state is {e} in at room temperature?"),
        ("At room temperature {e} is a {v}.",), "Is {e} a {v}?"),
    Relation(
        "element", {x.name: x.kind for x in ELEMENTS},
        ("the group of {e}", "the kind of element that {e} is"),
        ("What kind of element is {e}?", "Is {e} a metal or a nonmetal?"),
        ("{e} is an element of the kind {v}.",), "Is {e} an element of the kind {v}?"),
    Relation(
        "planet", {x.name: x.place for x in PLANETS},
        ("the place of {e} in the order from the sun",),
        ("Which planet from the sun is {e}?", "Where is {e} in the order of the planets?"),
        ("Counted from the sun, {e} comes {v}.",), "Counted from the sun, is {e} the {v} planet?",
        ("Which planet is the {v} from the sun?", "What is the {v} planet from the sun?",
         "Which is the {v} planet?"), "The {v} planet from the sun is {e}."),
    Relation(
        "giant", {x.name: x.kind for x in PLANETS},
        ("the kind of planet that {e} is",), ("What kind of planet is {e}?", "What type of planet is {e}?"),
        ("The planet {e} is a kind of {v}.",), "Is the planet {e} a kind of {v}?"),
    Relation(
        "inventor", INVENTORS,
        ("the inventor of {e}", "the name of the inventor of {e}"),
        ("Who invented {e}?", "Who was the inventor of {e}?", "Who made the first version of {e}?"),
        ("The inventor of {e} is {v}.", "{e} was invented by {v}."), "Did {v} invent {e}?",
        ("What did {v} invent?", "What is {v} known for?"), "{v} invented {e}."),
    Relation(
        "discoverer", DISCOVERERS,
        ("the discoverer of {e}", "the name of the discoverer of {e}"),
        ("Who discovered {e}?", "Who was the discoverer of {e}?"),
        ("The discoverer of {e} is {v}.", "The discovery of {e} was made by {v}."), "Did {v} discover {e}?",
        ("What did {v} discover?", "What is {v} known for?"), "{v} discovered {e}."),
    Relation(
        "author", AUTHORS,
        ("the author of {e}", "the writer of {e}", "the name of the author of {e}"),
        ("Who wrote {e}?", "Who is the author of {e}?", "Which author wrote {e}?"),
        ("The author of {e} is {v}.", "{e} was written by {v}."), "Did {v} write {e}?",
        ("What did {v} write?", "Which book did {v} write?"), "{v} wrote {e}."),
    Relation(
        "opposite", {**OPPOSITES, **{v: k for k, v in OPPOSITES.items()}},
        ("the opposite of {e}", "the opposite of the word {e}"), ("Which word is the opposite of {e}?",),
        ("The opposite of {e} is {v}.",), "Is {v} the opposite of {e}?"),
    Relation(
        "color", COLORS, ("the color of {e}", "the usual color of {e}"),
        ("What color is {e}?", "Which color is {e}?"), ("The color of {e} is {v}.",), "Is the color of {e} {v}?"),
    Relation(
        "record", RECORDS, ("{e}",), ("Which one is {e}?",), ("{e} is {v}.",),
        "Is {v} {e}?"),
    Relation(
        "hello", HELLO, ("the word for hello in {e}", "the {e} word for hello"),
        ("How do you say hello in {e}?", "How do people say hello in {e}?"),
        ("The word for hello in {e} is {v}.", "Hello in {e} is {v}."), "Is {v} the word for hello in {e}?"),
)
