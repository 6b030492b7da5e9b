"""JSON tasks: what is asked for is what is given, every object parses, the texts say what is extracted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from training.alternatives import expand
from training.forms import END
from training.items import JOINT, Draw, Item, Passage, draw
from training.suites import objects as suites
from training.tasks import characters, extraction, notes, object_words, objects
from training.tasks.extraction_texts import DOMAINS
from training.tasks.extraction_values import in_words
from training.tasks.json_text import LAYOUTS, UNSEEN_LAYOUTS, Frames, dump, jointed
from training.tasks.talk import PEOPLE

MAKERS: tuple[Draw, ...] = (
    objects.world_object, objects.world_object_unseen, objects.world_list,
    objects.some_things, objects.unknown_object, characters.character_item, extraction.extraction,
    extraction.extraction_unseen_text, extraction.extraction_unseen_words, extraction.extraction_list)
TEXTS: tuple[Callable[[Random], Passage], ...] = (
    objects.world_object_text, objects.object_talk, characters.character, extraction.extraction_text,
    extraction.extraction_talk)


def items(make: Draw, count: int = 300) -> list[Item]:
    return [make(Random(f"{make.__name__}/{i}")) for i in range(count)]


def keys_in(value: Any) -> list[str]:
    """Every key at every level."""
    if isinstance(value, dict):
        return [name for key, inner in value.items() for name in (key, *keys_in(inner))]
    return [name for inner in value for name in keys_in(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("make", MAKERS)
def test_answers_parse_and_are_laid_out_as_asked(make: Draw) -> None:
    for item in items(make):
        value = json.loads(item.full)
        indent = next((i for i in (None, 2, 4) if dump(value, i) == item.full), 0)
        assert indent != 0
        said = [layout for words, layout in (*LAYOUTS, *UNSEEN_LAYOUTS) if words in item.ask]
        shown = re.search(r'\{\n( +)"(?!type")', item.ask) if '"type": "object"' not in item.ask else None
        assert indent == (said[0] if said else len(shown[1]) if shown else None)


@pytest.mark.parametrize("make", [m for m in MAKERS if m is not objects.world_list])
def test_keys_stand_in_the_request_in_the_order_of_the_answer(make: Draw) -> None:
    for item in items(make):
        value = json.loads(item.full)
        row = value[0] if isinstance(value, list) else value
        names = list(row) if make is characters.character_item else keys_in(row)
        at = [item.ask.find(name) for name in names]
        usual = isinstance(value, dict) and (names in USUAL or not any(f'"{name}"' in item.ask for name in names))
        assert min(at) >= 0 or usual, item


USUAL = [[field.names[0] for field in kind.fields[:kind.usual]] for _, kind in objects.KINDS]
USUAL += [list(domain.fields)[:domain.usual] for _, domain in DOMAINS]
USUAL.append(list(characters.USUAL))


@pytest.mark.parametrize("make", TEXTS)
def test_every_object_in_running_text_parses(make: Callable[[Random], Passage]) -> None:
    decoder = json.JSONDecoder()
    for i in range(300):
        text = make(Random(i)).text
        starts = [match.end() - 1 for match in re.finditer(f"{JOINT} ?{{", text)]
        assert starts
        for start in starts:
            plain = text[start:].replace(JOINT, "")
            _, end = decoder.raw_decode(plain)
            assert plain[end:end + 1] in ("", "\n") or plain[end:].startswith(END)


@pytest.mark.parametrize("indent", [None, 2, 4])
@pytest.mark.parametrize("inside", [False, True])
def test_joints_are_all_that_is_added(indent: int | None, inside: bool) -> None:
    value = {"name": "Li", "age": 3, "wand": {"wood": "oak", "length": 1.5}, "likes": ["tea", "rain"], "pet": None}
    text = jointed(value, indent, inside)
    assert text.replace(JOINT, "") == dump(value, indent)
    assert text.count(JOINT) == 7
    assert (f'"{JOINT}Li"' in text) == inside


def test_extracted_values_are_said_in_the_text() -> None:
    for i in range(2000):
        rng = Random(i)
        _, domain = DOMAINS[i % len(DOMAINS)]
        text, told = extraction.text_of(rng, domain, unseen=i % 3 == 0)
        for value in told.values():
            if isinstance(value, bool):
                continue
            said = {str(value), *([in_words(abs(value))] if isinstance(value, int) and abs(value) < 100 else [])}
            minus = isinstance(value, int) and value < 0
            assert any(word.lower() in text.lower() for word in said | ({f"minus {-value}"} if minus else set())), text
        assert not set("{}") & set(text)
        assert ".." not in text


def test_each_form_of_text_says_fields() -> None:
    for _, domain in DOMAINS:
        rng = Random(domain.title)
        for whole, parts in ((domain.whole, domain.parts), domain.me, (domain.unseen, {})):
            for form in whole:
                assert all(extraction.says(expand(rng, form)) & set(domain.fields) for _ in range(20)), form
            for name, forms in parts.items():
                assert all(name in extraction.says(expand(rng, form)) for form in forms for _ in range(20))
        seen = {re.sub(r"\W", "", expand(rng, form)).lower() for form in domain.whole for _ in range(200)}
        assert not {re.sub(r"\W", "", form).lower() for form in domain.unseen} & seen


@pytest.mark.parametrize("title", ["Person", "Order"])
def test_people_and_orders_are_told_in_many_ways(title: str) -> None:
    domain = next(domain for _, domain in DOMAINS if domain.title == title)
    assert len(domain.whole) >= 40
    rng = Random(1)
    assert len({expand(rng, rng.choice(domain.whole)) for _ in range(5000)}) > 2000


def test_numbers_in_words() -> None:
    assert [in_words(n) for n in (0, 7, 13, 20, 34, 99)] == [
        "zero", "seven", "thirteen", "twenty", "thirty-four", "ninety-nine"]


@pytest.mark.parametrize(("seen", "unseen"), [(object_words.FRAMES, object_words.UNSEEN_FRAMES),
                                              (extraction.FRAMES, extraction.UNSEEN_FRAMES)])
def test_unseen_wordings_are_not_among_the_seen(seen: Frames, unseen: Frames) -> None:
    for look in ("listed", "bare", "template", "schema", "code"):
        assert not set(getattr(seen, look)) & set(getattr(unseen, look))
        for template in (*getattr(seen, look), *getattr(unseen, look)):
            frame = expand(Random(template), template)
            assert frame.count("{s}") == 1
            assert frame.count("{f}") == (look != "bare")


def test_the_world_is_told_as_it_is() -> None:
    for item in items(objects.world_object, 3000):
        value = json.loads(item.full)
        if value.get("name") == "France" and "capital" in value:
            assert value["capital"] == "Paris"
        if value.get("name") == "dolphin":
            assert value.get("legs", 0) == 0
            assert value.get("lives_in_water", True) is True
            assert value.get("can_fly", False) is False


def test_a_character_keeps_what_the_request_says() -> None:
    for i in range(500):
        item, keys, fixed = characters.character_parts(Random(i))
        made = json.loads(item.full)
        assert list(made) == keys
        assert all(made[key] == value and str(value) in item.ask for key, value in fixed.items())


def test_notes_hold_the_answers() -> None:
    for i in range(300):
        text = notes.notes(Random(i), 6, unseen=i % 2 == 0).text
        facts, *asked = re.split(r"\n(?:Q|Question|User): ", text)
        for part in asked:
            question, _, answer = part.partition(JOINT)
            name = next(name for name in PEOPLE if re.search(rf"\b{name}\b", question))
            if answer.strip() != notes.ABSENT:
                assert answer.strip().lower() in facts.lower()
                assert name in facts


def test_notes_are_asked_in_many_ways_that_the_evaluation_does_not_use() -> None:
    rng = Random(1)
    for field, wordings in notes.ASKS.items():
        seen = {expand(rng, rng.choice(wordings)) for _ in range(2000)}
        assert len(seen) > 150
        assert not seen & set(notes.UNSEEN_ASKS[field])


@pytest.mark.parametrize("suite", suites.SUITES, ids=lambda suite: suite.name)
def test_judges_can_pass_and_fail(suite: Any) -> None:
    for case in suite.cases(10):
        assert not suite.judge("no", case.want)
    if suite.judge in (suites.same_text, suites.same_json, suites.same_fields, suites.no_wrong_value, suites.nulls):
        assert all(suite.judge(case.want, case.want) for case in suite.cases(10))


def test_held_out_objects_are_in_no_training_text() -> None:
    unknown = [draw(make, Random(i), from_held_out=True) for i in range(150)
               for make in (objects.world_object, extraction.extraction)]
    makers = [make for make in MAKERS if "unseen" not in make.__name__]
    texts = {draw(make, Random(f"train/{i}")).ask for i in range(1000) for make in makers}
    assert not {item.ask for item in unknown} & texts
