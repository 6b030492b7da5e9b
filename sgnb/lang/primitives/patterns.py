"""Higher words, made of the small ones: plain functions of a state, which fork it, append, read and
go on as one of the forks (`ProgramState.keep`).

What they append are expressions: one for all forks, a list, or a function of the fork's number. The
forks share what the state holds, which is computed once. At temperature 0 equal expressions give
equal texts: give `gen` a temperature, and for repeatable draws a `seed` for each fork:
`lambda i: gen("answer", seed=i)`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from math import exp, inf
from typing import Any

from ...errors import OptionError, ProgramError, SgnbError, shown
from ...sampling import scalar
from ..core.state import ProgramState
from ..ir import Expr
from ..location import caller
from .expressions import select

Step = Any
"""What `ForkGroup += step` takes: an expression, a list of them, or a function of the number."""

Score = Callable[[ProgramState], "float | Expr"]
"""A number for a branch; or an expression for the model to answer with one, which is asked beside
the branch and leaves nothing in it."""


def best_of_n(s: ProgramState, n: int, step: Step, score: Score) -> list[float]:
    """Best of n: append `step` to `n` forks, and go on as the one with the largest `score`, the
    first of equals. Returns the scores.

    best_of_n(s, 4, gen("answer", temperature=1), score=lambda b: -len(b["answer"]))
    """
    group = s.fork(n)
    group += step
    scores = _scores(group, score)
    s.keep(group[scores.index(max(scores))])
    return scores


def majority_vote(
    s: ProgramState, n: int, step: Step, vote: Callable[[ProgramState], Any]
) -> Counter[Any]:
    """Self-consistency: append `step` to `n` forks, read the `vote` of each, and go on as the first
    one of the majority (of a tie, the first that voted). Returns how often each vote was given.

    majority_vote(s, 8, gen("steps", temperature=1) + "Answer: " + gen_int("answer"),
                  vote=lambda b: int(b["answer"]))
    """
    group = s.fork(n)
    group += step
    votes = [_countable(vote(branch)) for branch in group]
    counts = Counter(votes)
    [(winner, _)] = counts.most_common(1)
    s.keep(group[votes.index(winner)])
    return counts


def judge(
    s: ProgramState, candidates: Iterable[Any], question: Any, grades: Sequence[str] = "12345"
) -> list[float]:
    """LLM as a judge: the grade of each of `candidates`, all asked at once in forks of `s`, which
    stays as it is. A grade counts as its place in `grades` from 1 on, and the result is the mean of
    all, each weighted by its probability.

    question: what follows the candidate; or a function of it that gives all that comes before the
    grade, such as `lambda text: user(f"Grade this: {text}") + assistant_begin()`.

    judge(s, [a["answer"], b["answer"]], question="\\nHow good is this answer, from 1 to 5? ")
    """
    candidates = list(candidates)
    if not candidates:
        return []
    group = s.fork(len(candidates))
    asked = question if callable(question) else lambda candidate: candidate + question
    group += [asked(one) + select("grade", list(grades)) for one in candidates]
    return [_expected(branch.get_meta_info("grade")["scores"]) for branch in group]


def map_over(s: ProgramState, items: Iterable[Any], step: Callable[[Any], Any]) -> None:
    """Append `step(item)` to a fork for each of `items`, and join: each variable becomes a list, in
    their order. Does not wait.

    map_over(s, pages, lambda page: page + "\\nIn short: " + gen("summary"))
    """
    steps = [step(item) for item in items]
    if steps:
        group = s.fork(len(steps))
        group += steps
        group.join()


def retry(
    s: ProgramState,
    step: Step,
    valid: Callable[[ProgramState], Any],
    tries: int = 3,
    feedback: Callable[[ProgramState], Any] | None = None,
) -> int:
    """Append `step` to a fork until `valid` of it is true, and go on as that one. A ValueError of
    the code in `valid` means no. Returns how many tries it took; if none is valid, a ProgramError.

    feedback: what to append after a try that is not valid, which stays in `s` then. Without it the
    next try begins as if there had been none.

    retry(s, gen("year", max_tokens=8), valid=lambda b: int(b["year"]) > 1900)
    """
    tries = _whole("tries", tries, 1)
    reason: ValueError | None = None
    for number in range(tries):
        group = s.fork(1)
        group += [step(number)] if callable(step) and not isinstance(step, Expr) else step
        try:
            good = valid(group[0])
        except ValueError as error:
            if isinstance(error, SgnbError):  # of the program, such as a request that is refused
                raise
            good, reason = False, error
        if good or feedback is not None:
            s.keep(group[0])
        if good:
            return number + 1
        if feedback is not None:
            s += feedback(group[0])
    hint = "allow more tries, or a higher temperature; or guide the model by feedback="
    raise ProgramError(f"{caller()}: none of {tries} tries was valid", hint) from reason


def beam_search(
    s: ProgramState,
    propose: Callable[[ProgramState], Sequence[Any]],
    score: Score,
    width: int = 3,
    depth: int = 3,
) -> float:
    """Beam search over thoughts: `propose(branch)` gives the expressions by which a branch may go
    on, one for each child; the `width` children with the largest `score` go on, `depth` times. A
    branch without proposals is over, and stays if its score does. `s` goes on as the best. Returns
    its score.

    beam_search(s, propose=lambda b: [gen("line", stop="\\n", seed=i) for i in range(4)],
                score=lambda b: "\\nIs this promising? " + select("vote", ["1", "2", "3"]))
    """
    width, depth = _whole("width", width, 1), _whole("depth", depth, 0)
    beam = [(0.0, s)]
    for _ in range(depth):
        groups = [_children(branch, list(propose(branch))) for _, branch in beam]
        ended = [pair for pair, group in zip(beam, groups, strict=True) if not group]
        children = [child for group in groups for child in group]
        scored = zip(_scores(children, score), children, strict=True)
        beam = sorted([*ended, *scored], key=lambda pair: -pair[0])[:width]
    value, best = beam[0]
    s.keep(best)
    return value


def tree_search(
    s: ProgramState,
    propose: Callable[[ProgramState], Sequence[Any]],
    score: Score,
    solved: Callable[[ProgramState], bool],
    budget: int = 20,
) -> bool:
    """Tree of thoughts, best first: open the branch with the largest `score`, with a child for each
    expression of `propose(branch)`, until one is `solved` or `budget` branches have been opened.
    `s` goes on as that one, or as the best. Returns whether it is solved.

    tree_search(s, propose=lambda b: [" left", " right"], score=lambda b: -distance(b.text()),
                solved=lambda b: distance(b.text()) == 0)
    """
    budget, order = _whole("budget", budget, 0), count()
    frontier = [(0.0, next(order), s)]
    best = (-inf, s)
    for _ in range(budget):
        if not frontier:
            break
        _, _, branch = heapq.heappop(frontier)
        children = _children(branch, list(propose(branch)))
        for value, child in zip(_scores(children, score), children, strict=True):
            if solved(child):
                s.keep(child)
                return True
            heapq.heappush(frontier, (-value, next(order), child))
            best = max(best, (value, child), key=lambda pair: pair[0])
    s.keep(best[1])
    return False


def _whole(name: str, value: Any, least: int) -> int:
    value = scalar(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        what = f"{caller()}: {name}={shown(value)} is not allowed"
        raise OptionError(what, f"give an integer of {least} or more")
    return value


def _countable(vote: Any) -> Any:
    try:
        hash(vote)
    except TypeError:
        hint = "return text, a number or a tuple of them"
        raise ProgramError(f"{caller()}: the vote {shown(vote)} cannot be counted", hint) from None
    return vote


def _children(branch: ProgramState, steps: list[Any]) -> Sequence[ProgramState]:
    if not steps:
        return []
    group = branch.fork(len(steps))
    group += steps
    return group


def _scores(branches: Iterable[ProgramState], score: Score) -> list[float]:
    """Of all branches; those that the model gives are asked for at once."""
    asked = [(branch, score(branch)) for branch in branches]
    answers = [_ask(branch, v) if isinstance(v, Expr) else v for branch, v in asked]
    return [_number(answer() if callable(answer) else answer) for answer in answers]


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        hint = "return a number, or an expression by which the model gives one, such as a select"
        raise ProgramError(f"{caller()}: the score {shown(score)} is no number", hint) from None


def _ask(branch: ProgramState, expr: Expr) -> Callable[[], Any]:
    """Append `expr` to a fork; what gives its last variable."""
    [fork] = branch.fork(1)
    fork += expr
    names = fork._branch.scope.names
    return lambda: fork[max(names, key=names.__getitem__)]


def _expected(scores: Sequence[float]) -> float:
    """The mean place, from 1 on, of mean log-probabilities."""
    weights = [exp(score) for score in scores]
    return sum(place * weight for place, weight in enumerate(weights, 1)) / sum(weights)
