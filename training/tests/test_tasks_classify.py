"""Texts with a class: the right class, one mapping in a document, labels that training never uses."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from random import Random

import pytest

from training import forms
from training.items import JOINT, draw, held_out
from training.suites import classify as suites
from training.tasks import classify, labelled, messages, opinions, sentences
from training.tasks.classify import Task
from training.tasks.languages import LANGUAGES
from training.tasks.speech import SPEECH
from training.tasks.topic_words import MATTERS

TASKS = tuple(task for _, task in labelled.TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.what} of a {task.kinds[0]}")
def test_every_class_has_many_well_formed_texts_and_shares_none(task: Task) -> None:
    texts = {name: {task.write(Random(f"{name}/{i}"), name) for i in range(400)} for name in task.classes}
    for name, made in texts.items():
        assert len(made) > (90 if task in (classify.WORD, classify.SIZE) else 150), name
        for text in made:
            assert text == text.strip()
            assert not {"{", "}", "\n", JOINT} & set(text)
            assert "  " not in text
            assert ".." not in text
    if task is not classify.SIZE:
        assert not [pair for pair in combinations(texts.values(), 2) if pair[0] & pair[1]]


def test_numbers_are_what_their_class_says() -> None:
    for i in range(200):
        even, odd, small, large = (int(classify.number(Random(i), name)) for name in ("even", "odd", "small", "large"))
        assert (even % 2, odd % 2) == (0, 1)
        assert small < 100 < large


def test_a_denied_word_turns_the_review() -> None:
    """A positive review denies bad words only, a negative one good words only."""
    for name, words in (("positive", sentences.PLAIN_BAD), ("negative", sentences.PLAIN_GOOD)):
        denied = set()
        for i in range(3000):
            denied |= set(re.findall(r"not (\w+) at all", classify.review(Random(i), name)))
        assert denied >= set(words)
        assert not denied & {*sentences.PLAIN_GOOD, *sentences.PLAIN_BAD} - set(words)


def test_every_language_has_as_many_phrases_as_the_others() -> None:
    sizes = {tuple(len(row) for row in language) for language in LANGUAGES.values()}
    assert len(sizes) == 1
    for name in LANGUAGES:
        made = [classify.foreign_sentence(Random(i), name) for i in range(400)]
        assert sum(text.lstrip("¿¡")[0].isupper() for text in made) > 340


def test_no_clause_is_told_of_two_moods_or_two_topics() -> None:
    rows = [(*row.things, *row.deeds, *row.clauses) for row in MATTERS.values()]
    assert Counter(part for row in rows for part in set(row)).most_common(1)[0][1] == 1
    good = {*opinions.GOOD_VERDICTS, *(event for row in opinions.EXPERIENCES.values() for event in row.good)}
    bad = {*opinions.BAD_VERDICTS, *(event for row in opinions.EXPERIENCES.values() for event in row.bad)}
    assert not good & bad
    assert not set(opinions.GOOD_TRAITS) & set(opinions.BAD_TRAITS)
    assert not set(opinions.GOOD_FEELINGS) & set(opinions.BAD_FEELINGS)
    assert not set(sentences.GOOD) & set(sentences.BAD)


def test_every_language_has_plenty_to_say() -> None:
    assert set(SPEECH) == set(LANGUAGES)
    for row in SPEECH.values():
        assert len(row.clauses) >= 65
        assert len(row.words) >= 150
        assert all(wish.count("{v}") == 1 for wish in row.wishes)
    clauses = Counter(clause for row in SPEECH.values() for clause in (*row.clauses, *row.questions, *row.deeds))
    assert clauses.most_common(1)[0][1] == 1


def test_what_is_held_out_goes_by_the_text_alone() -> None:
    """A review may also be an English sentence; on one side there, it is on the same side here."""
    assert {task.key for task in TASKS if task not in (classify.WORD, classify.PARITY, classify.SIZE)} == {"text"}
    assert classify.SENTIMENT.key_of("it broke") == classify.LANGUAGE.key_of("It broke!")


def test_the_categories_of_words_share_no_word() -> None:
    words = Counter(word for row in classify.CATEGORIES.values() for word in row)
    assert words.most_common(1)[0][1] == 1


def test_a_request_names_the_right_class_among_the_options() -> None:
    for i in range(500):
        shown = classify.listed(Random(i), classify.TOPIC.classes, "food")
        assert "food" in shown.replace(" or ", ", ").split(", ")


def test_the_evaluation_has_phrasings_of_its_own() -> None:
    assert not set(classify.ASKS) & set(classify.UNSEEN_ASKS)
    openings = {ask[:18] for ask in classify.ASKS}
    assert not [ask for ask in classify.UNSEEN_ASKS if ask[:18] in openings and not ask.startswith("{t}")]


def test_label_words_of_the_evaluation_are_never_training_s() -> None:
    seen = {word.lower() for _, pool in labelled.POOLS for word in pool}
    unseen = {word.lower() for _, pool in labelled.UNSEEN_POOLS for word in pool}
    assert len(unseen) > 80
    assert not seen & unseen
    assert all(len(pool) > 10 for _, pool in labelled.UNSEEN_POOLS)
    used = {item.short.lower() for i in range(2000) for item in labelled.labelled(Random(i), 4)}
    assert not used & unseen


def test_one_document_has_one_mapping_and_only_training_s_texts() -> None:
    for i in range(300):
        items = labelled.labelled(Random(i))
        assert len({(item.labels, item.choices) for item in items}) == 1
        assert len(set(items[0].choices)) == len(items[0].choices)
        assert all(item.short in item.choices for item in items)
        assert not [item.key for item in items if held_out(item.key)]
        labels: dict[str, str] = {}
        assert all(labels.setdefault(item.given, item.short) == item.short for item in items)


def test_every_answer_of_a_document_may_begin_a_generation() -> None:
    for i in range(300):
        rng = Random(i)
        items = labelled.labelled(rng)
        text = labelled.layout(rng, items)
        *_, last = parts = text.split(JOINT)
        asked = 1 if text.startswith(forms.BOS) and len(parts) == 2 else len(items)
        assert len(parts) == asked + 1
        assert last.removesuffix(f"{forms.END}\n").strip() == items[-1].short
        assert text.startswith(forms.BOS) or all(part.startswith(" ") for part in parts[1:])


def test_interchanged_labels_never_keep_their_own() -> None:
    for i in range(100):
        rng = Random(i)
        names = labelled.swapped(rng, rng.choice(TASKS)).names
        assert sorted(names) == sorted(names.values())
        assert not [name for name, label in names.items() if name == label]


def test_the_examples_before_a_question_show_every_class() -> None:
    for i in range(100):
        case = suites.explained(suites.unseen, 8)(Random(i))
        assert case.want in case.choices
        assert not case.prompt.endswith(case.want)
        assert all(f" {label}\n" in case.prompt for label in case.choices)


def test_mixed_reviews_go_both_ways() -> None:
    said = Counter(draw(classify.mixed, Random(i)).short for i in range(400))
    assert min(said.values()) > 150


def test_every_frame_of_a_message_names_known_slots() -> None:
    for what, classes in messages.MESSAGES.items():
        for name in classes:
            assert all(classify._message(what)(Random(i), name) for i in range(60))
