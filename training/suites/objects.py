"""JSON: objects about the world and about characters, fields out of a text, skeletons that a program fills; notes."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import sgnb as sgl

from ..items import JOINT, Draw, Item, Passage, draw, held_out
from ..tasks import characters, extraction, notes, objects
from ..tasks.extraction_texts import DOMAINS
from ..tasks.json_text import dump
from ..tasks.records import KINDS, key_of, record
from .base import Case, Judge, Suite, ask, chat, exact, same_json, valid_json

LONGEST = 400


@sgl.function
def write_json(s: Any, case: Any, stop: str) -> str:
    """The likeliest continuation, with room for a long object."""
    s += case.prompt
    s += sgl.gen("answer", max_tokens=LONGEST, stop=stop or None)
    return str(s["answer"])


@sgl.function
def fill_skeleton(s: Any, case: Any, stop: str) -> str:
    """The program writes the object, the model only what stands between the quotes."""
    s += case.prompt + "{"
    names = list(json.loads(case.want))
    for at, name in enumerate(names):
        s += f'{"," if at else ""}\n  "{name}": "' + sgl.gen(f"value {at}", max_tokens=40, stop=stop) + '"'
    return dump({name: s[f"value {at}"] for at, name in enumerate(names)})


def _loaded(answer: str) -> Any:
    """The JSON value, or None where there is none."""
    try:
        return json.loads(answer)
    except json.JSONDecodeError:
        return None


def same_text(answer: str, want: str) -> bool:
    """The same object, its keys in the same order, in the layout that was asked for."""
    return answer.strip() == want


def _names(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _names(inner)) for name, inner in value.items()]
    return len(value) if isinstance(value, list) else None


def same_fields(answer: str, want: str) -> bool:
    """Exactly the wanted keys in the wanted order, within lists and nested objects too; whatever the values."""
    return _names(_loaded(answer)) == _names(json.loads(want))


def no_wrong_value(answer: str, want: str) -> bool:
    """Every wanted field that the answer has, has the wanted value; fields left out or added do not count."""
    got, wanted = _loaded(answer), json.loads(want)
    return isinstance(got, dict) and all(got[key] == wanted[key] for key in got.keys() & wanted.keys())


def nulls(answer: str, want: str) -> bool:
    """Null in the answer just where null is wanted."""
    got, wanted = _loaded(answer), json.loads(want)
    return isinstance(got, dict) and [got.get(key, 0) is None for key in wanted] == [v is None for v in wanted.values()]


def among(answer: str, want: str) -> bool:
    """A list of as many different objects as wanted, each of them one of the true ones."""
    got, wanted = _loaded(answer), json.loads(want)
    texts = {dump(row) for row in got} if isinstance(got, list) else set()
    return isinstance(got, list) and len(got) == len(texts) == wanted["count"] and texts <= set(wanted["true"])


def keeps(answer: str, want: str) -> bool:
    """Exactly the wanted keys in order, and what the request said of the character."""
    got, wanted = _loaded(answer), json.loads(want)
    fixed = wanted["fixed"]
    return isinstance(got, dict) and list(got) == wanted["keys"] and all(got[key] == fixed[key] for key in fixed)


def some_things(rng: Random) -> Case:
    item, true = objects.some_things_parts(rng)
    while not held_out(item.key):
        item, true = objects.some_things_parts(rng)
    want = {"count": len(json.loads(item.short)), "true": [dump(row) for row in true]}
    return Case(ask(item.ask), dump(want), (item.key,))


def character(rng: Random) -> Case:
    item, keys, fixed = characters.character_parts(rng)
    while not held_out(item.key):
        item, keys, fixed = characters.character_parts(rng)
    return Case(ask(item.ask), dump({"keys": keys, "fixed": fixed}), (item.key,))


ANY_JSON: tuple[Draw, ...] = (
    objects.world_object, objects.world_object_unseen, objects.world_list, objects.some_things, objects.unknown_object,
    characters.character_item, extraction.extraction, extraction.extraction_unseen_words, extraction.extraction_list)


def any_json(rng: Random) -> Case:
    return chat(rng.choice(ANY_JSON))(rng)


def under_schema(rng: Random) -> Case:
    """An object about a thing, asked for by a JSON Schema."""
    return chat(lambda r: objects.world_object(r, looks=((1, "schema"),)))(rng)


def _last_turn(make: Callable[[Random], Passage]) -> Callable[[Random], Case]:
    """The last answer of a chat."""

    def case(rng: Random) -> Case:
        made = draw(make, rng, from_held_out=True)
        prompt, _, want = made.text.rpartition(JOINT)
        return Case(prompt.replace(JOINT, ""), want.rpartition("<|end|>")[0], (made.key,))

    return case


def world_skeleton(rng: Random) -> Case:
    """Two to four fields of a thing that hold strings."""
    while True:
        kind = rng.choice([kind for _, kind in KINDS[:4]])
        at = rng.randrange(len(kind.things))
        texts = [i for i, field in enumerate(kind.fields) if field.type == "string"]
        chosen = [0, *rng.sample(texts[1:], min(len(texts) - 1, rng.randint(1, 3)))]
        made = record(kind, at, chosen, {kind.fields[i].names[0]: "string" for i in chosen})
        key = key_of(kind, at, made)
        if held_out(key):
            lead = f"Please fill in the following information about the {kind.name} {made['name']}.\n"
            return Case(lead, dump(made), (key,))


def text_skeleton(rng: Random) -> Case:
    """The fields of a text that hold strings."""
    while True:
        domain = rng.choice([domain for _, domain in DOMAINS])
        text, told = extraction.text_of(rng, domain)
        key = extraction.key_of(domain, told)
        made = {name: value for name, value in told.items() if isinstance(value, str)}
        if held_out(key):
            return Case(f"Text: {text}\nJSON: ", dump(made), (key,))


def given_notes(make: Callable[[Random, int], Passage]) -> Callable[[Random], Case]:
    """The last question about six lines of notes."""

    def case(rng: Random) -> Case:
        made = draw(lambda r: make(r, 6), rng, from_held_out=True)
        prompt, _, want = made.text.rpartition(JOINT)
        return Case(prompt.replace(JOINT, ""), want.strip(), (made.key,))

    return case


def with_a_gap(rng: Random) -> Item:
    """A request for fields of which the text lacks one at least."""
    while True:
        item = extraction.extraction(rng, missing=0.9)
        if None in json.loads(item.short).values():
            return item


def _long(name: str, make: Callable[[Random], Case], judge: Judge, bar: float | None = None) -> Suite:
    return Suite(name, make, judge, bar=bar, program=write_json)


SUITES = (
    _long("JSON about a thing, chat: exactly the fields asked for", chat(objects.world_object), same_fields, 0.97),
    _long("JSON about a thing, chat: no wrong value", chat(objects.world_object), no_wrong_value),
    _long("JSON about a thing, chat: fields, values and layout", chat(objects.world_object), same_text),
    _long("JSON about a thing, phrasing never seen: fields and values", chat(objects.world_object_unseen), same_json),
    _long("JSON about a thing under a schema in the prompt", under_schema, same_text),
    _long("JSON about a thing, the fields named by the system line or an earlier turn", _last_turn(objects.object_talk),
          same_text),
    _long("JSON list or map of named things", chat(objects.world_list), same_text),
    _long("JSON list of so many things, which ones left open", some_things, among),
    _long("any kind of request for JSON: valid JSON", any_json, valid_json, 0.97),
    Suite("JSON skeleton about a thing, filled by a program", world_skeleton, same_json, '"', program=fill_skeleton),
    _long("an invented character as JSON: the fields asked for, what was said is kept", character, keeps),
    _long("extraction to JSON, chat", chat(extraction.extraction), same_json, 0.92),
    _long("extraction, forms of text never seen", chat(extraction.extraction_unseen_text), same_json),
    _long("extraction, phrasing of the request never seen", chat(extraction.extraction_unseen_words), same_json),
    _long("extraction: null where the text does not say, and only there", chat(with_a_gap), nulls),
    _long("extraction of several objects into a list", chat(extraction.extraction_list), same_json),
    _long("extraction, the fields named by the system line", _last_turn(extraction.extraction_talk), same_json),
    Suite("JSON skeleton from a text, filled by a program", text_skeleton, same_json, '"', program=fill_skeleton),
    Suite("questions about six given notes", given_notes(notes.notes), exact, "\n"),
    Suite("questions about six given notes, phrasing never seen", given_notes(notes.notes_unseen), exact, "\n"),
)
