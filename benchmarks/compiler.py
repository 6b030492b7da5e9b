"""Programs as graphs beside the same programs as code: what a node costs, whether a graph is ever
slower, which programs have one, and what computing a constant prefix ahead costs a batch. On the
bundled model, with the programs of `tests/lang/test_zoo.py`; both ways in turns.

`python -m benchmarks.compiler --rounds N` times the programs in so many rounds.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar
from unittest.mock import patch

import sgnb
from sgnb.benchmark.stats import in_turn, median_interval, median_ratio, paired_ratios
from sgnb.errors import TraceError
from sgnb.lang import SglFunction, set_default_executor
from sgnb.lang.core.program import inside
from tests.lang import test_zoo as zoo
from tests.lang.test_graph_zoo import WITH_VALUES, AsGraph

from .common import Report, alternate

ROUNDS = 24
NODES, NODE_ROUNDS, NODE_US = 2000, 15, 20
SLOWER = 1.02
ROWS, RULES = 32, 60


def run(rounds: int = ROUNDS) -> list[Report]:
    with sgnb.Engine("tiny") as engine:
        set_default_executor(engine)
        try:
            return [
                node_cost(engine),
                zoo_times(rounds),
                prefix_ahead(engine),
                called_ahead(engine),
            ]
        finally:
            set_default_executor(None)


@sgnb.function
def appends(s: Any, word: str) -> None:
    for i in range(NODES // 4):
        s += f"{i}: {word}"
        s[f"x{i}"] = i


def node_cost(engine: Any) -> Report:
    """Of a program that asks no model: appending costs the same both ways."""
    compiled = appends.compile()
    nodes = len(compiled.graph.nodes)
    programs = {"code": appends, "graph": compiled}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(NODE_ROUNDS):
        for name in in_turn(list(programs), turn):
            begun = time.thread_time()
            programs[name].run("a")
            times[name].append(1e6 * (time.thread_time() - begun) / nodes)
    code, graph = map(statistics.median, times.values())
    return Report(
        f"A program of {nodes:,} nodes that asks no model (CPU), us of processor time a node",
        ("as code", "as a graph", "the graph's own"),
        [(f"{code:.1f}", f"{graph:.1f}", f"{graph - code:.1f}")],
        bar=f"the graph's own cost below {NODE_US} us a node",
        met=graph - code < NODE_US,
    )


class Timed(AsGraph):
    """Zoo program, timed as code and as a graph on the first run."""

    rounds: ClassVar[int]
    times: ClassVar[dict[str, list[tuple[float, float]]]]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        state = super().run(*args, **kwargs)
        if inside.get() is not None:
            return state
        values = dict(zip(self.arg_names, args, strict=False)) | kwargs
        known = {name: values.pop(name) for name in self.given & values.keys()}
        self._time(
            lambda: SglFunction.run(self, *args, **kwargs).sync(),
            lambda: self.compile(**known),
            lambda compiled: compiled.run(**values).sync(),
        )
        return state

    def run_batch(self, batch: Any, **options: Any) -> Any:
        states = super().run_batch(batch, **options)
        if not options.get("generator_style"):
            self._time(
                lambda: SglFunction.run_batch(self, batch, **options),
                self.compile,
                lambda compiled: compiled.run_batch(batch, **options),
            )
        return states

    def _time(
        self, code: Callable[[], Any], compiled: Callable[[], Any], graph: Callable[[Any], Any]
    ) -> None:
        if self.checked and not self.times:
            made = compiled()
            ways = {"code": code, "graph": lambda: graph(made)}
            for way in ways.values():
                way()
            for turn in range(self.rounds):
                for name in in_turn(list(ways), turn):
                    self.times.setdefault(name, []).append(both_clocks(ways[name]))


def zoo_times(rounds: int) -> Report:
    """Each program of the zoo that has a graph, both ways; and why the others have none."""
    report = Report(
        f"The programs of the zoo, {rounds} rounds in turns, bundled model (CPU)",
        (
            "program",
            "as a graph",
            "ms as code",
            "as a graph",
            "ratio",
            "interval",
            "of processor time",
        ),
    )
    slower = []
    for name, test in zoo.ZOO.items():
        argument, _ = WITH_VALUES.get(name, ("", ""))
        Timed.checked, Timed.failed, Timed.given = [], [], {argument} - {""}
        Timed.rounds, Timed.times = rounds, {}
        with patch.object(zoo, "function", Timed):
            test()
        if not Timed.times:
            report.rows.append((name, _why(Timed.failed), *[""] * 5))
            continue
        (code, graph), (code_cpu, graph_cpu) = (
            [[times[clock] for times in Timed.times[way]] for way in ("code", "graph")]
            for clock in range(2)
        )
        ratios = paired_ratios(graph, code)
        low, high, _ = median_interval(ratios)
        same = f"the same tokens, with a value for {argument}" if argument else "the same tokens"
        ms = (f"{1000 * statistics.median(times):.1f}" for times in (code, graph))
        middle, cpu = statistics.median(ratios), median_ratio(graph_cpu, code_cpu)
        interval = f"{low:.3f} to {high:.3f}"
        report.rows.append((name, same, *ms, f"{middle:.3f}", interval, f"{cpu:.3f}"))
        slower += [name] * (low > SLOWER)
    report.bar = f"no graph slower than its program by more than {SLOWER - 1:.0%}"
    report.met = not slower
    middle = statistics.median(float(row[-1]) for row in report.rows if row[-1])
    report.note = f"Of processor time, the median program takes {middle:.3f} times as much."
    report.note += f" Slower: {', '.join(slower)}." if slower else ""
    return report


def both_clocks(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of wall and of processor time."""
    begun = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def _why(failed: list[TraceError]) -> str:
    return failed[0].message.partition(": ")[2]


RULE = " ".join(f"Rule {i}: say {7 * i % 13} words of kind {i % 5}." for i in range(RULES))


@sgnb.function
def ruled(s: Any, question: str) -> None:
    s += f"{RULE}\nQuestion: {question}\nAnswer:"
    s += sgnb.gen("answer", max_tokens=8, temperature=0, ignore_eos=True)


def prefix_ahead(engine: Any) -> Report:
    """Compare a batch after `cache()` of the constant prefix with a batch without `cache()`."""
    computed: dict[bool, int] = {}

    def batch(ahead: bool) -> None:
        engine.flush_cache()
        tokens = ruled.cache(engine) if ahead else 0
        states = ruled.run_batch([{"question": f"what is {i}?"} for i in range(ROWS)])
        metas = [state.get_meta_info("answer") for state in states]
        computed[ahead] = tokens + sum(m["prompt_tokens"] - m["cached_tokens"] for m in metas)

    times = alternate({"without": lambda: batch(False), "ahead": lambda: batch(True)}, NODE_ROUNDS)
    low, high, _ = median_interval(paired_ratios(times["ahead"], times["without"]))
    return Report(
        f"A batch of {ROWS} with a constant prefix of {ruled.cache(engine):,} tokens (CPU)",
        ("", "prompt tokens computed", "s"),
        [
            ("run_batch", computed[False], f"{statistics.median(times['without']):.2f}"),
            ("cache() before", computed[True], f"{statistics.median(times['ahead']):.2f}"),
        ],
        note=f"With cache() before {low:.2f} to {high:.2f} times as long.",
    )


@sgnb.function
def judged(s: Any, draft: str) -> None:
    s += "\n".join(f"Rule {i}: an answer says what it is about, and is short." for i in range(90))
    s += f"\nDraft: {draft}\nVerdict:" + sgnb.gen("verdict", max_tokens=8, ignore_eos=True)


@sgnb.function
def drafted(s: Any, topic: str) -> None:
    s += f"Write about {topic}:" + sgnb.gen("draft", max_tokens=48, ignore_eos=True)
    s += judged.run(s["draft"])["verdict"]


def called_ahead(engine: Any) -> Report:
    """Measure a program that calls a program with a long constant prefix: prefill at the call, or
    in parallel with the text before the call."""
    compiled, prefix = drafted.compile(), judged.compile()

    def run(ahead: bool) -> None:
        engine.flush_cache()
        beside = threading.Thread(target=prefix.cache)
        if ahead:
            beside.start()
        compiled.run("rain", temperature=0).sync()
        if ahead:
            beside.join()

    times = alternate({"when": lambda: run(False), "ahead": lambda: run(True)}, NODE_ROUNDS)
    ratios = paired_ratios(times["ahead"], times["when"])
    low, high, _ = median_interval(ratios)
    engine.flush_cache()
    begun = time.perf_counter()
    tokens = prefix.cache()
    alone = time.perf_counter() - begun
    seconds = (f"{statistics.median(times[way]):.2f}" for way in ("when", "ahead"))
    return Report(
        "A program that calls another after 48 tokens (CPU)",
        ("prefix of the called one", "s alone", "when it is called, s", "beside, s", "ratio"),
        [(tokens, f"{alone:.2f}", *seconds, f"{statistics.median(ratios):.2f}")],
        note=f"The ratio's interval: {low:.2f} to {high:.2f}.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    for report in run(parser.parse_args().rounds):
        print(report.markdown())


if __name__ == "__main__":
    main()
