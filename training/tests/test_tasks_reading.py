"""Passages hold what they should and nothing else answers; what was told is what is remembered; chance is fair."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random

import pytest

from training import forms
from training.items import JOINT, Item, Passage, held_out
from training.suites import reading as reading_suites
from training.suites import talk as talk_suites
from training.suites.base import Suite
from training.tasks import memory, reading, roles, talk
from training.tasks.event_asks import answered, not_answered, sentences
from training.tasks.events import events, same
from training.tasks.material import asked as material_asked
from training.tasks.material import documents_material
from training.tasks.passages import (
    NOT_SAID,
    NOUN_ASKS,
    Fact,
    Scene,
    asked,
    documents_scene,
    scene,
    told,
    told_each,
)
from training.tasks.scenes import KINDS
from training.tasks.told_things import made_topic
from training.tasks.told_topics import TOPICS

SUITES = (*reading_suites.SUITES, *talk_suites.SUITES)
FIXED_CHANCES = ("coin", "die", "suit", "number")


def test_kinds_are_filled_in_rightly() -> None:
    assert len(KINDS) > 20
    for kind in KINDS:
        assert len(kind.attributes) > 5
        for attribute in kind.attributes:
            assert len(attribute.predicates) >= 2
            assert all(("{v}" in p) != ("{a}" in p) for p in (*attribute.predicates, *attribute.sentences))
            assert all("{e}" in ask and ask.endswith("?") for ask in (*attribute.asks, attribute.unseen_ask))
            assert attribute.unseen_ask not in attribute.asks
        asks = Counter(ask for attribute in kind.attributes for ask in (*attribute.asks, attribute.unseen_ask))
        assert max(asks.values()) == 1, kind.noun


@pytest.mark.parametrize("make", [scene, documents_scene])
def test_answers_are_in_the_passage_and_absent_ones_are_of_no_fact(make: Callable[[Random], Scene]) -> None:
    for i in range(300):
        rng = Random(f"scene/{i}")
        made = make(rng)
        text = told(rng, made) if make is scene else " ".join(text for _, text in told_each(rng, made))
        assert all(f.value.lower() in text.lower() and f.thing.brief.lower() in text.lower() for f in made.facts)
        good = asked(rng, made, answered=True)
        assert good.short.lower() in text.lower()
        assert good.fact and good.fact.value in good.full
        bad = asked(rng, made, answered=False)
        assert bad.short == bad.full == NOT_SAID
        for fact in made.facts:
            assert bad.question.lower() not in questions_about(fact)


def questions_about(fact: Fact) -> set[str]:
    """Every wording that the fact answers with its value, in small letters."""
    noun = fact.attribute.noun
    asks = (*fact.attribute.asks, *(ask.replace("{n}", noun) for ask in NOUN_ASKS if noun))
    return {ask.replace("{e}", name).lower() for ask in asks for name in (fact.thing.name, fact.thing.brief)}


def test_events_are_all_different_and_their_questions_are_answered_by_the_text() -> None:
    for i in range(500):
        rng = Random(f"events/{i}")
        made = events(rng, 6)
        text = " ".join(sentences(rng, made)).lower()
        assert not any(same(one, other) for j, one in enumerate(made) for other in made[:j])
        found = answered(rng, made)
        assert found.event in made
        assert found.name == "do" or found.short.lower() in text
        assert found.full.endswith(".")
        assert not re.search(r"\.\.|  |[{}]| [.,;]|\ba [aeiou]", f"{text} {found.question} {found.full}")


def test_no_event_fits_a_question_without_an_answer() -> None:
    """Seen where the question names who, what was done and to what: an event of all three lacks what is asked for."""
    for i in range(500):
        rng = Random(f"absent/{i}")
        made = events(rng, 5)
        question = not_answered(rng, made)
        for event in made:
            clause = (event.subject, event.noun.one if event.noun else "", event.verb.ways[0][0])
            if all(re.search(rf"\b{re.escape(part)}\b", question) for part in clause):
                word = re.search(r"\b(where|when)\b", question.lower())
                assert not word or word.group() not in event.parts, (question, made)


def test_topics_made_on_the_spot_can_be_told_and_asked() -> None:
    for i in range(1000):
        rng = Random(f"topic/{i}")
        topic = made_topic(rng)
        assert topic.tells
        assert len(topic.asks) >= 2
        assert topic.value(rng)
        near = topic.near(rng) if topic.near else None
        assert near is None or near.asks


def test_one_value_of_an_attribute_belongs_to_one_thing() -> None:
    for i in range(300):
        made = scene(Random(i))
        assert len({fact.thing.brief for fact in made.facts}) <= len(made.things)
        pairs = [(id(fact.attribute), fact.value) for fact in made.facts]
        assert len(pairs) == len(set(pairs))
        names = [thing.brief for thing in (*made.things, *made.strangers)]
        assert len(names) == len(set(names))


def test_sentences_are_well_formed() -> None:
    for i in range(500):
        rng = Random(f"form/{i}")
        text = told(rng, scene(rng))
        assert text.endswith(".")
        assert not re.search(r"\.\.|  |[{}]| [.,;]|\ba [aeiou]", text), text
        assert not any(sentence[0].islower() for sentence in re.split(r"(?<=\.)\s", text)), text


def test_unseen_frames_are_not_among_the_seen() -> None:
    seen = {*reading.READ_ASKS, *reading.BRIEF_READ_ASKS, *reading.DOCUMENT_ASKS}
    assert not seen & {*reading.UNSEEN_READ_ASKS, *reading.UNSEEN_DOCUMENT_ASKS}
    for topic in TOPICS:
        assert topic.asks[-1] not in topic.asks[:-1]
    asked_seen = {ask for kind in KINDS for attribute in kind.attributes for ask in attribute.asks}
    assert not asked_seen & {attribute.unseen_ask for kind in KINDS for attribute in kind.attributes}


@pytest.mark.parametrize("make", [reading.several, reading.several_documents, reading.sources, reading.plain,
                                  talk.draws])
def test_passages_begin_answers_at_joints(make: Callable[[Random], Passage]) -> None:
    for i in range(100):
        text = make(Random(i)).text
        answers = text.split(JOINT)[1:]
        assert answers
        assert all(answer.strip() for answer in answers)
        assert not text.startswith(forms.BOS) or text.count(forms.ASSISTANT) == len(answers)


def test_the_source_is_the_document_that_tells_it() -> None:
    for i in range(200):
        rng = Random(i)
        made = documents_material(rng)
        texts, marks = reading.numbered(rng, made)
        ask = material_asked(rng, made, answered=True)
        number = marks[ask.where].strip("[]")
        parts = re.split(r"(?:^|\n)(?:Document )?\[?(\d+)(?:\]:?|:)\s", texts)
        assert ask.short.lower() in dict(zip(parts[1::2], parts[2::2], strict=True))[number].lower()


def test_a_conversation_remembers_what_was_told() -> None:
    filler = Item("filler", "How much is one and one?", "two", "It is two.")
    for i in range(500):
        items = memory.conversation(Random(i), [filler])
        own = [item for item in items if item is not filler]
        assert items.count(filler) == 1
        assert len({item.key for item in own}) == 1
        assert not held_out(own[0].key)
        last = own[-1]
        before = " ".join(item.ask.lower() for item in own[:-1])
        assert last.short == memory.NOT_TOLD or all(part.lower().removeprefix("your ") in before
                                                    for part in last.short.split(", "))


def test_the_newest_value_counts() -> None:
    for i in range(300):
        tell, change, ask = memory.changed(Random(i))
        assert ask.short.lower() in change.ask.lower()
        assert f" {ask.short.lower()}." not in tell.ask.lower()


def test_what_was_never_told_is_said_to_be_so() -> None:
    assert all(memory.not_told(Random(i))[-1].short == memory.NOT_TOLD for i in range(300))


def test_a_friend_is_not_the_user() -> None:
    for i in range(300):
        *tells, ask = memory.of_friend(Random(i))
        mine, friends = sorted(tells, key=lambda item: "my friend" in item.ask.lower())
        wanted = mine if ask.full.startswith("You") else friends
        assert ask.short.lower() in wanted.ask.lower()


def test_a_system_line_holds_the_answers_and_the_manner() -> None:
    for i in range(300):
        rng = Random(i)
        line, asks = roles.system_facts(rng, 3)
        assert all(item.short.lower() in line.lower() and item.short.lower() in item.full.lower() for item in asks)
        manner, sound = roles.style(rng)
        said = sound("The sky is blue.")
        assert said.startswith("The sky is blue") or said.endswith("The sky is blue.")
        assert said != "The sky is blue."
        added = said.replace("The sky is blue", "").strip(" .,")
        assert added in manner


def test_chance_is_as_likely_as_it_says() -> None:
    rng = Random(1)
    drawn: Counter[str] = Counter()
    expected: dict[str, float] = defaultdict(float)
    for _ in range(20_000):
        item, balls = talk.bag(rng)
        drawn[item.short] += 1
        for color, count in balls.items():
            expected[color] += count / sum(balls.values())
    assert all(abs(drawn[color] - expected[color]) < 250 for color in expected)
    flips = Counter(item.short for item in (talk.chance(rng) for _ in range(20_000)) if item.key == "chance/coin")
    assert abs(flips["heads"] - flips["tails"]) < 250


def test_fixed_chances_are_never_held_out() -> None:
    assert not any(held_out(f"chance/{name}") for name in FIXED_CHANCES)
    for i in range(300):
        item = talk.chance(Random(i))
        assert item.short in item.choices


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suites_accept_the_right_answer_and_refuse_another(suite: Suite) -> None:
    for case in suite.cases(20):
        assert all(held_out(key) for key in case.keys)
        assert JOINT not in case.prompt
        assert suite.judge(case.want, case.want)
        wrong = json.dumps(dict.fromkeys(json.loads(case.want), 0.0)) if suite.judge is talk_suites.near else "nothing"
        assert not suite.judge(wrong, case.want)
