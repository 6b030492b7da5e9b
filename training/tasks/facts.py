"""Questions and sentences about the closed world, in many wordings."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import accumulate
from random import Random

from ..items import JOINT, Item, Passage, a, listing, tidy, upper_first
from ..relations import FRAMES, RELATIONS, UNSEEN_FRAMES, Relation
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, bare, plural

YES_NO = ("Yes", "No")
NUMBER_WORDS = {2: "two", 3: "three", 4: "four"}
WEIGHTS = list(accumulate(len(r.facts) ** 0.7 + (6 if r.name == "capital" else 0) for r in RELATIONS))


def fill(template: str, relation: Relation, entity: str, value: str | None = None) -> str:
    value = relation.facts[entity] if value is None else value
    return tidy(upper_first(template.format(e=entity, v=value)).replace("s's ", "s' "))


@cache
def values(relation: Relation) -> list[str]:
    return sorted(set(relation.facts.values()))


@cache
def unique(relation: Relation) -> list[str]:
    """The entities that nothing else shares its value with."""
    counts = Counter(relation.facts.values())
    return [e for e, v in relation.facts.items() if counts[v] == 1]


def pick(rng: Random) -> tuple[Relation, str]:
    """A relation and an entity; relations with more facts come up more often."""
    relation = rng.choices(RELATIONS, cum_weights=WEIGHTS)[0]
    return relation, rng.choice(list(relation.facts))


def wording(rng: Random, relation: Relation, frames: tuple[str, ...] = FRAMES) -> str:
    """A question template with {e} in it."""
    own = len(relation.questions) if frames is FRAMES else 0
    at = rng.randrange(own + 2 * len(relation.phrases))
    if at < own:
        return relation.questions[at]
    return rng.choice(frames).format(p=rng.choice(relation.phrases))


def _item(relation: Relation, entity: str, question: str, short: str, full: str) -> Item:
    return Item(f"fact/{relation.name}/{question}", question, short, full)


def question(rng: Random, frames: tuple[str, ...] = FRAMES) -> Item:
    relation, entity = pick(rng)
    ask = fill(wording(rng, relation, frames), relation, entity)
    return _item(relation, entity, ask, relation.facts[entity], fill(relation.says[0], relation, entity))


def unseen_question(rng: Random) -> Item:
    """A fact asked in a wording that training never uses."""
    return question(rng, UNSEEN_FRAMES)


def reverse_question(rng: Random) -> Item:
    relation = rng.choice([r for r in RELATIONS if r.reverse])
    entity = rng.choice(unique(relation))
    return _item(relation, entity, fill(rng.choice(relation.reverse), relation, entity), entity,
                 fill(relation.reverse_says, relation, entity))


def yes_no(rng: Random) -> Item:
    relation, entity = pick(rng)
    truth = relation.facts[entity]
    value = truth if rng.random() < 0.5 else rng.choice(values(relation))
    ask = fill(relation.check, relation, entity, value)
    short = YES_NO[value != truth]
    full = f"{short}, {_lower_first(fill(relation.says[0], relation, entity))}"
    return Item(f"fact/{relation.name}/{ask}", ask, short, full, choices=YES_NO)


def true_false(rng: Random) -> Item:
    relation, entity = pick(rng)
    truth = relation.facts[entity]
    value = truth if rng.random() < 0.5 else rng.choice(values(relation))
    said = fill(rng.choice(relation.says), relation, entity, value)
    short = str(value == truth)
    full = f"{short}. {fill(relation.says[0], relation, entity)}"
    return Item(f"truth/{said}", f"True or false: {said}", short, full, given=said,
                labels=("Statement", "True or false"), choices=("True", "False"))


def choice(rng: Random) -> Item:
    """A question with its possible answers named."""
    relation, entity = pick(rng)
    truth = relation.facts[entity]
    others = [v for v in values(relation) if v != truth]
    options = [truth, *rng.sample(others, min(len(others), rng.randint(1, 3)))]
    rng.shuffle(options)
    ask = fill(wording(rng, relation), relation, entity)
    return Item(f"choice/{ask}/{truth}", f"{ask} Choose from: {', '.join(options)}.", truth,
                fill(relation.says[0], relation, entity), choices=tuple(options))


def unknown(rng: Random) -> Item:
    """A question about something that does not exist."""
    relation = rng.choice(RELATIONS)
    name = "".join(rng.choice("bdfglmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4))).capitalize()
    ask = fill(wording(rng, relation), relation, name, "")
    return Item(f"unknown/{ask}", ask, "I do not know", f"I do not know {name}.")


def sights(rng: Random) -> Item:
    country = rng.choice(COUNTRIES)
    ask = rng.choice(("Name two sights in {e}.", "List two local attractions in {e}.", "What can I visit in {e}?",
                      "What should I see in {e}?", "Name two things to see in {e}.")).format(e=country.name)
    return Item(f"fact/sights/{ask}", ask, listing(country.sights),
                f"Two sights in {country.name} are {listing(country.sights)}.")


@cache
def groups() -> dict[str, list[str]]:
    """The classes of the world that have more than three members."""
    found: dict[str, list[str]] = {}
    for land in COUNTRIES:
        found.setdefault(f"countries in {land.continent}", []).append(land.name)
    for animal in ANIMALS:
        found.setdefault(plural(animal.kind), []).append(animal.name)
    for element in ELEMENTS:
        found.setdefault(f"elements that are a {element.state}", []).append(element.name)
    found["planets"] = [planet.name for planet in PLANETS]
    return {group: names for group, names in found.items() if len(names) > 3}


def members(rng: Random) -> Item:
    """Some members of a class, in the order of the tables; which ones is free."""
    group, names = rng.choice(list(groups().items()))
    count = rng.choice((2, 3, 3, 4))
    names = sorted(rng.sample(names, count), key=names.index)
    ask = rng.choice(("Name {n} {g}.", "List {n} {g}.", "Give me {n} {g}.", "What are {n} {g}?")).format(
        n=NUMBER_WORDS[count], g=group)
    return Item(f"members/{group}/{'/'.join(names)}", ask, ", ".join(names),
                "\n".join(f"{i}. {upper_first(name)}" for i, name in enumerate(names, 1)))


def capitals(rng: Random) -> Item:
    """Several countries with a fact each."""
    wanted, at = rng.choice((("capitals", 1), ("languages", 3), ("currencies", 4), ("continents", 2)))
    lands = sorted(rng.sample(COUNTRIES, rng.choice((2, 3, 4))), key=COUNTRIES.index)
    number = NUMBER_WORDS[len(lands)]
    ask = rng.choice(("List {n} countries and their {w}.", "Name {n} countries with their {w}.",
                      "Give me {n} countries and their {w}.")).format(n=number, w=wanted)
    text = "\n".join(f"{i}. {upper_first(land.name)}: {land[at]}" for i, land in enumerate(lands, 1))
    return Item(f"members/{wanted}/{text}", ask, text, text)


def planets_in_order(rng: Random) -> Item:
    ask = rng.choice(("List the planets.", "Name the planets.", "List all planets in order.", "What are the planets?",
                      "Name the planets of the solar system.", "Which planets are there?"))
    text = "\n".join(f"{i}. {planet.name}" for i, planet in enumerate(PLANETS, 1))
    return Item("planets", ask, ", ".join(planet.name for planet in PLANETS), text)


def members_text(rng: Random) -> Passage:
    """A numbered list of members of a class in running text."""
    group, names = rng.choice(list(groups().items()))
    chosen = sorted(rng.sample(names, min(len(names), rng.randint(3, 6))), key=names.index)
    lead = rng.choice(("{G}:\n", "A list of {g}:\n", "Some {g}:\n", "Write a list of {g}:\n")).format(
        g=group, G=upper_first(group))
    lines = "\n".join(f"{i}.{JOINT} {upper_first(name)}" for i, name in enumerate(chosen, 1))
    return Passage(f"members/{group}/{'/'.join(chosen)}", lead + lines)


def two_questions(rng: Random) -> Item:
    """Two facts of one country asked in one sentence."""
    land = rng.choice(COUNTRIES)
    parts = rng.sample((("what is the capital of {e}", f"The capital of {land.name} is {land.capital}.", land.capital),
                        ("what language do people speak in {e}", f"People in {land.name} speak {land.language}.",
                         land.language),
                        ("what is the currency of {e}", f"The currency of {land.name} is the {land.currency}.",
                         land.currency),
                        ("which continent is {e} in", f"{upper_first(land.name)} is in {land.continent}.",
                         land.continent)), 2)
    (first, say_first, short_first), (second, say_second, short_second) = parts
    then = second.replace("{e}", rng.choice((land.name, "it"))).replace("in it", "there")
    ask = upper_first(f"{first.format(e=land.name)}{rng.choice((' and ', ', and '))}{then}?")
    return Item(f"two/{ask}", ask, f"{short_first} and {short_second}", tidy(f"{say_first} {say_second}"))


def statement(rng: Random) -> Passage:
    """One to six facts as plain sentences, of one thing or of many."""
    said = []
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        relation, entity = pick(rng)
        template = rng.choice(relation.says).replace(" {v}", JOINT + " {v}")
        if relation.reverse_says and entity in unique(relation) and rng.random() < 0.3:
            template = relation.reverse_says.replace(" {e}", JOINT + " {e}")
        said.append(fill(template, relation, entity))
    text = rng.choice((" ", " ", "\n")).join(said)
    return Passage(f"statement/{text.replace(JOINT, '')}", text)


def _lower_first(text: str) -> str:
    """Lower the first letter of a sentence that starts with a common word."""
    common = ("The ", "A ", "An ", "People ", "In ", "At ", "You ", "Counted ")
    return text[0].lower() + text[1:] if text.startswith(common) else text


def describe(rng: Random) -> Item:
    """A short paragraph about one thing of the world."""
    make = rng.choice((_country, _country, _animal, _element, _planet))
    name, text = make(rng)
    ask = rng.choice(("Tell me about {n}.", "Describe {n}.", "What do you know about {n}?", "Write about {n}.",
                      "Write a short paragraph about {n}.", "Explain what {n} is.")).format(n=name)
    return Item(f"about/{ask}", ask, text, text, labels=("Topic", "Text"), given=upper_first(name))


def one_fact(rng: Random) -> Item:
    """One sentence of the paragraph; which one is free."""
    name, text = rng.choice((_country, _country, _animal, _element, _planet))(rng)
    subject = text.split(" is ")[0]
    said = rng.choice(text.removesuffix(".").split(". "))
    said = f"{said}.".replace("Its ", f"{subject}'s ").replace("It ", f"{subject} ").replace("there ", f"in {name} ")
    ask = rng.choice(("Tell me one fact about {n}.", "Write one sentence about {n}.", "Give me one fact about {n}.",
                      "Say something about {n}.", "One interesting fact about {n}?")).format(n=name)
    return Item(f"one/{ask}/{said}", ask, said, said)


def _country(rng: Random) -> tuple[str, str]:
    land = rng.choice(COUNTRIES)
    text = (f"{upper_first(land.name)} is a country in {land.continent}. Its capital is {land.capital}. "
            f"People there speak {land.language} and pay with the {land.currency}. "
            f"Visitors like to see {listing(land.sights)}.")
    return land.name, tidy(text)


def _animal(rng: Random) -> tuple[str, str]:
    animal = rng.choice(ANIMALS)
    return a(animal.name), (f"{upper_first(a(animal.name))} is a kind of {animal.kind}. It lives in {animal.home} and "
                            f"eats {animal.food}. It has {animal.legs} legs. Its young is called {a(animal.young)}.")


def _element(rng: Random) -> tuple[str, str]:
    element = rng.choice(ELEMENTS)
    return element.name, (f"{upper_first(element.name)} is a chemical element with the symbol {element.symbol} and the "
                          f"atomic number {element.number}. It is a {element.kind} and, at room temperature, "
                          f"a {element.state}.")


def _planet(rng: Random) -> tuple[str, str]:
    planet = rng.choice(PLANETS)
    return f"the planet {planet.name}", (f"{bare(planet.name)} is the {planet.place} planet from the sun. "
                                         f"It is {a(planet.kind)}. {planet.note}")


def country_talk(rng: Random) -> list[Item]:
    """A question about a country, then questions that only say "there"."""
    land = rng.choice(COUNTRIES)
    first = Item(f"fact/capital/What is the capital of {land.name}?", f"What is the capital of {land.name}?",
                 land.capital, tidy(f"The capital of {land.name} is {land.capital}."))
    sights = listing(land.sights)
    more = [("What language do people speak there?", land.language, f"People there speak {land.language}."),
            ("Which continent is it in?", land.continent, f"It is in {land.continent}."),
            ("What currency do they use?", land.currency, f"They use the {land.currency}."),
            (rng.choice(("List two local attractions.", "What can I visit there?", "Name two sights there.")), sights,
             f"Two sights in {land.name} are {sights}."),
            ("And the capital?", land.capital, tidy(f"The capital of {land.name} is {land.capital}."))]
    chosen = rng.sample(more, rng.randint(1, 4))
    return [first, *(Item(f"there/{land.name}/{ask}", ask, short, full) for ask, short, full in chosen)]
