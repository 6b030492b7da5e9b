"""Requests with `approximate=True` after an edit, on the bundled model: time to the first token,
the same answers as exact runs, and the detection of wrong rotations."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sgnb.engine import Engine
from sgnb.engine.model.key_rotation import KeyRotation

from .common import Report, seconds

TURNS = 7
TOKENS, EDIT = 3800, 0.1
MOST_TIME = 0.4
PROMPTS, LINES = 200, 50
LEAST_SAME, MOST_KL = 0.97, 0.01
WRONG = 50
TEXT = Path(__file__).resolve().parent.parent / "docs" / "LANGUAGE.md"
PEOPLE = (
    "Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Iris", "Jack", "Kate",
    "Leo", "Maya", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tina", "Victor", "Wendy", "Yara", "Zoe",
)  # fmt: skip
FACTS = {
    "lives in": ("Where does {n} live?", ("Paris", "Seoul", "Lisbon", "Tokyo", "Rome", "Oslo")),
    "works as a": ("What is the job of {n}?", ("painter", "teacher", "doctor", "farmer", "baker")),
    "likes": ("What does {n} like?", ("chess", "music", "tennis", "painting", "football")),
    "has a": ("What pet does {n} have?", ("cat", "dog", "horse", "parrot", "rabbit", "fish")),
}


def edited_notes(rng: random.Random) -> tuple[str, str]:
    """Return two prompts of notes with a question. One of the first notes is edited; the question
    is about the edited note in every second prompt."""
    pairs = rng.sample([(name, verb) for name in PEOPLE for verb in FACTS], LINES)
    values = [rng.choice(FACTS[verb][1]) for _, verb in pairs]
    notes = [f"{name} {verb} {value}." for (name, verb), value in zip(pairs, values, strict=True)]
    edited = rng.randrange(1, LINES // 5)
    name, verb = pairs[edited]
    new = rng.choice([value for value in FACTS[verb][1] if value != values[edited]])
    asked, kind = pairs[edited if rng.random() < 0.5 else rng.randrange(LINES)]
    question = FACTS[kind][0].format(n=asked)

    def prompt(lines: list[str]) -> str:
        return "Notes:\n" + "\n".join(lines) + f"\n\nQuestion: {question}\nAnswer:"

    added = rng.choice(("", " gladly", " in these days", " as everybody in the street knows"))
    changed = [*notes[:edited], f"{name} {verb} {new}{added}.", *notes[edited + 1 :]]
    return prompt(notes), prompt(changed)


def first_tokens(engine: Engine) -> tuple[list[float], list[float]]:
    """Return the seconds to the first token of exact and of approximate requests, in turns."""
    [text] = engine.encode([TEXT.read_text(encoding="utf-8")])
    prompt, place = text[:TOKENS], int(EDIT * TOKENS)
    exact, approximate = [], []
    for turn in range(TURNS):
        for is_approximate in (False, True) if turn % 2 else (True, False):
            edited = [*prompt[:place], *text[-12 - turn : -2], *prompt[place + 10 :]]
            engine.flush_cache()
            engine.generate(prompt, max_tokens=1, temperature=0)
            output: Any = None

            def ask(edited: list[int] = edited, approximate: bool = is_approximate) -> None:
                nonlocal output
                output = engine.generate(
                    edited, max_tokens=1, temperature=0, approximate=approximate
                )

            (approximate if is_approximate else exact).append(seconds(ask))
            if is_approximate:
                assert output.approximate.wait(60) is not None
    return exact, approximate


def answers(engine: Engine, count: int, seed: int) -> Iterator[Any]:
    """Yield the records of answers after an edit, each with a comparison."""
    rng = random.Random(seed)
    for _ in range(count):
        old, new = edited_notes(rng)
        engine.flush_cache()
        engine.generate(old, max_tokens=1, temperature=0)
        output: Any = engine.generate(
            new, max_tokens=12, temperature=0, stop="\n", approximate=True
        )
        output.approximate.wait(60)
        yield output.approximate


@contextmanager
def wrong_rotations(rng: random.Random) -> Iterator[None]:
    """Rotate each copy to a wrong position: 1 to 64 positions too far or too near."""
    rotate = KeyRotation.rotate

    def rotate_wrongly(self: KeyRotation, content: Any, shift: int) -> None:
        rotate(self, content, shift + rng.choice((-1, 1)) * rng.randint(1, 64))

    KeyRotation.rotate = rotate_wrongly  # type: ignore[method-assign]
    try:
        yield
    finally:
        KeyRotation.rotate = rotate  # type: ignore[method-assign]


def run() -> list[Report]:
    with Engine("tiny", max_total_tokens=16384, approximate_seconds=0) as engine:
        engine.generate(list(range(100, 700)), max_tokens=4, temperature=0, approximate=True)
        exact, approximate = first_tokens(engine)
        records = list(answers(engine, PROMPTS, 1))
        with wrong_rotations(random.Random(2)):
            wrong = list(answers(engine, WRONG, 3))
    return [_time(exact, approximate), _answers(records, wrong)]


def _time(exact: list[float], approximate: list[float]) -> Report:
    share = statistics.median(a / b for a, b in zip(approximate, exact, strict=True))
    report = Report(
        f"First token after an edit at {EDIT:.0%} of {TOKENS:,} tokens, bundled model",
        ("", "measured", "at most"),
        bar="the last column",
        note=f"Medians of {TURNS} turns.",
    )
    report.rows = [
        ("exact, ms", round(1000 * statistics.median(exact)), ""),
        ("approximate, ms", round(1000 * statistics.median(approximate)), ""),
        ("approximate over exact", round(share, 3), MOST_TIME),
    ]
    report.met = share <= MOST_TIME
    return report


def _answers(records: list[Any], wrong: list[Any]) -> Report:
    results = [record.result for record in records if record.result is not None]
    same = sum(result.same_tokens == result.tokens for result in results) / len(records)
    kl = sorted(result.mean_kl for result in results)
    rotation = max(result.rotation_error for result in results)
    keys = sorted(result.key_error for result in results)
    reused = statistics.mean(record.reused_tokens / record.prompt_tokens for record in records)
    tokens = statistics.mean(record.prompt_tokens for record in records)
    decided = sum(record.status != "pending" for record in [*records, *wrong])
    verified = sum(record.verified is True for record in records)
    detected = sum(record.verified is False for record in wrong)
    report = Report(
        f"Approximate answers to {PROMPTS} prompts of notes with an edit, bundled model",
        ("", "measured", "bar"),
        bar="the last column",
        note=f"Prompts of {tokens:.0f} tokens on average, {reused:.0%} of them reused; answers of "
        "a line, temperature 0. Probabilities: the 16 likeliest tokens and one for all others.",
    )
    report.rows = [
        ("the same answer", f"{same:.1%}", f"{LEAST_SAME:.0%}"),
        ("mean KL of an answer, median", f"{statistics.median(kl):.1e}", f"below {MOST_KL}"),
        ("mean KL of an answer, 90 %", f"{kl[9 * len(kl) // 10]:.1e}", ""),
        ("error of reused keys, worst layer, median", f"{statistics.median(keys):.1%}", ""),
        ("error of reused keys, worst layer, most", f"{keys[-1]:.1%}", ""),
        ("error of reused keys, first layer, most", f"{rotation:.2%}", ""),
        ("verified", f"{verified} of {PROMPTS}", ""),
        ("answers with a verdict", f"{decided} of {PROMPTS + WRONG}", "all"),
        ("wrong rotations detected", f"{detected} of {WRONG}", "all"),
    ]
    report.met = (
        same >= LEAST_SAME
        and statistics.median(kl) < MOST_KL
        and decided == PROMPTS + WRONG
        and detected == WRONG
    )
    return report
