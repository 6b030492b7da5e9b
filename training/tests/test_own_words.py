"""The cases written by hand: every row parses, none stands there twice, and answers are where they should be."""

from __future__ import annotations

import re
from collections import Counter

from training.suites import own_words

TOPICS = ("sports", "science", "food", "travel", "music", "technology", "weather", "business")
LANGUAGES = ("English", "French", "German", "Spanish", "Italian")
PERSON, ORDER = {"name", "age", "job", "city", "hobby"}, {"item", "quantity", "price", "customer"}
PAIRS = (own_words.QUESTIONS, own_words.FACTS, own_words.SUMS, own_words.PROBLEMS, own_words.REVIEWS,
         own_words.HEADLINES, own_words.LANGUAGES)


def _texts() -> list[str]:
    """Every text that is asked about, or asked."""
    return [row[0] for rows in (*PAIRS, own_words.PASSAGES, own_words.EXTRACT, own_words.MEMORY) for row in rows]


def _has(text: str, answer: str) -> bool:
    return re.search(rf"\b{re.escape(answer)}", text, re.IGNORECASE) is not None


def test_there_are_as_many_rows_as_were_written() -> None:
    counts = [len(rows) for rows in (*PAIRS[1:], own_words.PASSAGES, own_words.EXTRACT, own_words.MEMORY)]
    assert counts == [60, 20, 25, 30, 24, 24, 20, 20, 15]


def test_rows_are_clean_and_none_stands_there_twice() -> None:
    absent = [question for *_, question in own_words.PASSAGES]
    assert [text for text, count in Counter(text.lower() for text in _texts()).items() if count > 1] == []
    for text in (*_texts(), *absent, *(answer for rows in PAIRS for _, answer in rows)):
        assert text == text.strip() != "" and "\n" not in text and "  " not in text
        assert all(c.isascii() or c.isalpha() for c in text), text


def test_no_question_gives_its_answer_away() -> None:
    choices = {"Canberra or Sydney, which one is Australia's capital?", "Is a bat a bird or a mammal?",
               "is neon a metal or a gas?"}
    for question, answer in (*own_words.FACTS, *own_words.SUMS):
        assert question in choices or not _has(question, answer), question


def test_sums_are_right() -> None:
    for question, answer in own_words.SUMS:
        first, second = map(int, re.findall(r"\d+", question))
        assert int(answer) in (first + second, abs(first - second))


def test_problems_have_small_numbers() -> None:
    for question, answer in own_words.PROBLEMS:
        assert 0 < int(answer) < 1000 and all(int(n) < 100 for n in re.findall(r"\d+", question)), question


def test_labels_are_known_and_even() -> None:
    assert Counter(label for _, label in own_words.REVIEWS) == {"positive": 15, "negative": 15}
    assert Counter(label for _, label in own_words.HEADLINES) == dict.fromkeys(TOPICS, 3)
    assert {label for _, label in own_words.LANGUAGES} == set(LANGUAGES)


def test_answers_stand_in_what_was_told() -> None:
    for passage, question, answer, absent in own_words.PASSAGES:
        assert _has(passage, answer) and not _has(question, answer) and "?" in absent, question
        assert 3 <= len(re.findall(r"(?<!Mr)(?<!Mrs)\.", passage)) <= 5, passage
    for told, asked, answer in own_words.MEMORY:
        assert _has(told, answer) and not _has(asked, answer), asked


def test_fields_stand_in_the_sentence() -> None:
    for sentence, wanted in own_words.EXTRACT:
        assert set(wanted) <= PERSON or set(wanted) <= ORDER
        assert all(re.search(rf"\b{value}\b", sentence) for value in wanted.values()), sentence
