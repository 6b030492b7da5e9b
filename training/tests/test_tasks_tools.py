"""Tool episodes and puzzles: answers are right, programs solve every case when the model makes no mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from sgnb.events import EventLog
from sgnb.lang.chat import PLAIN
from sgnb.lang.executor import Call, ChoiceScore, Result, ScoreCall, Scores
from training.alternatives import expand
from training.items import JOINT, draw
from training.suites import puzzles as puzzle_suites
from training.suites import tools as tool_suites
from training.suites.base import Suite
from training.tasks import (
    puzzle_words,
    puzzles,
    routes,
    tool_asks,
    tool_episodes,
    tool_words,
    tools,
)
from training.tasks.tool_episodes import EPISODES, Episode, calculate, episode, look_up, observe
from training.tasks.tool_pages import KINDS
from training.tasks.tool_words import Words

MAKERS = (puzzles.propose, puzzles.distance, puzzles.reach, puzzles.solve, puzzles.check, routes.next_places,
          routes.is_road, routes.route, tools.tool_choice, tools.tool_choice_unseen)
TEXTS = (tools.react, tools.react_chat, tools.tool_line, puzzles.path_search, puzzles.path_talk,
         routes.route_text, routes.route_talk)


class Oracle:
    """An executor that goes on as `answer` says: for a prompt, the text that follows it."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.chat, self.log, self.answer, self.pool = PLAIN, EventLog(), answer, ThreadPoolExecutor(2)

    def generate(self, call: Call, sink: Callable[[Any], None]) -> Callable[[], None]:
        self.pool.submit(lambda: sink(Result((self.answer(call.prompt),), ({},))))
        return lambda: None

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def scored() -> Scores:
            best = self.answer(call.prompt)
            return Scores(tuple(ChoiceScore((0,), (0.0 if choice == best else -9.0,)) for choice in call.choices))

        self.pool.submit(lambda: sink(scored()))
        return lambda: None

    def flush_cache(self) -> None:
        pass

    def server_info(self) -> dict[str, Any]:
        return {}


def suite_of(suites: tuple[Suite, ...], name: str) -> Suite:
    return next(suite for suite in suites if suite.name.startswith(name))


def share_right(suite: Suite, answer: Callable[[str], str], count: int = 40) -> float:
    cases = suite.cases(count)
    states = suite.program.run_batch([{"case": c, "stop": suite.stop} for c in cases], backend=Oracle(answer))
    return sum(suite.judge(s.ret_value, c.want) for s, c in zip(states, cases, strict=True)) / count


@pytest.mark.parametrize(("expression", "value"), [
    ("12 * 37", "444"), ("(4821 + 377) * 12", "62376"), ("7 / 2", "3.5"), ("10 / 4 - 1", "1.5"), ("-3 + 5", "2"),
    ("100 / 3", "33.33"), ("1000 * 15 / 100", "150")])
def test_the_calculator_calculates(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize("expression", ["", "1 / 0", "2 ** 9", "open", "__import__('os')", "3 +", "'a' * 3", "(" * 500])
def test_the_calculator_refuses_what_is_no_sum(expression: str) -> None:
    assert calculate(expression).endswith("is not an expression.")


def test_the_look_up_finds_a_page_or_says_what_is_alike() -> None:
    pages = (("Mount Velar", "It is high."), ("Torin", "It is a town."))
    assert look_up("mount velar", pages) == "It is high."
    assert look_up("Velar", pages) == "Nothing found for Velar. Similar: Mount Velar."
    assert look_up("Zorin", pages) == "Nothing found for Zorin."


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("make", [make for _, make in EPISODES])
def test_an_episode_tells_the_answer_before_it_is_given(make: Callable[[Random, bool], Episode], new: bool) -> None:
    for i in range(300):
        made = make(Random(f"episode/{i}"), new)
        assert 1 <= len(made.steps) <= 4
        assert made.steps[-1].argument == made.answer
        seen = [observe(step.tool, step.argument, made.pages) for step in made.steps[:-1]]
        if make.__name__ != "at_once":
            assert made.answer == "unknown" or made.answer in seen[-1] or made.answer in made.question
        for text in (made.question, made.full, *(step.thought for step in made.steps), *seen):
            assert text == text.strip()
            assert not re.search(r"[{}]|\.\.|  |\bthe the\b|\ba [aeiou]", text) or make.__name__ == "at_once", text
            assert text[0].isupper() or not text[0].isalpha() or make.__name__ == "at_once", text


def test_a_calculation_in_an_episode_asks_for_what_the_pages_say() -> None:
    for i in range(500):
        made = episode(Random(f"sums/{i}"))
        texts = " ".join([made.question, *(text for _, text in made.pages)])
        for step in made.steps:
            if step.tool == "Calculate":
                assert set(re.findall(r"\d+", step.argument)) <= {*re.findall(r"\d+", texts), "100"}, made


def test_questions_of_training_are_not_the_unseen_ones() -> None:
    rng = Random("questions")
    unseen = {text.format(n="{e}") for kind in KINDS for field in kind.fields for text in field.unseen}
    ranks = [field.rank for kind in KINDS for field in kind.fields if field.rank]
    unseen |= {text for rank in ranks for text in rank.gap_unseen + rank.total_unseen}
    for asks in tool_asks.ASKS.values():
        seen = {tool_asks.question(rng, asks, e="{e}", a="{a}", b="{b}") for _ in range(300)}
        assert len(seen) > 100
        assert not seen & unseen
    for kind in KINDS:
        for field in kind.fields:
            assert field.unseen
            assert f"{kind.called}/{field.noun}" in tool_asks.ASKS
            if field.rank:
                assert not field.rank.gap_unseen or f"{field.rank.asks}/gap" in tool_asks.ASKS
                assert not field.rank.total_unseen or f"{field.rank.asks}/total" in tool_asks.ASKS


def test_the_other_wordings_of_training_are_not_the_unseen_ones() -> None:
    rng = Random("words")
    words = [*tool_words.SUMS.values(), *(p[-1] for p in tool_words.PROBLEMS), tool_words.AGE[0], tool_words.EXISTED[0]]
    words += [value for value in vars(tool_words).values() if isinstance(value, Words)]
    for each in words:
        assert len(set(each.seen)) == len(each.seen)
        assert not {expand(rng, rng.choice(each.seen)).casefold() for _ in range(500)} & {
            text.casefold() for text in each.unseen}


def test_instructions_name_every_action() -> None:
    for i in range(300):
        rng = Random(f"head/{i}")
        text = tool_words.head(rng)
        assert all(f"{name}[" in text for name in ("Search", "Calculate", "Finish"))
        assert text[0].isupper() and text.endswith("\n") and text not in tool_words.UNSEEN_HEADS
        assert all(f"{name}[" in tool_words.system(rng, new=False) for name in ("Search", "Calculate"))


@pytest.mark.parametrize("name", ["PROPOSE", "DISTANCE", "REACH", "SOLVE", "NEIGHBOURS", "ROUTE"])
def test_no_wording_of_a_puzzle_expands_to_an_unseen_one(name: str) -> None:
    rng = Random(name)
    facts = puzzle_words.PLACES if name in ("NEIGHBOURS", "ROUTE") else puzzle_words.WITH_LEFT
    seen = {puzzle_words.worded(rng, getattr(puzzle_words, name), facts) for _ in range(3000)}
    assert len(seen) > 2000
    assert not seen.intersection(getattr(puzzle_words, f"{name}_UNSEEN"))
    assert all(f"{{{field}}}" in text or (field == "n" and "{k}" in text) for text in seen for field in facts)


@pytest.mark.parametrize("make", MAKERS)
def test_items_have_an_answer_on_both_sides(make: Any) -> None:
    for side in (False, True):
        for i in range(100):
            item = draw(make, Random(f"item/{i}"), from_held_out=side)
            assert item.ask == item.ask.strip() and item.short == item.short.strip() != ""
            assert not item.choices or item.short in item.choices


@pytest.mark.parametrize("make", TEXTS)
def test_passages_have_places_to_go_on(make: Any) -> None:
    for i in range(200):
        text = draw(make, Random(f"passage/{i}")).text
        assert JOINT in text
        assert "{" not in text


def test_every_number_has_a_next_state_and_distances_agree_with_the_paths() -> None:
    for moves in puzzles.MOVE_SETS:
        assert all(puzzles.results(moves, state) for state in range(puzzles.TOP + 1))
        for goal in range(0, puzzles.TOP + 1, 7):
            for state, away in enumerate(puzzles.distances(moves, goal)):
                if away < puzzles.FAR:
                    path = puzzles.solution(moves, state, goal)
                    assert len(path) == away
                    want = f"{','.join(moves)}|{state}|{goal}"
                    assert not path or puzzle_suites.leads_there(puzzles.shown(path), want)


@pytest.mark.parametrize("make", [puzzles.propose, puzzles.distance, puzzles.reach, puzzles.solve, puzzles.check])
def test_no_training_answer_tells_of_another_held_out_puzzle(make: Any) -> None:
    for i in range(300):
        item = draw(make, Random(f"path/{i}"))
        found = re.fullmatch(r"path/(.*)/(\d+)/(\d+)", item.key)
        assert found
        moves, goal = tuple(found[1].split(",")), int(found[3])
        numbers = {int(found[2]), *map(int, re.findall(r"(?:-> |Next: |\), )(\d+)", item.full))}
        assert all(puzzles.known(moves, number, goal) for number in numbers)


def test_written_distances_verdicts_and_checks_are_right() -> None:
    for i in range(300):
        rng = Random(f"written/{i}")
        item = puzzles.distance(rng)
        if "Next: " in item.full:
            nexts = re.findall(r"\d+ \((\w+)", item.full)
            best = min(puzzles.DISTANCES.index(far) for far in nexts)
            assert puzzles.DISTANCES[min(best + 1, puzzles.FAR)] == item.short
        assert item.full.endswith(f"Moves to go: {item.short}")
        assert puzzles.reach(rng).full.endswith(("sure", "maybe", "impossible"))
        checked = puzzles.check(rng)
        assert (", not " in checked.full) == (checked.short == "No")
        for at, move, to in re.findall(r"(\d+) ([-+*/]\d+) is (\d+)", checked.full):
            assert tool_episodes.calculate(f"{at} {move}") == to


def test_a_written_route_is_a_shortest_one_on_the_map() -> None:
    for i in range(300):
        made, start, goal = routes.roads(Random(f"map/{i}"))
        looked, back, route = routes.written_search(made, start, goal)
        assert puzzle_suites.is_route(f"Search: {looked}\nBack: {back}\nRoute: {route}",
                                      f"{routes.shown(made)}|{start}|{goal}")
        reached, steps = {start}, 0
        while goal not in reached:
            reached |= {p for at in reached for p in routes.neighbours(made, at)}
            steps += 1
        assert route.count(" - ") == steps


def test_judges_refuse_wrong_paths() -> None:
    want = "+3,*2,-1|7|20"
    assert puzzle_suites.leads_there("+3 -> 10, *2 -> 20", want)
    for wrong in ("+3 -> 10, *2 -> 21", "+3 -> 10", "", "+13 -> 20", "*2 -> 14, +3 -> 20", "no"):
        assert not puzzle_suites.leads_there(wrong, want)
    for wrong in ("A - C", "A - B", "", "B - A - C", "A - B - C - D"):
        assert not puzzle_suites.is_route(wrong, "A - B, C - B|A|C")
    assert puzzle_suites.is_route("A - B - C", "A - B, C - B|A|C")
    assert not tool_suites.answer_said("It is 163 metres higher.", "16")


def test_the_tree_search_solves_every_puzzle_with_right_proposals_and_ratings() -> None:
    def answer(prompt: str) -> str:
        moves, goal, state = puzzle_of(prompt)
        if prompt.endswith("Next states:"):
            return " " + puzzles.shown(puzzles.results(moves, state))
        return " " + puzzles.DISTANCES[puzzles.distances(moves, goal)[state]]

    assert share_right(suite_of(puzzle_suites.SUITES, "number path, tree search"), answer) == 1


def puzzle_of(prompt: str) -> tuple[tuple[str, ...], int, int]:
    """Moves, goal and the number that the last line is about."""
    moves, goal = re.search(r"Moves: (.*)\.\n", prompt), re.search(r"Goal: (\d+)", prompt)
    assert moves and goal
    return tuple(moves[1].split(", ")), int(goal[1]), int(prompt.rpartition("State: ")[2].split("\n")[0])


def test_the_route_search_finds_every_goal_with_right_neighbours() -> None:
    def answer(prompt: str) -> str:
        roads = [(a, b) for a, b in re.findall(r"\b([A-Z]) - ([A-Z])\b", prompt)]
        return " " + ", ".join(routes.neighbours(roads, prompt[-2]))

    assert share_right(suite_of(puzzle_suites.SUITES, "route by search"), answer) == 1


@pytest.mark.parametrize("name", ["tool episodes, one", "tool episodes, no", "tool episodes, question"])
def test_episodes_are_solved_when_thoughts_and_actions_are_right(name: str) -> None:
    """The steps are those of the case's own episode, found again by its question."""
    suite, known = suite_of(tool_suites.SUITES, name), {}
    held = tool_suites._episode

    def remember(rng: Random, new: bool) -> Episode:
        made = held(rng, new)
        known[made.question] = made
        return made

    def answer(prompt: str) -> str:
        made = known[prompt.rpartition("Question: ")[2].split("\nThought 1:")[0]]
        kind, number = re.findall(r"(Thought|Action) (\d+):", prompt)[-1]
        step = made.steps[int(number) - 1]
        return f" {step.thought if kind == 'Thought' else step.call}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_suites, "_episode", remember)
        assert share_right(suite, answer) == 1


def test_an_action_that_is_no_call_ends_an_episode_without_an_answer() -> None:
    assert share_right(suite_of(tool_suites.SUITES, "tool episodes, no"), lambda prompt: " I do not know", 5) == 0
