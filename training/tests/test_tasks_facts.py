"""The facts, their wordings and the questions that join them: right, well-formed, held out where they say so."""

from __future__ import annotations

import re
from random import Random

import pytest

from training.items import JOINT, held_out
from training.relations import BY_NAME, RELATIONS
from training.suites import facts as suites
from training.tasks import claims, comparisons, facts, facts_joined
from training.wording import (
    SEEN,
    UNSEEN,
    back_wordings,
    check_wordings,
    names,
    unique,
    wordings,
    write,
    wrong,
)
from training.world import ANIMALS, COUNTRIES, ELEMENTS

MALFORMED = re.compile(r"[{}<>]|  |\.\.$| ,|\bthe the\b|\ba an? |\ban an? |s's\b")
SINGLE = (facts.question, facts.unseen_question, facts.unseen_own_question, facts.reverse_question,
          facts.unseen_reverse_question, facts.yes_no, facts.unseen_yes_no, facts.true_false, facts.choice,
          facts.unknown, facts.unseen_unknown, facts.two_questions, facts.members, facts.sights)
JOINED = (facts_joined.chain, facts_joined.unseen_chain, comparisons.compare_facts, facts_joined.belongs,
          facts_joined.odd_one_out, facts_joined.count_members, facts_joined.not_one_of)


@pytest.mark.parametrize("make", SINGLE + JOINED, ids=lambda make: make.__name__)
def test_every_item_is_well_formed(make):
    rng = Random(1)
    for _ in range(1000):
        item = make(rng)
        for text in (item.ask, item.short, item.full):
            assert text and text == text.strip() and not MALFORMED.search(text.replace("...", "")), text
        assert not item.ask[0].islower(), item.ask
        assert not item.full[0].islower(), item.full


@pytest.mark.parametrize("make", (facts.question, facts.unseen_question, facts.reverse_question, facts.two_questions))
def test_the_full_answer_holds_the_short_one(make):
    rng = Random(2)
    for _ in range(1000):
        item = make(rng)
        for part in item.short.split(" and ")[:1]:
            assert part.lower() in item.full.lower(), item


def test_no_unseen_wording_is_a_seen_one():
    for of in RELATIONS:
        for count in (wordings, *((back_wordings,) if of.back else ()), *((check_wordings,) if of.check else ())):
            seen = {t for forms in count(of, SEEN).forms for t, _ in forms}
            unseen = {t for forms in count(of, UNSEEN).forms for t, _ in forms}
            assert not seen & unseen, of.name
            assert unseen, of.name


def test_words_around_a_question_are_held_out_too():
    for part in ("before", "after", "noun", "clause", "gap", "check"):
        assert not set(getattr(SEEN, part)) & set(getattr(UNSEEN, part))
    assert not set(facts.AND_ASKS) & set(facts.AND_ASKS_UNSEEN)


def test_every_relation_has_many_wordings():
    for of in RELATIONS:
        assert sum(map(len, wordings(of, SEEN).forms)) > 60, of.name


def test_every_template_fills():
    for of in RELATIONS:
        for entity, value in of.facts.items():
            for template in (*of.ask, *of.noun, *of.clause, *of.say, *of.unseen, *of.back, *of.back_noun, *of.terse):
                assert "{" not in write(template, entity, value)
        for template in of.then:
            assert "{" not in template, template


def test_wrong_values_are_wrong():
    for of in RELATIONS:
        for entity, value in of.facts.items():
            assert value not in wrong(of, entity)
    assert "French" not in wrong(BY_NAME["language"], "Canada")
    assert "nonmetal" not in wrong(BY_NAME["element"], "helium")
    assert "Mexican peso" not in wrong(BY_NAME["currency"], "Argentina")
    assert "mice" not in wrong(BY_NAME["food"], "a cat")


def test_yes_and_no_are_told_apart_by_the_facts():
    rng = Random(3)
    said = [facts.yes_no(rng).short for _ in range(2000)]
    assert 0.4 < said.count("Yes") / len(said) < 0.6


def test_made_up_names_are_not_of_the_world():
    known = {entity for of in RELATIONS for entity in of.facts}
    rng = Random(4)
    for _ in range(2000):
        item = facts.unknown(rng)
        name = item.full.removeprefix("I do not know ").removesuffix(".")
        assert name not in known and names(name)["b"].lower() in item.ask.lower(), item


def test_a_split_name_keeps_its_preposition():
    assert names("keys on a piano") == {"e": "keys on a piano", "b": "keys on a piano", "x": "keys", "y": "on a piano",
                                        "z": "a piano"}
    assert names("the Netherlands")["b"] == "Netherlands"


def test_a_chain_names_its_link_first():
    rng = Random(5)
    for _ in range(500):
        item = facts_joined.chain(rng)
        last = item.full.replace("D.C.", "DC").split(". ", 1)[1]
        assert item.short.replace("D.C.", "DC") in last, item


def test_comparisons_are_right():
    rng = Random(6)
    number = {x.name: int(x.number) for x in ELEMENTS}
    legs = {x.name: comparisons.LEGS[x.legs] for x in ANIMALS}
    assert legs["spider"] > legs["ant"]
    for _ in range(1000):
        item = comparisons.compare_facts(rng)
        kind, *parts = item.key.removeprefix("compare/").split("/")
        if kind == "number":
            one, two, word = parts
            assert item.short == (max if word == "larger" else min)(one, two, key=number.get), item
        if kind == "both":
            continent = {c.name: c.continent for c in COUNTRIES}
            asked = re.sub("|".join(parts), "", item.ask, flags=re.IGNORECASE)
            assert item.short == ("Yes" if all(continent[p] in asked for p in parts) else "No"), item


def test_the_odd_one_is_in_the_list_and_alone():
    rng = Random(7)
    kind_of = {name: kind for kind, names_ in facts_joined.kinds().items() for name in names_}
    for _ in range(1000):
        item = facts_joined.odd_one_out(rng)
        others = [kind_of.get(name) for name in item.choices if name != item.short]
        assert len(others) == 3 and item.short in item.choices
        assert len(set(others)) == 1 or "country" in others, item


@pytest.mark.parametrize("make", (facts_joined.odd_one_out, facts_joined.count_members, facts_joined.not_one_of))
def test_a_question_about_a_list_shows_the_list(make):
    rng = Random(11)
    for _ in range(500):
        item = make(rng)
        shown = item.choices or item.key.split("/")[3:]
        assert len(shown) > 1 and all(name.lower() in item.ask.lower() for name in shown), item


def test_no_request_about_a_list_says_what_the_unseen_ones_say():
    rng = Random(12)
    for _ in range(3000):
        ask = facts_joined.odd_one_out(rng).ask
        assert not re.search("intruder|go together|left over", ask), ask


def test_claims_are_of_training_and_told_rightly():
    rng = Random(13)
    for _ in range(300):
        items = claims.checks(rng)
        assert len(items) > 1 and not any(held_out(item.key) for item in items)
        made = claims.claims(rng).text
        assert made.count(JOINT) > 1


def test_a_check_is_answered_by_its_relation():
    rng = Random(14)
    for _ in range(2000):
        of, entity = facts.pick(rng)
        if of.check and wrong(of, entity):
            _, _, value = facts.claimed(rng, of, entity)
            item = facts.checked(rng, SEEN, of, entity, value)
            assert item.full.split(",")[0] == item.short == ("Yes" if value == of.facts[entity] else "No"), item
            assert value.lower() in item.ask.lower(), item


def test_counting_counts():
    rng = Random(8)
    for _ in range(1000):
        item = facts_joined.count_members(rng)
        _, _, kind, *shown = item.key.split("/")
        assert item.short == facts_joined.COUNT_WORDS[sum(name in facts_joined.kinds()[kind] for name in shown)], item


def test_follow_ups_answer_about_the_thing_last_named():
    rng = Random(9)
    for _ in range(300):
        _, second = facts.again_talk(rng)
        _, name, before, entity = second.key.split("/")[:4]
        assert BY_NAME[name].facts[entity] == second.short and before != entity
        assert all(item.short and item.full for item in facts.country_talk(rng))


def test_statements_can_be_cut_before_their_value():
    rng = Random(10)
    for _ in range(1000):
        text = facts.statement(rng).text
        assert JOINT in text and "{" not in text
        assert text.rpartition(JOINT)[2].strip(" ."), text


def test_values_asked_back_are_unique():
    for of in RELATIONS:
        values = [of.facts[entity] for entity in unique(of)]
        assert len(values) == len(set(values))


@pytest.mark.parametrize("judge, wanted, good, bad", (
    (suites.decides, "No", "Norway is in Europe and Chile is in South America, so the answer is no.",
     "Norway is in Europe and Spain is in Europe, so the answer is yes."),
    (suites.decides, "iron", "Tin has the number 50. So the smaller one is iron.", "Iron has 26. So it is tin."),
    (suites.is_about, "trout", "A trout is not a flower, it is an animal.", "A rose is not a flower, it is a trout."),
    (suites.concludes, "two", "The planets are Mars and Venus, so there are two.", "so there are three."),
))
def test_judges_can_fail(judge, wanted, good, bad):
    assert judge(good, wanted) and not judge(bad, wanted)
