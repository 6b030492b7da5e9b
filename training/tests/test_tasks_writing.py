"""Lists, essays and plans: what is said of a text is true of it, and the judges can tell right from wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from training.forms import END
from training.items import JOINT, held_out
from training.suites import essays as essay_suites
from training.suites import writing as writing_suites
from training.suites.base import Suite
from training.tasks import essay_words, essays, plan_words, plans, writing, writing_words
from training.tasks.requests import about, said
from training.tips import SUBJECTS, TIPS

SUITES = (*essay_suites.SUITES, *writing_suites.SUITES)


def essay_of(i: int) -> essays.Essay:
    dimensions = tuple(essays.DIMENSIONS)
    return essays.essay(Random(f"essay/{i}"), dimensions[i % len(dimensions)])


def sentences(text: str) -> list[str]:
    return re.findall(r"[^.?!]+[.?!]", text.strip())


def test_topics_and_subjects_are_whole() -> None:
    assert len(TIPS) >= 40
    assert all(len({tip.title.lower() for tip in tips}) == len(tips) == 6 for tips in TIPS.values())
    assert all(len(sentences(tip.detail)) == 2 for tips in TIPS.values() for tip in tips)
    assert all(len(side) == 3 for subject in SUBJECTS for side in (subject.good, subject.bad))
    points = [p for s in SUBJECTS for p in (*s.good, *s.bad)]
    assert len({p.reason for p in points}) == len(points)
    assert all(p.reason.endswith(".") and p.example.startswith("{n} ") and p.example.endswith(".") for p in points)


def test_an_essay_holds_what_is_said_of_it() -> None:
    for i in range(2000):
        made = essay_of(i)
        lines = [line.strip() for line in sentences(made.text)]
        assert 3 <= len(lines) <= 14
        assert {line for line in lines if lines.count(line) > 1} == set(made.twice)
        assert all(re.search(rf"\b{word}\b", made.text) and word not in essays.known_words() for word in made.wrong)
        assert all(made.text.count(word) >= 1 for word in (*made.strays, *made.rude, *made.warm, *made.people))
        openings = {o.format(s=made.subject, S=made.subject.capitalize()) for side in essays.OPENINGS for o in side}
        if not made.wrong:
            assert (lines[0] in openings) == made.opened


def test_words_that_are_not_misspelt_are_known() -> None:
    """Without the words that were made wrong, every word of an essay is in the tables."""
    right = {word.lower() for i in range(2000) if not (made := essay_of(i)).wrong
             for word in re.findall(r"[A-Za-z]+", made.text)}
    for i in range(2000):
        assert not set(essay_of(i).wrong) & right


def test_scores_follow_from_what_is_seen() -> None:
    for i in range(500):
        made = essay_of(i)
        for dimension in essays.DIMENSIONS:
            text, scores = essays.seen(made, dimension)
            assert text.endswith(".") and ".." not in text
            assert 1 <= min(scores) <= max(scores) <= 5 and len(scores) <= 2
    both = {essays.seen(essay_of(i), d)[1] for i in range(500) for d in essays.DIMENSIONS}
    assert {len(scores) for scores in both} == {1, 2}


@pytest.mark.parametrize(("scores", "letters"), [
    ((5, 5, 5), "A"), ((5, 4, 5), "A"), ((4, 4, 5), "B"), ((3, 4, 5), "B"), ((3, 3, 4), "C"), ((1, 3, 3), "D"),
    ((1, 1, 1), "D"), ((5, 4), "BA"), ((3, 4), "CB"), ((2, 3), "DC"), ((1, 2), "D"), ((4, 4, 5, 5), "BA")])
def test_the_grade_is_the_mean(scores: tuple[int, ...], letters: str) -> None:
    assert "".join(essays.grades(scores)) == letters


def test_the_summary_has_no_comma_and_names_every_dimension() -> None:
    assert essays.summary(("clarity", "tone"), (5, 1)) == "the clarity is excellent and the tone is poor."
    for i in range(300):
        merged = json.loads(essays.grade(Random(i)).full)
        assert re.fullmatch(r"[\w\s]+\.", merged["summary"])
        assert re.fullmatch("[ABCD]", merged["grade"])


def test_the_merge_is_on_the_side_of_its_essay() -> None:
    """The scores of a held-out essay, in their order, are in no essay of training."""
    for side in (True, False):
        made = next(e for i in range(500) if held_out((e := essay_of(i)).key) == side)
        for i in range(20):
            judged = essays.judgments(Random(i), made)
            assert held_out(essays.grade_key([n for n, _, _ in judged], [s for _, _, s in judged])) == side


def test_plans_fit_the_character() -> None:
    for i in range(2000):
        rng = Random(i)
        who, count = plans.persona(rng), rng.choice(tuple(plans.COUNTS))
        made = plans.make_plan(rng, who, count)
        minutes = [60 * int(t.split(":")[0]) + int(t.split(":")[1]) for t, _ in made]
        assert len(made) == count and all(x < y for x, y in pairwise(minutes)) and minutes[-1] < 24 * 60
        assert {do for _, do in made} <= plans.fitting(who)
        assert any(do in who.job.work for _, do in made)
        slept = minutes[[do for _, do in made].index(plans.SLEEP)] if (plans.SLEEP in {d for _, d in made}) else 0
        assert slept < 12 * 60 if who.job in plans.NIGHT_JOBS else slept >= 18 * 60


@pytest.mark.parametrize(("do", "gerund"), [
    ("bake fresh bread", "baking fresh bread"), ("cut the hedge", "cutting the hedge"), ("eat lunch", "eating lunch"),
    ("swim in the pool", "swimming in the pool"), ("go home", "going home"), ("have soup", "having soup")])
def test_gerunds(do: str, gerund: str) -> None:
    assert plans.doing(do) == gerund


def test_the_hour_is_answered_from_the_plan() -> None:
    for i in range(500):
        item = plans.at_hour(Random(i))
        line = item.full.partition(" says ")[2].partition(". So ")[0]
        assert line in item.ask.splitlines()
        assert item.full.endswith(f" is {item.short}.")


def test_the_next_line_is_the_one_after() -> None:
    for i in range(500):
        item = plans.next_action(Random(i))
        before, _, after = item.full.removeprefix("After ").removesuffix(".").partition(" comes ")
        assert f"{before}\n{after}" in item.ask and after.endswith(item.short)


def test_memories_are_those_of_the_list() -> None:
    for i in range(500):
        made = plans.memories(Random(i))
        for name in made.others:
            lines = [line for other, line in made.lines if other == name]
            wanted = ". ".join(lines) + "." if lines else f"{made.who} remembers nothing about {name}."
            assert made.about(name) == wanted
            assert all(line.startswith(name) for line in lines)


def test_what_an_essay_is_about_is_said_first() -> None:
    for i in range(200):
        item = essays.is_about(Random(i))
        subject = item.full.removeprefix("It is about ").rpartition(". ")[0]
        assert subject in {s.name for s in SUBJECTS}
        assert item.full.endswith({"yes": "Yes.", "no": "No."}[item.short])
        assert item.short == "no" or subject in item.ask.lower()


def test_gerunds_of_topics_have_a_verb() -> None:
    assert writing.base("running your first race") == "run your first race"
    assert all(writing.base(topic).split()[1:] == topic.split()[1:] for topic in TIPS)


@pytest.mark.parametrize("ask", [
    lambda rng: writing.list_ask(rng, "cooking rice", 4), lambda rng: writing.list_ask(rng, "cooking rice", 3),
    lambda rng: about(rng, rng.choice(writing_words.REWRITE_ASKS["past"]), "Tom sings.", "Sentence"),
    lambda rng: about(rng, rng.choice(plan_words.PLAN_ASKS), "Tom, 40.", "Character", p="Tom", n="5"),
    lambda rng: about(rng, rng.choice(plan_words.RATING_ASKS), "Tom slept.", "Memory"),
    lambda rng: about(rng, rng.choice(essay_words.JUDGE_ASKS), "Text.", "Essay", d="focus"),
    lambda rng: said(rng, rng.choice(writing_words.GOOD_ASKS), s="camping", y="camping trips", n="two")])
def test_wordings_are_many(ask: Callable[[Random], str]) -> None:
    made = [ask(Random(i)) for i in range(2000)]
    assert len(set(made)) > 1200
    assert not any(re.search(r"[\[\]{}|]|  |\.\.|\ba [aeio]", text) for text in made)


def test_a_summary_is_the_first_sentences() -> None:
    for i in range(500):
        item = writing.text_summary(Random(i))
        assert item.full == " ".join(sentences(part)[0].strip() for part in item.given.split("\n\n"))


@pytest.mark.parametrize(("kind", "wanted"), [
    ("past", r"\w.* (?!does|will)\w+ .+\."), ("future", r".+ will \w+ .+\."), ("question", r"Does .+\?"),
    ("negative", r".+ does not .+\."), ("plural", r"They .+\."), ("polite", r"Could you please .+\?")])
def test_rewriting(kind: str, wanted: str) -> None:
    for i in range(100):
        item = writing.rewriting(Random(i), {kind: writing_words.REWRITE_ASKS[kind]})
        assert re.fullmatch(wanted, item.full)
        assert item.full not in item.ask


@pytest.mark.parametrize(("seen", "unseen"), [
    (essay_words.JUDGE_ASKS, essay_words.UNSEEN_JUDGE_ASKS), (essay_words.MERGE_ASKS, essay_words.UNSEEN_MERGE_ASKS),
    (plan_words.PLAN_ASKS, plan_words.UNSEEN_PLAN_ASKS), (plan_words.RATING_ASKS, plan_words.UNSEEN_RATING_ASKS),
    (writing_words.LIST_ASKS, writing_words.UNSEEN_LIST_ASKS),
    (writing_words.GOOD_ASKS, writing_words.UNSEEN_GOOD_ASKS), (writing_words.BAD_ASKS, writing_words.UNSEEN_BAD_ASKS),
    (writing_words.SUMMARY_ASKS, writing_words.UNSEEN_SUMMARY_ASKS)])
def test_unseen_wordings_are_not_seen(seen: tuple[str, ...], unseen: tuple[str, ...]) -> None:
    assert not {text.lower() for text in seen} & {text.lower() for text in unseen}


@pytest.mark.parametrize("make", [
    essays.essay_chat, essays.essay_text, plans.plan_text, plans.dialogue, writing.tip_list_text, writing.tip_expansion,
    writing.tip_paragraphs, writing.points_text, writing.story_text, writing.characters])
def test_passages_have_joints_and_no_slips(make: object) -> None:
    for i in range(300):
        text = make(Random(i)).text  # type: ignore[operator]
        assert JOINT in text
        assert not re.search(r"\{\w\}|\.\.|  | \.", text.replace(END, "")), text


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_judges_refuse_a_wrong_answer(suite: Suite) -> None:
    wrong = json.dumps({"valid": "no", "judgments": ["Score: 9"] * 3, "merged": ""})
    for case in suite.cases(3):
        assert not suite.judge(wrong, case.want)
        assert all(held_out(key) for key in case.keys)


def test_judges_accept_what_the_generators_say() -> None:
    for i in range(300):
        rng = Random(i)
        who, count, item = plans.plan_case(rng)
        want = json.dumps([count, who.name, sorted(plans.fitting(who))])
        assert essay_suites.valid_plan(item.full, want)
        assert not essay_suites.valid_plan(item.full.rpartition("\n")[0], want)
        made = plans.make_plan(rng, who, count)
        assert essay_suites.valid_plan_json(plans.plan_json(who, made), want)
        graded = essays.grade(rng)
        assert essay_suites.grade_follows(graded.full, graded.key)
        tips = writing.tip_list(rng)
        assert writing_suites.tips_of(tips.full, f"{tips.key.split('/')[1]}/{len(tips.full.splitlines())}")
        points = writing.points(rng)
        assert writing_suites.points_of(points.full, points.key.partition("/")[2])
        judged = essays.judge(rng)
        assert essay_suites.fitting_score(judged.full, judged.short)
