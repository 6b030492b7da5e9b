"""`python -m benchmarks.gpu.programs`: cost of programs with text, compared with the same requests
as token ids.

The benchmark records the requests of a program and replays them: each request starts after the
request whose output it continues. Recording takes time, so the measured programs are other programs
of the same shape, with texts unknown to the tokenizer's cache. The cache is flushed before each
run. The order changes from pair to pair. The first pairs do not count, because the first run of a
batch size captures a CUDA graph.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.engine.request.output import Output

from ..common import Report, seconds
from .model import random_model
from .ours import SgnbServer, await_kernels
from .playing import Asked, play
from .serving import make_tokenizer
from .shapes import LLAMA_8B, TOY
from .workloads import Call, Workload

WARM_UPS = 2
REPETITIONS = 7
TOKENS_A_WORD = 1.85
"""About, of the made-up words."""

GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


@sgnb.function
def ask_about(s: Any, document: str, questions: list[str], new: int) -> None:
    s += document
    forks = s.fork(len(questions))
    forks += [question + sgnb.gen("answer", max_tokens=new) for question in questions]
    forks.join()


@sgnb.function
def think(s: Any, problem: str, notes: list[str], branches: Sequence[int], new: int) -> None:
    s += problem
    level = [s]
    for width in branches:
        grown = []
        for parent in level:
            forks = parent.fork(width)
            for fork in forks:
                fork += notes.pop() + sgnb.gen(max_tokens=new)
                grown.append(fork)
        level = grown


@sgnb.function
def classify(s: Any, examples: str, question: str) -> None:
    s += examples + question + sgnb.gen("label", max_tokens=1)


@sgnb.function
def talk(s: Any, messages: list[str], new: int) -> None:
    for i, message in enumerate(messages):
        s += message + sgnb.gen(f"answer{i}", max_tokens=new)


Text = Callable[[int], str]
"""So many tokens of made-up words."""


def document(text: Text, toy: bool) -> Any:
    length, forks, new = (200, 4, 4) if toy else (14_000, 48, 64)
    questions = [text(12) for _ in range(forks)]
    return partial(ask_about.run_batch, [(text(length), questions, new)])


def tree(text: Text, toy: bool) -> Any:
    roots, length, branches, new = (2, 20, (2, 2), 3) if toy else (32, 1000, (4, 4, 2), 64)
    rows = [(text(length), [text(6) for _ in range(52)], branches, new) for _ in range(roots)]
    return partial(think.run_batch, rows)


def few_shot(text: Text, toy: bool) -> Any:
    prefixes, prefix, questions, question = (3, 40, 9, 6) if toy else (40, 800, 1600, 120)
    examples = [text(prefix) for _ in range(prefixes)]
    rows = [(examples[i % prefixes], text(question)) for i in range(questions)]
    return partial(classify.run_batch, rows)


def chat(text: Text, toy: bool) -> Any:
    sessions, turns, message, new = (3, 3, 8, 3) if toy else (64, 4, 256, 64)
    rows = [([text(message) for _ in range(turns)], new) for _ in range(sessions)]
    return partial(talk.run_batch, rows)


class Case(NamedTuple):
    name: str
    make: Callable[[Text, bool], Any]
    bar: float


CASES = (
    Case("48 forks of a document of 14,000 tokens", document, 1.05),
    Case("tree of thought", tree, 1.03),
    Case("1,600 few-shot rows", few_shot, 1.03),
    Case("chat", chat, 1.02),
)


class Recorded(NamedTuple):
    tokens: list[int]
    params: sgnb.SamplingParams
    output: list[int]


class Replay(SgnbServer):
    """Replay recorded requests, with new outputs in place of recorded outputs."""

    def __init__(self, engine: Any, params: Sequence[sgnb.SamplingParams]) -> None:
        super().__init__(engine)
        self._params = params

    def params(self, asked: Asked) -> sgnb.SamplingParams:
        return self._params[asked.number]


@contextmanager
def recording(engine: Any, requests: list[Recorded]) -> Iterator[None]:
    """Record the requests to the engine, in the order of their ends."""
    submit = engine.submit

    def record(prompts: Any, params: Any, on_outputs: Any, **options: Any) -> Any:
        def noting(prompt: Any, param: Any, on_output: Any) -> Callable[[Output], None]:
            def note(output: Output) -> None:
                requests.append(Recorded(prompt, param, output.token_ids))
                on_output(output)

            return note

        noted = [noting(*one) for one in zip(prompts, params, on_outputs, strict=True)]
        return submit(prompts, params, noted, **options)

    engine.submit = record
    try:
        yield
    finally:
        del engine.submit


def as_workload(requests: Sequence[Recorded]) -> Workload:
    """Return each request with the request whose prompt and output it continues, or None."""
    ends: dict[int, dict[tuple[int, ...], int]] = {}
    calls: list[Call] = []
    for number, (tokens, params, output) in enumerate(requests):
        context, at = None, 0
        for length in sorted(ends, reverse=True):
            found = ends[length].get(tuple(tokens[:length])) if length < len(tokens) else None
            if found is not None:
                context, at = found, length
                break
        calls.append(Call(tokens[at:], params.max_new_tokens, context))
        ends.setdefault(len(tokens) + len(output), {})[(*tokens, *output)] = number
    return Workload(calls, "tok/s")


def run() -> Report:
    import torch

    gpu = torch.cuda.is_available()
    tokenizer = make_tokenizer(toy=not gpu)
    shape = LLAMA_8B if gpu else replace(TOY, vocab=len(tokenizer))
    device, dtype = ("cuda", "bfloat16") if gpu else ("cpu", "float32")
    report = Report(
        "Programs that send text, over the same requests as token ids",
        ("workload", "program, s", "token ids, s", "ratio", "at most", "calls", "that go on"),
        bar="the column `at most`",
        met=True if gpu else None,
    )
    with sgnb.Engine(random_model(shape, device, dtype), tokenizer=tokenizer) as engine:
        await_kernels(engine)
        for case in CASES:
            row, ratio = _measure(engine, case, toy=not gpu)
            report.rows.append(row)
            report.met = report.met and ratio <= case.bar
            print(row, flush=True)
    report.note = f"Medians of {REPETITIONS} repetitions."
    return report


def _measure(engine: Any, case: Case, toy: bool) -> tuple[tuple[Any, ...], float]:
    executor = LocalExecutor(engine)

    def run_program(number: int) -> float:
        rng = random.Random(f"{case.name} {number}")
        program = case.make(partial(words, rng), toy)
        engine.flush_cache()
        return seconds(lambda: program(backend=executor, **GREEDY))

    requests: list[Recorded] = []
    with recording(engine, requests):
        run_program(0)
    workload = as_workload(requests)

    def play_requests() -> float:
        server = Replay(engine, [request.params for request in requests])
        engine.flush_cache()
        return seconds(lambda: play(server, workload))

    pairs = []
    for number in range(1, 1 + WARM_UPS + REPETITIONS):
        if number % 2:
            pairs.append((run_program(number), play_requests()))
        else:
            pairs.append((play_requests(), run_program(number))[::-1])
    executor.close()
    pairs = pairs[WARM_UPS:]
    ratio = statistics.median(program / ids for program, ids in pairs)
    medians = [f"{statistics.median(column):.3f}" for column in zip(*pairs, strict=True)]
    going_on = sum(call.context is not None for call in workload.calls)
    counts = len(workload.calls), going_on
    return (case.name, *medians, f"{ratio:.3f}", case.bar, *counts), ratio


def words(rng: random.Random, tokens: int) -> str:
    made = []
    for _ in range(max(1, round(tokens / TOKENS_A_WORD))):
        made.append("".join(rng.choice("bdfklmnprst") + rng.choice("aeiou") for _ in range(2)))
    return " ".join(made) + rng.choice(".?!") + "\n"


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.programs", description=__doc__
    ).parse_args()
    report = run()
    print(report.markdown(), flush=True)
    return int(report.met is False)


if __name__ == "__main__":
    raise SystemExit(main())
