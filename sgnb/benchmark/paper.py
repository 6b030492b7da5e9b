"""Workloads of the SGLang paper (Zheng et al., 2024, section 6 and appendix A) over synthetic data
of equal shape.

Sharing, lengths and dependencies follow the paper. The words are meaningless and every answer has
full length. Hence the work is equal for any model, including random weights.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import OptionError, nearest
from ..lang import function, gen, select
from .workload import Workload

_SYLLABLES = ("ba", "ne", "ti", "ro", "su", "ka", "le", "mi", "do", "ve", "an", "or", "el", "im")


@dataclass(frozen=True)
class Scale:
    """Scale factors of the workloads relative to the paper."""

    rows: float
    prompt: float  # factor for the words of prompts
    output: float  # factor for the tokens of answers

    def count(self, rows: int) -> int:
        return max(2, round(rows * self.rows))

    def new(self, tokens: int) -> int:
        return max(2, round(tokens * self.output))


SMALL = Scale(0.1, 0.15, 0.15)
"""One to two seconds per run with the bundled model on two cores."""

FULL = Scale(1, 1, 1)
"""Scale of the paper, for a large model on a GPU."""


class _Writer:
    """Random text without meaning, determined by the seed."""

    def __init__(self, scale: Scale, seed: int) -> None:
        self.scale, self.rng = scale, random.Random(seed)

    def words(self, count: int) -> str:
        """Return `count` words at full scale, in sentences of ten words."""
        words = [
            "".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(2, 3)))
            for _ in range(max(3, round(count * self.scale.prompt)))
        ]
        lines = (" ".join(words[at : at + 10]).capitalize() for at in range(0, len(words), 10))
        return ". ".join(lines) + ".\n"

    def examples(self, count: int, words: int) -> str:
        """Return `count` few-shot examples of `words` words each, at full scale."""
        number = max(2, round(count * self.scale.prompt))
        each = words * count * self.scale.prompt / number
        return "".join(
            f"Question: {self.words(round(each / self.scale.prompt))}" for _ in range(number)
        )


@function
def answer_choice(s: Any, examples: str, question: str) -> None:
    s += examples + "Question: " + question + "Answer:"
    s += select("answer", [" A", " B", " C", " D"])


@function
def choose_ending(s: Any, examples: str, context: str, endings: list[str]) -> None:
    s += examples + context + select("ending", endings)


@function
def react(s: Any, examples: str, question: str, observations: list[str], new: int) -> None:
    s += examples + "Question: " + question
    for number, observation in enumerate(observations, 1):
        s += f"Thought {number}:" + gen(f"thought_{number}", max_tokens=new, ignore_eos=True)
        s += f"\nAction {number}: search\nObservation {number}: {observation}"
    s += "Answer:" + gen("answer", max_tokens=new, ignore_eos=True)


@function
def act(s: Any, rules: str, person: str, event: str, new: int) -> None:
    s += rules + person + event + "What does this person do?"
    s += gen("action", max_tokens=new, ignore_eos=True)


@function
def think_in_a_tree(s: Any, examples: str, question: str, new: int) -> None:
    s += examples + "Question: " + question
    plans = s.fork(2)
    plans += lambda i: f"Plan {i + 1}:" + gen("plan", max_tokens=new, ignore_eos=True)
    for plan in plans:
        solutions = plan.fork(2)
        solutions += lambda i: f"\nSolution {i + 1}:"
        solutions += (
            gen("solution", max_tokens=new, ignore_eos=True) + "\nIs it right, from 1 to 9? "
        )
        solutions += gen("score", regex="[1-9]")
        solutions.join()
    plans.join()


@function
def write_from_a_skeleton(s: Any, question: str, new: int) -> None:
    s += "Question: " + question + "Skeleton:"
    s += gen("skeleton", max_tokens=new, ignore_eos=True)
    points = s.fork(5)
    points += lambda i: f"\nPoint {i + 1} in full:"
    points += gen("point", max_tokens=2 * new, ignore_eos=True)
    points.join()


@function
def judge(s: Any, essay: str, dimensions: list[str], new: int) -> None:
    s += "Essay: " + essay
    views = s.fork(len(dimensions))
    views += lambda i: f"Judge it by this: {dimensions[i]}"
    views += gen("view", max_tokens=new, ignore_eos=True)
    views.join()
    s += "Judgments: " + " ".join(s["view"]) + "\nGrade: " + select("grade", ["A", "B", "C", "D"])


_CHARACTER = (
    r'\{\n    "name": "(Albus|Bruno|Clara|Dora|Edgar|Flora)",\n'
    r'    "house": "(red|blue|green|yellow)",\n    "blood status": "(pure|half|none)",\n'
    r'    "occupation": "(student|teacher|minister|trader)",\n    "wand": \{\n'
    r'        "wood": "(oak|ash|yew|holly)",\n        "core": "(feather|hair|scale)",\n'
    r'        "length": (9|10|11|12)\.[05]\n    \},\n    "alive": "(alive|deceased)"\n\}'
)
"""The paper's regex, with lists instead of free words. Jump-forward changes the tokenization of
equal text, and then free words would diverge between variants."""


@function
def decode_json(s: Any, article: str, new: int) -> None:
    s += article + "As JSON:\n" + gen("record", regex=_CHARACTER, max_tokens=new)


@function
def converse(s: Any, system: str, turns: list[str], new: int) -> None:
    s += system
    for number, turn in enumerate(turns):
        s += "User: " + turn + "Assistant:"
        s += gen(f"reply_{number}", max_tokens=new, ignore_eos=True) + "\n"


@function
def retrieve_and_answer(
    s: Any, examples: str, passages: list[str], question: str, new: int
) -> None:
    s += examples + "".join(passages) + "Question: " + question + "Reasoning:"
    s += gen("reasoning", max_tokens=new, ignore_eos=True) + "\nAnswer:"
    s += gen("answer", max_tokens=max(1, new // 4), ignore_eos=True)


def _mmlu(scale: Scale) -> Workload:
    """The paper uses 57 subjects and 5 examples per subject."""
    write = _Writer(scale, 1)
    subjects = [write.examples(5, 120) for _ in range(scale.count(57))]
    rows = [(examples, write.words(60)) for examples in subjects for _ in range(8)]
    write.rng.shuffle(rows)
    return Workload("MMLU, 5 examples", answer_choice, rows, {"nocache": _EXAMPLES})


def _ordered(scale: Scale) -> Workload:
    """MMLU on a cache with room for a quarter of the subjects."""
    workload = _mmlu(scale)
    pool_tokens = round(
        len({row[0] for row in workload.rows}) / 4 * 5 * 120 * scale.prompt * _TOKENS_A_WORD
    )
    size = max(2048, pool_tokens)
    return Workload(
        "MMLU, shuffled, on a small cache",
        answer_choice,
        workload.rows,
        {"fcfs": "prompts with a cached prefix are admitted first"},
        engine={"max_total_tokens": size, "max_running_requests": 4},
    )


def _hellaswag(scale: Scale) -> Workload:
    write = _Writer(scale, 2)
    examples = write.examples(20, 50)
    rows = [
        (examples, write.words(40), [" " + write.words(20) for _ in range(4)])
        for _ in range(scale.count(200))
    ]
    return Workload("HellaSwag, 20 examples", choose_ending, rows, {"nocache": _EXAMPLES})


def _react(scale: Scale) -> Workload:
    write = _Writer(scale, 3)
    examples = write.examples(6, 250)
    rows = [
        (examples, write.words(25), [write.words(100) for _ in range(3)], scale.new(48))
        for _ in range(scale.count(100))
    ]
    claims = {"nocache": "each step continues the previous step"}
    return Workload("ReAct agents", react, rows, claims)


def _agents(scale: Scale) -> Workload:
    write = _Writer(scale, 4)
    rules, people = write.words(200), [write.words(80) for _ in range(scale.count(25))]
    rows = [(rules, person, write.words(40), scale.new(32)) for person in people for _ in range(10)]
    claims = {"nocache": "calls of an agent share its description"}
    return Workload("generative agents", act, rows, claims)


def _tree_of_thought(scale: Scale) -> Workload:
    write = _Writer(scale, 5)
    examples = write.examples(4, 120)
    rows = [(examples, write.words(60), scale.new(128)) for _ in range(scale.count(100))]
    claims = {"nocache": "branches share the text of their ancestors"}
    return Workload("tree of thought", think_in_a_tree, rows, claims)


def _skeleton(scale: Scale) -> Workload:
    write = _Writer(scale, 6)
    rows = [(write.words(80), scale.new(64)) for _ in range(scale.count(100))]
    claims = {"nocache": "the points share the question and the skeleton"}
    return Workload("skeleton of thought", write_from_a_skeleton, rows, claims)


def _judge(scale: Scale) -> Workload:
    write = _Writer(scale, 7)
    dimensions = [write.words(15) for _ in range(5)]
    rows = [(write.words(500), dimensions, scale.new(64)) for _ in range(scale.count(100))]
    claims = {"nocache": "the judgments share the essay"}
    return Workload("judge of essays", judge, rows, claims)


def _document(scale: Scale) -> Workload:
    write = _Writer(scale, 8)
    rows = [(write.words(7000), [write.words(15) for _ in range(48)], scale.new(64))]
    claims = {"nofork": "the branches' attention reads the document once for all"}
    return Workload("48 questions on one document", judge, rows, claims)


def _json(scale: Scale) -> Workload:
    write = _Writer(scale, 9)
    rows = [(write.words(150), 256) for _ in range(scale.count(100))]
    claims = {"nojump": "text that the format forces needs no decode steps"}
    return Workload("JSON decoding", decode_json, rows, claims)


def _chat(name: str, new: int) -> Callable[[Scale], Workload]:
    def make(scale: Scale) -> Workload:
        write = _Writer(scale, 10)
        system = write.words(40)
        rows = [
            (system, [write.words(250) for _ in range(4)], scale.new(new))
            for _ in range(scale.count(60))
        ]
        return Workload(name, converse, rows, {"nocache": "a turn continues the earlier turns"})

    return make


def _retrieval(scale: Scale) -> Workload:
    write = _Writer(scale, 11)
    examples = write.examples(4, 80)
    pool = [write.words(120) for _ in range(scale.count(40))]
    rows = [
        (examples, write.rng.sample(pool[: len(pool) // 2 + 1], 2), write.words(20), scale.new(64))
        for _ in range(scale.count(120))
    ]
    claims = {"nocache": "prompts share the examples and often the first passages"}
    return Workload("retrieval (DSPy)", retrieve_and_answer, rows, claims)


_EXAMPLES = "few-shot prompts share their examples"
_TOKENS_A_WORD = 2.0
"""Approximate value for the synthetic words."""

_MAKERS: dict[str, Callable[[Scale], Workload]] = {
    "mmlu": _mmlu,
    "scheduling": _ordered,
    "hellaswag": _hellaswag,
    "react": _react,
    "agents": _agents,
    "tree": _tree_of_thought,
    "skeleton": _skeleton,
    "judge": _judge,
    "document": _document,
    "json": _json,
    "chat-short": _chat("multi-turn chat, short answers", 8),
    "chat-long": _chat("multi-turn chat, long answers", 256),
    "retrieval": _retrieval,
}
NAMES = tuple(_MAKERS)


def workloads(names: Sequence[str] = NAMES, scale: Scale = SMALL) -> list[Workload]:
    """Return workloads of the paper.

    Args:
        names: Workload names; see `NAMES`.
        scale: Scale relative to the paper.

    Raises:
        OptionError: A name is unknown.
    """
    for name in names:
        if name not in _MAKERS:
            message = f"the paper has no workload {name!r}"
            raise OptionError(message, f"{nearest(name, NAMES)} They are {', '.join(NAMES)}")
    return [replace(_MAKERS[name](scale), defaults={"temperature": 0}) for name in names]
