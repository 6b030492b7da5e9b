"""Measures the bundled model for images on held-out drawings: `python -m training.vision.evaluate`.

Prints a table, writes it to training/RESULTS.md and the model's card. The questions are batches of an sgnb program,
greedy, float32 on a CPU. For its text: `python -m training.evaluate --model sgnb/models/tiny-vision`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import sgnb as sgl
from sgnb.backends import LocalExecutor
from sgnb.engine import Engine

from ..evaluate import RESULTS, put_into
from ..tokenizer import MODEL as TEXT_MODEL
from .data import held_out_questions
from .drawings import Pixels
from .questions import Question

MODEL = TEXT_MODEL.parent / "tiny-vision"
COUNT, SEED = 500, 1
BARS = {"drawings": 97, "matplotlib charts": 80}
Score = tuple[int, int]
"""Right answers, and questions."""


@sgl.function
def look(s: sgl.ProgramState, picture: Pixels, question: str) -> None:
    s += sgl.user(sgl.image(picture) + question)
    s += sgl.assistant(sgl.gen("answer", max_tokens=80, temperature=0))


def answers(executor: LocalExecutor, asked: Sequence[tuple[Pixels, Question]]) -> list[str]:
    rows = [{"picture": pixels, "question": question.ask} for pixels, question in asked]
    return [state["answer"] for state in look.run_batch(rows, backend=executor)]


def scores(questions: Sequence[Question], given: Sequence[str]) -> dict[str, Score]:
    """Right answers and questions by kind, the most frequent kind first; all of them under "all"."""
    found: dict[str, list[bool]] = defaultdict(list)
    for question, answer in zip(questions, given, strict=True):
        for kind in ("all", question.kind):
            found[kind].append(answer == question.answer)
    by_count = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return {kind: (sum(right), len(right)) for kind, right in by_count}


def table(found: dict[str, dict[str, Score]]) -> str:
    """A row for each set and kind; the rows of whole sets have the bar."""
    lines = ["| held-out set | questions | right | bar |", "|---|---|---|---|"]
    for name, kinds in found.items():
        for kind, (right, asked) in kinds.items():
            whole = kind == "all"
            label, bar = (name, f"{BARS[name]} %") if whole else (f"{name}: {kind}", "")
            lines.append(f"| {label} | {asked} | {100 * right / asked:.1f} % | {bar} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL, help="another model: nothing is written")
    parser.add_argument("--count", type=int, default=COUNT, help="questions in each set; else nothing is written")
    parser.add_argument("--show", type=int, default=0, help="so many wrong answers of each set")
    options = parser.parse_args()
    executor = LocalExecutor(Engine(str(options.model)))
    found = {}
    for name in BARS:
        asked = held_out_questions(options.count, chart=name != "drawings", seed=SEED)
        questions = [question for _, question in asked]
        given = answers(executor, asked)
        found[name] = scores(questions, given)
        wrong = [(q, text) for q, text in zip(questions, given, strict=True) if text != q.answer]
        for question, text in wrong[:options.show]:
            print(f"    {question.ask!r}\n      wanted {question.answer!r}, got {text!r}")
    print(table(found))
    if (options.model, options.count) == (MODEL, COUNT):
        for page in (RESULTS, MODEL / "README.md"):
            put_into(page, "vision", table(found))


if __name__ == "__main__":
    main()
