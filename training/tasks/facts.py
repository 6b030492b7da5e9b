"""Questions and sentences about the closed world, one fact at a time, in very many wordings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from random import Random

from ..alternatives import expand
from ..items import JOINT, Item, Passage, a, listing, tidy, upper_first
from ..relations import BY_NAME, RELATIONS
from ..things import KINDS
from ..wording import (
    SEEN,
    UNSEEN,
    Frames,
    Relation,
    Wordings,
    back_wordings,
    called,
    check_wordings,
    doubtful,
    inner,
    request,
    sentence,
    shared,
    unique,
    wordings,
    write,
    wrong,
)
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, bare, plural
from .fact_asks import (
    ABOUT_ASKS,
    AND_ASKS,
    AND_ASKS_UNSEEN,
    BARE_AFTER,
    CHECK_AFTER,
    CHECK_BEFORE,
    CHECK_STARTS,
    CHOICE_LEADS,
    COUNTRY_ASKS,
    KIND_ASKS,
    ONE_ASKS,
    PLANET_ASKS,
    SIGHT_ASKS,
    SIGHT_THENS,
    TRUTH_LEADS,
    TURN_ENDS,
    TURN_OPENINGS,
    TWO_ASKS,
    TWO_THINGS_ASKS,
)

YES_NO = ("Yes", "No")
NUMBER_WORDS = {2: "two", 3: "three", 4: "four"}
EXTRA = {"capital": 8, "language": 4, "currency": 4, "continent": 3, "author": 3, "inventor": 3, "symbol": 2}
WEIGHTS = list(accumulate(len(r.facts) ** 0.6 + EXTRA.get(r.name, 0) for r in RELATIONS))
CHECKED = tuple(r for r in RELATIONS if r.check)
CHECK_WEIGHTS = list(accumulate(len(r.facts) ** 0.6 for r in CHECKED))
BACK = tuple(r for r in RELATIONS if r.back and unique(r))
BACK_WEIGHTS = list(accumulate(len(unique(r)) ** 0.6 + EXTRA.get(r.name, 0) for r in BACK))
SOME = tuple(r for r in RELATIONS if r.some and shared(r))
UNSEEN_OWN = tuple(r for r in RELATIONS if r.unseen)


@cache
def entities(relation: Relation) -> tuple[str, ...]:
    return tuple(relation.facts)


def pick(rng: Random) -> tuple[Relation, str]:
    """A relation and an entity; relations with more facts come up more often."""
    relation = rng.choices(RELATIONS, cum_weights=WEIGHTS)[0]
    return relation, rng.choice(entities(relation))


def told(relation: Relation, entity: str) -> str:
    """The fact as an assistant says it."""
    return sentence(relation.say[0], entity, relation.facts[entity])


def _asked(rng: Random, relation: Relation, entity: str, made: Wordings, frames: Frames, value: str = "",
           ) -> tuple[str, str]:
    """The key and the request: one wording about the entity, with or without words around it.

    The key has the core of the request and not what stands around it.
    """
    template, plain = made.pick(rng)
    core = write(template, called(rng, relation, entity), value)
    return f"fact/{relation.name}/{upper_first(core)}", request(rng, core, plain, frames)


def question(rng: Random, frames: Frames = SEEN) -> Item:
    relation, entity = pick(rng)
    key, ask = _asked(rng, relation, entity, wordings(relation, frames), frames)
    return Item(key, ask, relation.facts[entity], told(relation, entity))


def unseen_question(rng: Random) -> Item:
    """A fact asked in a wording that training never uses."""
    return question(rng, UNSEEN)


def unseen_own_question(rng: Random) -> Item:
    """A fact asked in words of its own that training never uses for it."""
    relation = rng.choice(UNSEEN_OWN)
    entity = rng.choice(entities(relation))
    ask = upper_first(write(rng.choice(relation.unseen), entity)) + "?"
    return Item(f"fact/{relation.name}/{ask}", ask, relation.facts[entity], told(relation, entity))


def reverse_question(rng: Random, frames: Frames = SEEN) -> Item:
    """From the value to the entity; where several have it, for any one of them: the first of the table."""
    if frames is SEEN and rng.random() < 0.2:
        return _any_one(rng)
    relation = rng.choices(BACK, cum_weights=BACK_WEIGHTS)[0]
    entity = rng.choice(unique(relation))
    value = relation.facts[entity]
    key, ask = _asked(rng, relation, entity, back_wordings(relation, frames), frames, value)
    return Item(key, ask, entity, sentence(relation.back_say, entity, value))


def unseen_reverse_question(rng: Random) -> Item:
    return reverse_question(rng, UNSEEN)


def _any_one(rng: Random) -> Item:
    relation = rng.choice(SOME)
    value, entity = rng.choice(list(shared(relation).items()))
    ask = upper_first(write(rng.choice(relation.some), entity, value))
    said = sentence(relation.back_say, entity, value) if relation.back_say else told(relation, entity)
    return Item(f"fact/{relation.name}/{ask}", ask, entity, said)


def _claim(rng: Random) -> tuple[Relation, str, str]:
    """A relation, an entity, and a value that is true of it or surely false."""
    relation = rng.choices(CHECKED, cum_weights=CHECK_WEIGHTS)[0]
    return claimed(rng, relation, rng.choice(doubtful(relation)))


def claimed(rng: Random, relation: Relation, entity: str) -> tuple[Relation, str, str]:
    """The relation, the entity, and a value that is true of it or surely false."""
    value = relation.facts[entity] if rng.random() < 0.5 else rng.choice(wrong(relation, entity))
    return relation, entity, value


def yes_no(rng: Random, frames: Frames = SEEN) -> Item:
    """Whether something is so; now and then a bare yes or no is all that is wanted."""
    return checked(rng, frames, *_claim(rng))


def checked(rng: Random, frames: Frames, relation: Relation, entity: str, value: str) -> Item:
    """Whether the entity has the value, in words of the relation."""
    template, _ = check_wordings(relation, frames).pick(rng)
    core = write(template, entity, value)
    ask = tidy(upper_first(core))
    short = YES_NO[value != relation.facts[entity]]
    full = f"{short}, {inner(relation.say[0], entity, relation.facts[entity])}"
    key, at = f"fact/{relation.name}/{ask}", rng.random() if frames is SEEN else 1
    if at < 0.2 and template.startswith(CHECK_STARTS):
        ask = tidy(upper_first(expand(rng, rng.choice(CHECK_BEFORE)) + core))
    if 0.12 < at < 0.3:
        ask += expand(rng, rng.choice(CHECK_AFTER)) if template.startswith(CHECK_STARTS) else ""
    elif 0.3 < at < 0.36:
        ask, full = ask + expand(rng, rng.choice(BARE_AFTER)), short
    return Item(key, ask, short, full, choices=YES_NO)


def unseen_yes_no(rng: Random) -> Item:
    return yes_no(rng, UNSEEN)


def true_false(rng: Random) -> Item:
    return stated(rng, *_claim(rng))


def stated(rng: Random, relation: Relation, entity: str, value: str) -> Item:
    """A statement to be called true or false."""
    said = sentence(rng.choice(relation.say), entity, value)
    short = str(value == relation.facts[entity])
    lead = expand(rng, rng.choice(TRUTH_LEADS))
    return Item(f"truth/{said}", lead.format(said), short, f"{short}. {told(relation, entity)}", given=said,
                labels=("Statement", "True or false"), choices=("True", "False"))


def choice(rng: Random) -> Item:
    """A question with its possible answers named."""
    relation, entity, _ = _claim(rng)
    truth = relation.facts[entity]
    others = wrong(relation, entity)
    options = [truth, *rng.sample(others, min(len(others), rng.randint(1, 3)))]
    rng.shuffle(options)
    core = write(rng.choice(relation.ask), entity) + "?"
    ask = upper_first(core)
    either = f"{', '.join(options[:-1])} or {options[-1]}"
    lead = expand(rng, rng.choice(CHOICE_LEADS))
    text = lead.format(a=ask, q=core, o=", ".join(options), e=either, E=upper_first(either))
    return Item(f"choice/{ask}/{truth}", tidy(upper_first(text)), truth, told(relation, entity), choices=tuple(options))


def _syllables(rng: Random, least: int = 2, most: int = 4) -> str:
    return "".join(rng.choice("bdfglmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(least, most)))


@cache
def known() -> frozenset[str]:
    """All words of all entities and values, in small letters."""
    names = (name for relation in RELATIONS for fact in relation.facts.items() for name in fact)
    return frozenset(word for name in names for word in name.lower().split())


INVENTED: dict[str, Callable[[str, str], str]] = {
    "country": lambda one, two: one.capitalize() + ("nia", "land", "stan", "")[len(two) % 4],
    "city": lambda one, two: one.capitalize() + ("burg", "ville", " City", "")[len(two) % 4],
    "animal": lambda one, two: a(one), "animals": lambda one, two: f"{one}s", "young": lambda one, two: one,
    "element": lambda one, two: one + ("ium", "ine", "on", "ium")[len(two) % 4],
    "invention": lambda one, two: f"the {one}", "discovery": lambda one, two: f"the {one}",
    "book": lambda one, two: f"The {one.capitalize()} of {two.capitalize()}",
    "work": lambda one, two: f"The {one.capitalize()} of {two.capitalize()}",
    "dish": lambda one, two: one, "sport": lambda one, two: one,
}
PERSONS = tuple(r for r in BACK if r.name in ("inventor", "discoverer", "author", "painter", "composer"))
MADE_UP = tuple(r for r in RELATIONS if r.about in INVENTED)


def _stranger(rng: Random) -> str:
    return f"{_syllables(rng, 2, 3).capitalize()} {_syllables(rng, 2, 3).capitalize()}"


def unknown(rng: Random, frames: Frames = SEEN) -> Item:
    """A question about a land, an animal, a person or another thing that does not exist."""
    one, two = _syllables(rng), _syllables(rng)
    while one in known():
        one = _syllables(rng)
    at = rng.random()
    if at < 0.2:
        name = _stranger(rng)
        relation = rng.choice(PERSONS)
        template, plain = back_wordings(relation, frames).pick(rng)
        core = write(template, "", name)
    elif at < 0.27:
        name = _stranger(rng)
        core, plain = rng.choice(("who is {}?", "tell me about {}.", "who was {}?",
            "why is {} famous?")).format(name), False
    else:
        relation = rng.choice(MADE_UP)
        name = INVENTED[relation.about](one, two) if rng.random() < 0.7 else one.capitalize()
        template, plain = wordings(relation, frames).pick(rng)
        core = write(template, name)
    ask = request(rng, core, plain, frames)
    return Item(f"unknown/{upper_first(core)}", ask, "I do not know", f"I do not know {name}.")


def unseen_unknown(rng: Random) -> Item:
    return unknown(rng, UNSEEN)


def sights(rng: Random) -> Item:
    country = rng.choice(COUNTRIES)
    ask = upper_first(expand(rng, rng.choice(SIGHT_ASKS)).format(e=country.name))
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
    for thing, kind in KINDS.items():
        found.setdefault("pieces" + kind.removeprefix("piece") if kind.startswith("piece") else f"{kind}s", []).append(
            thing.split(" ", 1)[1])
    for instrument, kind in BY_NAME["instrument"].facts.items():
        found.setdefault(f"{kind}s", []).append(bare(instrument))
    found["planets"] = [planet.name for planet in PLANETS]
    found["colors"] = ["red", "blue", "green", "yellow", "orange", "purple", "brown", "black", "white"]
    found["months"] = list(BY_NAME["days"].facts)
    return {group: names for group, names in found.items() if len(names) > 3}


def members(rng: Random) -> Item:
    """Some members of a class, in the order of the tables; which ones is free."""
    group, names = rng.choice(list(groups().items()))
    count = rng.choice((2, 3, 3, 4))
    names = sorted(rng.sample(names, count), key=names.index)
    number = NUMBER_WORDS[count]
    ask = upper_first(expand(rng, rng.choice(KIND_ASKS)).format(n=number, N=number.capitalize(), g=group))
    return Item(f"members/{group}/{'/'.join(names)}", ask, ", ".join(names),
                "\n".join(f"{i}. {upper_first(name)}" for i, name in enumerate(names, 1)))


def capitals(rng: Random) -> Item:
    """Several countries with a fact each."""
    wanted, at = rng.choice((("capitals", 1), ("languages", 3), ("currencies", 4), ("continents", 2)))
    lands = sorted(rng.sample(COUNTRIES, rng.choice((2, 3, 4))), key=COUNTRIES.index)
    number = NUMBER_WORDS[len(lands)]
    ask = upper_first(expand(rng, rng.choice(COUNTRY_ASKS)).format(n=number, N=number.capitalize(), w=wanted))
    text = "\n".join(f"{i}. {upper_first(land.name)}: {land[at]}" for i, land in enumerate(lands, 1))
    return Item(f"members/{wanted}/{text}", ask, text, text)


def planets_in_order(rng: Random) -> Item:
    ask = upper_first(expand(rng, PLANET_ASKS))
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


SAME_ABOUT = tuple(tuple(r for r in RELATIONS if r.about == about and r.then)
                   for about in ("country", "country", "country", "animal", "animals", "element", "city", "planet"))


@cache
def family(relations: tuple[Relation, ...]) -> tuple[str, ...]:
    """The entities that all the relations know."""
    return tuple(e for e in relations[0].facts if all(e in r.facts for r in relations))


def two_questions(rng: Random) -> Item:
    """Two facts asked in one sentence: two of one thing, or the same of two things."""
    if rng.random() < 0.3:
        return _two_things(rng)
    first, second = rng.sample(rng.choice(SAME_ABOUT), 2)
    entity = rng.choice(family((first, second)))
    start, then = write(rng.choice(first.ask), entity), rng.choice(second.then)
    named = write(rng.choice(second.ask), entity)
    nouns = (write(rng.choice(first.noun), entity), write(rng.choice(second.noun), entity))
    ask = expand(rng, rng.choice(TWO_ASKS))
    ask = tidy(upper_first(ask.format(q=start, t=then, T=upper_first(then), n=named, a=nouns[0], b=nouns[1])))
    short = f"{first.facts[entity]} and {second.facts[entity]}"
    return Item(f"two/{ask}", ask, short, f"{told(first, entity)} {told(second, entity)}")


def _two_things(rng: Random) -> Item:
    relation = rng.choices(RELATIONS, cum_weights=WEIGHTS)[0]
    one, two = rng.sample(entities(relation), 2)
    template = rng.choice(relation.noun)
    ask = expand(rng, rng.choice(TWO_THINGS_ASKS))
    if relation.who == "who":
        ask = ask.replace("what is", "who is").replace("what are", "who are")
    ask = upper_first(ask.format(a=write(template, one), b=write(template, two)))
    return Item(f"two/{ask}", ask, f"{relation.facts[one]} and {relation.facts[two]}",
                f"{told(relation, one)} {told(relation, two)}")


VAGUE_SAYS = {"{e} is {v}": ("record", "first", "definition"), "{e} is a {v}": ("kind", "instrument"),
              "{e} is a {v} at room temperature": ()}


@cache
def clear_says(relation: Relation) -> tuple[str, ...]:
    """Statements that tell which fact they are about before they come to the value, with the joint before it."""
    said = [s for s in relation.say if relation.name in VAGUE_SAYS.get(s, (relation.name,))]
    return tuple(s.replace(" {v}", f"{JOINT} {{v}}") for s in said if not s.startswith("{v}"))


def statement(rng: Random) -> Passage:
    """One to six facts as plain sentences, of one thing or of many."""
    said = []
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        relation, entity = pick(rng)
        template = rng.choice(clear_says(relation))
        if " {e}" in relation.back_say and entity in unique(relation) and rng.random() < 0.3:
            template = relation.back_say.replace(" {e}", f"{JOINT} {{e}}")
        said.append(sentence(template, entity, relation.facts[entity]))
    text = rng.choice((" ", " ", "\n")).join(said)
    return Passage(f"statement/{text.replace(JOINT, '')}", text)


def describe(rng: Random) -> Item:
    """A short paragraph about one thing of the world."""
    make = rng.choice((_country, _country, _animal, _element, _planet))
    name, text = make(rng)
    ask = upper_first(expand(rng, rng.choice(ABOUT_ASKS)).format(n=name))
    return Item(f"about/{ask}", ask, text, text, labels=("Topic", "Text"), given=upper_first(name))


def one_fact(rng: Random) -> Item:
    """One sentence of the paragraph; which one is free."""
    name, text = rng.choice((_country, _country, _animal, _element, _planet))(rng)
    subject = text.split(" is ")[0]
    said = rng.choice(text.removesuffix(".").split(". "))
    said = f"{said}.".replace("Visitors like", f"Visitors to {name} like").replace("there ", f"in {name} ")
    said = said.replace("Its ", f"{subject}'s ").replace("It ", f"{subject} ")
    ask = upper_first(expand(rng, rng.choice(ONE_ASKS)).format(n=name))
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


TALKS = tuple(tuple(r for r in RELATIONS if r.about == about and r.then)
              for about in (*["country"] * 5, "animal", "animal", "animals", "element", "element", "planet", "city",
                            "book", "invention", "month"))


def same_again(rng: Random, relation: Relation, before: str, entity: str, frames: Frames = SEEN) -> Item:
    """The question before this one about another entity, which is all that is said."""
    ask = expand(rng, rng.choice(AND_ASKS if frames is SEEN else AND_ASKS_UNSEEN))
    ask = upper_first(ask.format(e=called(rng, relation, entity)))
    return Item(f"and/{relation.name}/{before}/{entity}", ask, relation.facts[entity], told(relation, entity))


def about_it(rng: Random, relation: Relation, entity: str) -> Item:
    """A question that says "it" or "there" of the entity last named."""
    then, opening = rng.choice(relation.then), rng.choice(TURN_OPENINGS)
    opening = expand(rng, opening)
    ask = opening + (upper_first(then) if opening.endswith((". ", "! ")) else then) + rng.choice(TURN_ENDS)
    return Item(f"there/{relation.name}/{entity}/{then}", upper_first(ask), relation.facts[entity],
                told(relation, entity))


def asked_about(rng: Random, relation: Relation, entity: str) -> Item:
    """The fact in any wording of training."""
    key, ask = _asked(rng, relation, entity, wordings(relation, SEEN), SEEN)
    return Item(key, ask, relation.facts[entity], told(relation, entity))


def country_talk(rng: Random) -> list[Item]:
    """A question about a country, an animal or another thing, then ones that only hint at what they are about."""
    family_ = rng.choice(TALKS)
    relation = rng.choice(family_)
    entity = rng.choice(entities(relation))
    turns = [asked_about(rng, relation, entity)]
    for _ in range(rng.randint(1, 4)):
        at = rng.random()
        if at < 0.45 or len(family_) == 1:
            before, entity = entity, rng.choice(entities(relation))
            turns.append(same_again(rng, relation, before, entity))
        elif at < 0.6 and relation.about == "country":
            turns.append(_sights_there(rng, entity))
        else:
            fitting = [r for r in family_ if entity in r.facts and r is not relation]
            if fitting:
                relation = rng.choice(fitting)
                turns.append(about_it(rng, relation, entity))
    return turns


def then_talk(rng: Random) -> tuple[Item, Item]:
    """A first question and one that says "it" or "there"."""
    first, second = rng.sample(rng.choice(SAME_ABOUT), 2)
    entity = rng.choice(family((first, second)))
    return asked_about(rng, first, entity), about_it(rng, second, entity)


def again_talk(rng: Random, frames: Frames = SEEN) -> tuple[Item, Item]:
    """A first question and the same about another entity."""
    relation = rng.choice(rng.choice(TALKS))
    one, two = rng.sample(entities(relation), 2)
    return asked_about(rng, relation, one), same_again(rng, relation, one, two, frames)


def unseen_again_talk(rng: Random) -> tuple[Item, Item]:
    return again_talk(rng, UNSEEN)


@cache
def _sights_of(country: str) -> tuple[str, str]:
    return next(land.sights for land in COUNTRIES if land.name == country)


def _sights_there(rng: Random, country: str) -> Item:
    ask, sights_ = rng.choice(SIGHT_THENS), listing(_sights_of(country))
    return Item(f"there/sights/{country}/{ask}", ask, sights_, f"Two sights in {country} are {sights_}.")
