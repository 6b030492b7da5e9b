"""How facts about countries, places, animals, elements and planets are asked and said; the list of all relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .everyday import EVERYDAY
from .items import a
from .tables import Groups, Pairs, table
from .things import CITIES, CITY_RIVERS, LANDMARKS, RANGES
from .wording import Relation, relation, with_words
from .world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, plural

DATA = table("relations")


Near = Callable[[str, str], bool]

_land = {c.name: c for c in COUNTRIES}
_elements = {x.name: x.kind for x in ELEMENTS}
_kinds = {name: x.kind for x in ANIMALS for name in (x.name, a(x.name), plural(x.name))}

ALSO_SPOKEN = DATA.get("also_spoken", Pairs)
MEAT = {"meat", "fish", "insects", "mice", "krill", "crabs", "small fish", "insects and worms",
        "fish and small animals", "shrimp and algae"}
GREENS = {"grass", "leaves", "nectar", "bamboo", "nuts", "eucalyptus leaves", "leaves and grass", "grass and hay",
          "grass and shrubs", "desert plants", "bark and twigs", "leaves and twigs", "leaves and wood"}
WATERS = {"the sea", "cold seas", "warm seas", "rivers and seas"}
DRY = {"deserts", "forests", "savannas", "houses", "farmyards", "mountains", "trees", "fields", "eucalyptus forests",
       "bamboo forests", "burrows", "grasslands", "gardens", "hives", "webs", "caves"}


def _relation(name: str, about: str, facts: Pairs, **options: Any) -> Relation:
    """A relation with the clauses that the table holds under its name."""
    return relation(name, about, facts, DATA.get(name, Groups), **options)


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

SIGHTS = DATA.get("sights", Groups)


def is_plural(sight: str) -> bool:
    """Whether a sight takes "are"."""
    return any(word in sight.split() for word in PLURAL_SIGHTS)


COUNTRY_RELATIONS = (
    _relation("capital", "country", {n: c.capital for n, c in _land.items()}),
    _relation("continent", "country", {n: c.continent for n, c in _land.items()}),
    _relation("language", "country", {n: c.language for n, c in _land.items()}, near=_also_spoken),
    _relation("currency", "country", {n: c.currency for n, c in _land.items()}),
    relation("sight", "sight", {s: c.name for c in COUNTRIES for s in c.sights if not is_plural(s)},
             with_words(SIGHTS, {"<is>": "is", "<it>": "it"}),
             near=lambda sight, land: sight == "Mount Everest" and land == "China"),
    relation("sights", "sights", {s: c.name for c in COUNTRIES for s in c.sights if is_plural(s)},
             with_words(SIGHTS, {"<is>": "are", "<it>": "they", "find they": "find them"})),
    _relation("city", "city",
              CITIES | {c.capital: c.name for c in COUNTRIES if c.capital != c.name}),
    _relation("landmark", "sight", LANDMARKS),
    _relation("range", "mountains", RANGES),
    _relation("river", "city", CITY_RIVERS),
)

ANIMAL_RELATIONS = (
    _relation("class", "animal", {a(x.name): x.kind for x in ANIMALS}),
    _relation("food", "animal", FOOD, near=_apart(MEAT, GREENS, FOOD)),
    _relation("home", "animal", HOME, near=_apart(WATERS, DRY, HOME)),
    _relation("young", "animal", YOUNG, near=_other_kind(YOUNG)),
    _relation("legs", "animal", {a(x.name): x.legs for x in ANIMALS if x.legs != "no"}, who="what"),
    _relation("classes", "animals", {plural(x.name): plural(x.kind) for x in ANIMALS}),
    _relation("foods", "animals", FOODS, near=_apart(MEAT, GREENS, FOODS)),
    _relation("homes", "animals", HOMES, near=_apart(WATERS, DRY, HOMES)),
    _relation("baby", "young", BABY, near=_other_kind(BABY)),
    _relation("legs of all", "animals",
              {plural(x.name): x.legs for x in ANIMALS if x.legs != "no"}),
)

SCIENCE_RELATIONS = (
    _relation("symbol", "element", {x.name: x.symbol for x in ELEMENTS}),
    _relation("number", "element", {x.name: x.number for x in ELEMENTS}),
    _relation("state", "element", {x.name: x.state for x in ELEMENTS}),
    _relation("element", "element", {x.name: x.kind for x in ELEMENTS},
              near=lambda entity, value: {value, _elements[entity]} == {"nonmetal", "noble gas"}),
    _relation("planet", "planet", {x.name: x.place for x in PLANETS}),
    _relation("giant", "planet", {x.name: x.kind for x in PLANETS}),
)

RELATIONS: tuple[Relation, ...] = (*COUNTRY_RELATIONS, *ANIMAL_RELATIONS, *SCIENCE_RELATIONS, *EVERYDAY)
BY_NAME = {of.name: of for of in RELATIONS}
