"""JSON workloads: character and city (Zheng et al., arXiv 2312.07104, section 6), and an order.

Every string is bounded and every list has a fixed length, so that each answer ends by itself; the
paper's patterns are bounded alike. Keys are in the order of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

MAX_TOKENS = 200


@dataclass(frozen=True)
class Task:
    """One schema with its prompts."""

    name: str
    schema: Schema
    prompts: tuple[str, ...]

    def with_schema(self) -> Task:
        """The same, with the schema written out at the beginning of each prompt."""
        head = f"Answer in JSON that follows this schema:\n{json.dumps(self.schema)}\n"
        return replace(self, prompts=tuple(head + prompt for prompt in self.prompts))

    def valid(self, texts: Iterable[str]) -> int:
        """How many of the texts parse and validate."""
        return sum(self._is_valid(text) for text in texts)

    def _is_valid(self, text: str) -> bool:
        try:
            return bool(Draft202012Validator(self.schema).is_valid(json.loads(text)))
        except ValueError:
            return False


def _record(**properties: Schema) -> Schema:
    """An object of exactly these fields; `_` in a name stands for a blank."""
    named = {name.replace("_", " "): schema for name, schema in properties.items()}
    return {
        "type": "object",
        "properties": named,
        "required": list(named),
        "additionalProperties": False,
    }


_TEXT: Schema = {"type": "string", "maxLength": 16}
_NUMBER: Schema = {"type": "number"}
_INTEGER: Schema = {"type": "integer"}
_TRUTH: Schema = {"type": "boolean"}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


_CHARACTER = _record(
    name=_TEXT,
    house=_one_of("Gryffindor", "Slytherin", "Ravenclaw", "Hufflepuff"),
    blood_status=_one_of("Pure-blood", "Half-blood", "Muggle-born"),
    occupation=_one_of(
        "student", "teacher", "auror", "ministry of magic", "death eater", "order of the phoenix"
    ),
    wand=_record(wood=_TEXT, core=_TEXT, length=_NUMBER),
    alive=_one_of("Alive", "Deceased"),
    patronus=_TEXT,
    bogart=_TEXT,
)
_CITY = _record(
    name=_TEXT,
    country=_TEXT,
    latitude=_NUMBER,
    population=_INTEGER,
    top_3_landmarks={"type": "array", "items": _TEXT, "minItems": 3, "maxItems": 3},
)
_ORDER = _record(
    order_number=_INTEGER,
    customer=_record(name=_TEXT, city=_TEXT),
    item=_record(product=_TEXT, quantity=_INTEGER),
    delivery=_record(
        status=_one_of("waiting for payment", "in preparation", "on its way"), express=_TRUTH
    ),
)

# fmt: off
_PEOPLE = (
    "Harry Potter", "Hermione Granger", "Ron Weasley", "Albus Dumbledore", "Severus Snape",
    "Rubeus Hagrid", "Draco Malfoy", "Sirius Black", "Luna Lovegood", "Neville Longbottom",
    "Ginny Weasley", "Minerva McGonagall", "Remus Lupin", "Bellatrix Lestrange", "Lucius Malfoy",
    "Cedric Diggory", "Cho Chang", "Dobby", "Fred Weasley", "Molly Weasley", "Alastor Moody",
    "Dolores Umbridge", "Nymphadora Tonks", "Gilderoy Lockhart",
)
_CITIES = (
    "Paris", "London", "Tokyo", "Cairo", "Oslo", "Madrid", "Rome", "Berlin", "Vienna", "Lisbon",
    "Athens", "Dublin", "Ottawa", "Nairobi", "Lima", "Beijing", "Moscow", "Warsaw", "Prague",
    "Budapest", "Stockholm", "Helsinki", "Delhi", "Sydney",
)
_GOODS = (
    "apples", "chairs", "lamps", "books", "pencils", "cups", "shirts", "clocks", "bottles",
    "tables", "candles",
)
_NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Iris", "Jack", "Kate",
    "Leo",
)
# fmt: on


def _orders() -> Iterable[str]:
    for i in range(24):
        name, city, goods = _NAMES[i % 12], _CITIES[i], _GOODS[(i * 5) % 11]
        order = f"{name} from {city} ordered {2 + i % 9} {goods}. It is order {300 + 17 * i}."
        yield f"{order}\nThe order as JSON:\n"


TASKS = (
    Task(
        "character",
        _CHARACTER,
        tuple(
            f"{name} is a character in Harry Potter. Please fill in the facts as JSON.\n"
            for name in _PEOPLE
        ),
    ),
    Task(
        "city",
        _CITY,
        tuple(f"Please fill in the facts about the city of {city} as JSON.\n" for city in _CITIES),
    ),
    Task("seven fields, nested", _ORDER, tuple(_orders())),
)
