"""A puzzle whose states can be proposed and judged: get from a start number to a goal with three kinds of move, every
number on the way from 0 to 40.

Whatever is asked about a puzzle, the key is the puzzle: the moves, where one stands, the goal. An answer may tell how
far the goal is from the next states, and a path leads through further puzzles; all of those are on training's side, so
that only the puzzle itself can be held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from random import Random

from ..alternatives import expand
from ..forms import chat
from ..items import JOINT, Item, Passage, held_out
from .puzzle_words import CHECK, DISTANCE, FACTS, PATH_HEADS, PROPOSE, REACH, SOLVE, WITH_LEFT, worded

TOP = 40
MOVE_SETS = (("+3", "*2", "-1"), ("+5", "*2", "-3"), ("-4", "*2", "+1"), ("+6", "-5", "/2"), ("+8", "-3", "/2"),
             ("+7", "-2", "*3"))
FAR = 5
DISTANCES = ("0", "1", "2", "3", "4", "far")
VERDICTS = ("sure", "maybe", "impossible")


@cache
def results(moves: tuple[str, ...], state: int) -> tuple[tuple[str, int], ...]:
    """The moves that are possible, each with the number it leads to."""
    done = ((move, _do(move, state)) for move in moves)
    return tuple((move, to) for move, to in done if to is not None and 0 <= to <= TOP)


def _do(move: str, state: int) -> int | None:
    """None if the move is not possible: only even numbers can be halved."""
    sign, by = move[0], int(move[1:])
    if sign == "/":
        return state // by if state % by == 0 else None
    return {"+": state + by, "-": state - by, "*": state * by}[sign]


@cache
def distances(moves: tuple[str, ...], goal: int) -> tuple[int, ...]:
    """For each number how many moves the goal is away, FAR if that many or more."""
    away = [FAR] * (TOP + 1)
    away[goal] = 0
    for far in range(1, FAR):
        nearer = [state for state in range(TOP + 1) if away[state] == FAR
                  and any(away[to] == far - 1 for _, to in results(moves, state))]
        for state in nearer:
            away[state] = far
    return tuple(away)


@cache
def within(moves: tuple[str, ...], goal: int) -> tuple[tuple[int, ...], ...]:
    """The numbers from which the goal is 0, 1, ... moves away, those of which one may tell what comes next."""
    away = distances(moves, goal)
    told = [state for state in range(TOP + 1) if all(known(moves, to, goal) for _, to in results(moves, state))]
    return tuple(tuple(state for state in told if away[state] == far) for far in range(FAR + 1))


@cache
def path_key(moves: tuple[str, ...], state: int, goal: int) -> str:
    return f"path/{','.join(moves)}/{state}/{goal}"


@cache
def known(moves: tuple[str, ...], state: int, goal: int) -> bool:
    """Whether training may tell about it. That the goal is no move away from itself says nothing."""
    return state == goal or not held_out(path_key(moves, state, goal))


@cache
def solution(moves: tuple[str, ...], state: int, goal: int) -> tuple[tuple[str, int], ...]:
    """A shortest path: at each number the first move that comes nearer."""
    away, path = distances(moves, goal), []
    while state != goal:
        move, state = next((m, to) for m, to in results(moves, state) if away[to] < away[state])
        path.append((move, state))
    return tuple(path)


@cache
def _starts(moves: tuple[str, ...], goal: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of `within`, 1 to FAR - 1 moves away, whose next numbers are all known along the whole solution."""
    told = {state for group in within(moves, goal) for state in group}
    return tuple(tuple(state for state in group if all(to in told for _, to in solution(moves, state, goal)[:-1]))
                 for group in within(moves, goal)[1:FAR])


def puzzle(rng: Random, low: int = 0) -> tuple[tuple[str, ...], int, int]:
    """Moves, state and goal; each distance from `low` on is as likely. From 1 on there is a path that may be told."""
    while True:
        moves, goal = rng.choice(MOVE_SETS), rng.randint(0, TOP)
        group = rng.choice(_starts(moves, goal)[low - 1:] if low else within(moves, goal))
        if group:
            return moves, rng.choice(group), goal


def shown(steps: Iterable[tuple[str, int]]) -> str:
    """`+3 -> 10, *2 -> 20`; the same for proposals and for paths."""
    return ", ".join(f"{move} -> {to}" for move, to in steps)


def asked(rng: Random, words: tuple[str, ...], moves: Sequence[str], state: int, goal: int, **more: object) -> str:
    """The puzzle in one of the wordings."""
    wording = worded(rng, words, WITH_LEFT if "n" in more else FACTS)
    return wording.format(s=state, g=goal, m=", ".join(moves), **more)


def _given(moves: Sequence[str], state: int, goal: int) -> str:
    return f"{state}. Goal: {goal}. Moves: {', '.join(moves)}."


def propose(rng: Random, words: tuple[str, ...] = PROPOSE) -> Item:
    """The next states of a number."""
    moves, state, goal = puzzle(rng)
    answer = shown(results(moves, state))
    return Item(path_key(moves, state, goal), asked(rng, words, moves, state, goal), answer, answer,
                _given(moves, state, goal), ("State", "Next states"))


def looked_ahead(moves: tuple[str, ...], state: int, goal: int) -> str:
    """How far the goal is from each next number, so from this one: `Next: 10 (2 to go), 6 (far). Moves to go: 3`."""
    away = distances(moves, goal)
    if state == goal:
        return "It is the goal. Moves to go: 0"
    nexts = ", ".join(f"{to} ({DISTANCES[away[to]]}{' to go' * (away[to] < FAR)})" for _, to in results(moves, state))
    return f"Next: {nexts}. Moves to go: {DISTANCES[away[state]]}"


def distance(rng: Random, words: tuple[str, ...] = DISTANCE) -> Item:
    """How many moves the goal is away; before that the next states, with their distances in the full answer."""
    moves, state, goal = puzzle(rng)
    given = f"{_given(moves, state, goal)} Next states: {shown(results(moves, state))}."
    return Item(path_key(moves, state, goal), asked(rng, words, moves, state, goal),
                DISTANCES[distances(moves, goal)[state]], looked_ahead(moves, state, goal), given,
                ("State", "Moves to go"), DISTANCES)


def verdict(away: int, left: int) -> str:
    """`sure` with a move to spare, `maybe` when every move has to be the right one."""
    return "impossible" if away > left else "maybe" if away == left else "sure"


def reach(rng: Random, words: tuple[str, ...] = REACH) -> Item:
    """Whether the goal is in reach; each verdict is as likely."""
    moves, state, goal = puzzle(rng)
    away, wanted = distances(moves, goal)[state], rng.choice(VERDICTS)
    left = rng.choice([n for n in range(1, FAR) if verdict(away, n) == wanted] or range(1, FAR))
    answer = verdict(away, left)
    ask = asked(rng, words, moves, state, goal, k=left, n=f"{left} move" if left == 1 else f"{left} moves")
    full = f"{looked_ahead(moves, state, goal)}, moves left: {left}. Verdict: {answer}"
    given = f"{_given(moves, state, goal)} Next states: {shown(results(moves, state))}. Moves left: {left}."
    return Item(path_key(moves, state, goal), ask, answer, full, given, ("State", "Verdict"), VERDICTS)


def walked(moves: tuple[str, ...], state: int, goal: int) -> str:
    """At each number of the path what may come next, then the path: `7: +3 -> 10, ... 10: ... Path: +3 -> 10, ...`."""
    path = solution(moves, state, goal)
    looked = [f"{at}: {shown(results(moves, at))}." for at in (state, *(to for _, to in path[:-1]))]
    return f"{' '.join(looked)} Path: {shown(path)}"


def solve(rng: Random, words: tuple[str, ...] = SOLVE) -> Item:
    """The whole path; the full answer looks at what may come next first."""
    moves, state, goal = puzzle(rng, low=1)
    return Item(path_key(moves, state, goal), asked(rng, words, moves, state, goal),
                shown(solution(moves, state, goal)), walked(moves, state, goal), _given(moves, state, goal),
                ("Start", "Path"))


def check(rng: Random, words: tuple[str, ...] = CHECK) -> Item:
    """Whether a path is right; half of them have one number wrong. Every move is done again before the verdict."""
    moves, state, goal = puzzle(rng, low=2)
    path = solution(moves, state, goal)
    wrong = rng.randrange(len(path)) if rng.random() < 0.5 else len(path)
    told, done, at = list(path), [], state
    for i, (move, to) in enumerate(path[:wrong + 1]):
        done.append(f"{at} {move} is {to}")
        at = to
        if i == wrong:
            told[i] = (move, to + rng.choice((1, 2, 3, 10, *((-3, -2, -1) if to > 2 else ()))))
            done[-1] += f", not {told[i][1]}"
    short = "Yes" if wrong == len(path) else "No"
    ask = asked(rng, words, moves, state, goal, p=shown(told))
    return Item(path_key(moves, state, goal), ask, short, f"{'. '.join(done)}. {short}.", choices=("Yes", "No"))


def path_head(rng: Random, moves: Sequence[str], state: int, goal: int) -> str:
    """The puzzle as a program states it before it forks."""
    return f"{expand(rng, rng.choice(PATH_HEADS))}\nStart: {state}. Goal: {goal}. Moves: {', '.join(moves)}.\n"


def _others(rng: Random, moves: tuple[str, ...], goal: int, most: int) -> list[int]:
    """Some numbers on training's side, near and far from the goal alike."""
    groups = [group for group in within(moves, goal) if group]
    drawn = {rng.choice(rng.choice(groups)) for _ in range(rng.randint(2, most))}
    return [state for state in sorted(drawn, key=lambda _: rng.random()) if known(moves, state, goal)]


def path_search(rng: Random) -> Passage:
    """A puzzle, then proposals and ratings of numbers, each as a search asks for them; at last perhaps the path."""
    moves, start, goal = puzzle(rng, low=1)
    lines = []
    for state in (start, *_others(rng, moves, goal, 8)):
        away = DISTANCES[distances(moves, goal)[state]]
        lines.append(f"State: {state}\nNext states:{JOINT} {shown(results(moves, state))}\nMoves to go:{JOINT} {away}")
    if rng.random() < 0.3:
        lines.append(f"Path:{JOINT} {walked(moves, start, goal)}")
    return Passage(path_key(moves, start, goal), path_head(rng, moves, start, goal) + "\n".join(lines) + "\n")


def path_talk(rng: Random) -> Passage:
    """A chat about one puzzle: next states, distances and paths in turn."""
    moves, start, goal = puzzle(rng, low=1)
    turns = [(asked(rng, SOLVE, moves, start, goal), walked(moves, start, goal))]
    for state in _others(rng, moves, goal, 5):
        propose_it = rng.random() < 0.4
        answer = shown(results(moves, state)) if propose_it else looked_ahead(moves, state, goal)
        turns.append((asked(rng, PROPOSE if propose_it else DISTANCE, moves, state, goal), answer))
    rng.shuffle(turns)
    return Passage(path_key(moves, start, goal), chat(turns))
