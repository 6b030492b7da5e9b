"""Search and voting patterns: functions that fork a state, append, read, and continue as one of the
forks (`ProgramState.keep`).

A `step` is an expression for all forks, a list with an expression per fork, or a function of the
fork's index. The forks share the prompt prefix, which is computed once. At temperature 0 equal
expressions generate equal texts: pass a temperature to `gen`, and for reproducible samples a `seed`
per fork: `lambda i: gen("answer", seed=i)`.
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
"""Argument of `ForkGroup += step`: an expression, a list of expressions, or a function of the
index."""

Score = Callable[[ProgramState], "float | Expr"]
"""Score of a branch: a number, or an expression whose value is a number. The expression runs in a
fork of the branch and leaves the branch unchanged."""


def best_of_n(s: ProgramState, n: int, step: Step, score: Score) -> list[float]:
    """Append `step` to n forks and continue as the fork with the highest score.

    Args:
        s: State of the program.
        n: Number of forks.
        step: Expression, list of expressions, or function of the fork's index.
        score: Function that returns the score of a fork: a number, or an expression for the model.
            The first of equal scores wins.

    Returns:
        The scores of the forks.

    Example:
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
    """Append `step` to n forks and continue as the first fork with the majority's vote
    (self-consistency).

    Args:
        s: State of the program.
        n: Number of forks.
        step: Expression, list of expressions, or function of the fork's index.
        vote: Function that returns the hashable vote of a fork. In a tie, the earliest vote wins.

    Returns:
        The count of each vote.

    Raises:
        ProgramError: A vote is not hashable.

    Example:
        majority_vote(
            s, 8, gen("steps", temperature=1) + "Answer: " + gen_int("answer"),
            vote=lambda b: int(b["answer"]),
        )
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
    r"""Grade candidates with the model (LLM as a judge). The state itself does not change.

    All candidates are graded concurrently in forks of `s`. A grade counts as its position in
    `grades`, from 1 on.

    Args:
        s: State of the program.
        candidates: Texts or expressions.
        question: Text or expression after the candidate; or a function of the candidate that
            returns everything before the grade, for example `lambda text: user(f"Grade this:
            {text}") + assistant_begin()`.
        grades: Grades in ascending order.

    Returns:
        The expected grade of each candidate: the mean of the positions, weighted by the
        probabilities of the grades.

    Example:
        judge(s, [a["answer"], b["answer"]], question="\nHow good is this answer, from 1 to 5? ")
    """
    candidates = list(candidates)
    if not candidates:
        return []
    group = s.fork(len(candidates))
    prompt_of = question if callable(question) else lambda candidate: candidate + question
    group += [prompt_of(candidate) + select("grade", list(grades)) for candidate in candidates]
    return [_expected(branch.get_meta_info("grade")["scores"]) for branch in group]


def map_over(s: ProgramState, items: Iterable[Any], step: Callable[[Any], Any]) -> None:
    r"""Append `step(item)` to a fork per item, then join the forks. Does not wait.

    Each variable of the forks becomes a list in the order of the items.

    Args:
        s: State of the program.
        items: Items.
        step: Function that returns the expression for an item.

    Example:
        map_over(s, pages, lambda page: page + "\nIn short: " + gen("summary"))
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
    """Append `step` to a fork until `valid` returns true, and continue as this fork.

    Args:
        s: State of the program.
        step: Expression, list with one expression, or function of the try's number.
        valid: Function of the fork. A ValueError in `valid`, other than an SgnbError, counts as
            false.
        tries: Maximum number of tries.
        feedback: Function of the fork that returns an expression to append after an invalid try.
            The invalid try then stays in the text. Without feedback the next try starts from the
            original text.

    Returns:
        The number of tries.

    Raises:
        ProgramError: No try was valid.

    Example:
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
            if isinstance(error, SgnbError):  # an error of the program, such as a refused request
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
    r"""Search over continuations with a beam, and continue as the best branch.

    In each of `depth` rounds every branch of the beam is extended by its proposals, and the `width`
    branches with the highest scores form the next beam. A branch without proposals is complete and
    competes with its score.

    Args:
        s: State of the program.
        propose: Function of a branch that returns a list of expressions, one per child.
        score: Function that returns the score of a branch: a number, or an expression for the
            model.
        width: Number of branches in the beam.
        depth: Number of rounds.

    Returns:
        The score of the best branch.

    Example:
        beam_search(
            s, propose=lambda b: [gen("line", stop="\n", seed=i) for i in range(4)],
            score=lambda b: "\nIs this promising? " + select("vote", ["1", "2", "3"]),
        )
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
    """Search over continuations best-first (tree of thoughts), and continue as the solution or the
    best branch.

    Each step opens the branch with the highest score: every proposal becomes a child.

    Args:
        s: State of the program.
        propose: Function of a branch that returns a list of expressions, one per child.
        score: Function that returns the score of a branch: a number, or an expression for the
            model.
        solved: Function of a branch that returns whether the search is over.
        budget: Maximum number of opened branches.

    Returns:
        Whether a branch is solved.

    Example:
        tree_search(
            s, propose=lambda b: [" left", " right"], score=lambda b: -distance(b.text()),
            solved=lambda b: distance(b.text()) == 0,
        )
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


def _whole(name: str, value: Any, minimum: int) -> int:
    value = scalar(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        message = f"{caller()}: {name}={shown(value)} is not allowed"
        raise OptionError(message, f"give an integer of {minimum} or more")
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
    """Return the scores of all branches. Scores from the model are requested concurrently."""
    pairs = [(branch, score(branch)) for branch in branches]
    answers = [_ask(branch, v) if isinstance(v, Expr) else v for branch, v in pairs]
    return [_number(answer() if callable(answer) else answer) for answer in answers]


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        hint = "return a number, or an expression by which the model gives one, such as a select"
        raise ProgramError(f"{caller()}: the score {shown(score)} is no number", hint) from None


def _ask(branch: ProgramState, expr: Expr) -> Callable[[], Any]:
    """Append `expr` to a fork and return a function that reads the last variable of the fork."""
    [fork] = branch.fork(1)
    fork += expr
    names = fork._branch.scope.names
    return lambda: fork[max(names, key=names.__getitem__)]


def _expected(scores: Sequence[float]) -> float:
    """Return the expected position, from 1 on, for mean log-probabilities."""
    weights = [exp(score) for score in scores]
    return sum(position * weight for position, weight in enumerate(weights, 1)) / sum(weights)
