"""The GPU benchmarks' workloads as data: their shapes, and how they are played on an engine that is
a fake."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.gpu.more_workloads import WORKLOADS
from benchmarks.gpu.naming import NAMES, chosen_names
from benchmarks.gpu.playing import Asked, measure, play
from benchmarks.gpu.workloads import BASIC, Call, Workload


class FakeServer:
    """Answers one call at a time, the last first; the tokens say whose they are."""

    name, version = "fake", "1"

    def __init__(self) -> None:
        self.waiting: list[Asked] = []
        self.batches: list[list[int]] = []
        self.prompts: dict[int, list[int]] = {}
        self.flushed = 0

    def submit(self, batch: Sequence[Asked], together: bool) -> None:
        self.batches.append([asked.number for asked in batch])
        self.waiting += batch
        self.prompts |= {asked.number: asked.prompt for asked in batch}

    def finished(self) -> list[tuple[int, list[int]]]:
        asked = self.waiting.pop()
        return [(asked.number, [1000 + asked.number] * asked.call.new)]

    def flush(self) -> None:
        self.flushed += 1

    def reset(self) -> None:
        self.waiting.clear()

    def close(self) -> None:
        pass


def output_tokens(workload: Workload) -> int:
    return sum(call.new for call in workload.calls)


def test_full_sizes_are_those_of_the_table() -> None:
    made = {name: kind.make(0, 131072) for name, kind in BASIC.items()}
    assert [(len(w.calls), output_tokens(w)) for w in (made["decode 1"], made["batch 256"])] == [
        (1, 256),
        (256, 65536),
    ]
    assert [len(call.tokens) for call in made["prefill"].calls] == [8192] * 12
    few_shot = made["few-shot"].calls
    assert len(few_shot) == 1600
    assert {len(call.tokens) for call in few_shot} == {920}
    assert len({tuple(call.tokens[:800]) for call in few_shot}) == 40
    assert len({tuple(call.tokens[:800]) for call in few_shot[:40]}) > 10, (
        "the questions are not shuffled"
    )
    tree = made["tree of thought"].calls
    assert len(tree) == 32 * (4 + 16 + 32)
    assert sum(call.context is None for call in tree) == 32 * 4
    assert output_tokens(made["tree of thought"]) == 64 * len(tree)
    assert (len(made["chat"].calls), output_tokens(made["chat"])) == (256, 256 * 64)
    assert len(made["JSON, 128 requests"].calls) == 128
    assert made["JSON, one at a time"].one_at_a_time


@pytest.mark.parametrize("toy", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_schema_comes_twice(toy: bool) -> None:
    """Else the second workload, or repetition, would find it compiled."""
    made = [kind.make(seed, 512, toy) for kind in WORKLOADS.values() for seed in (0, 1, 2, 1000)]
    schemas = [
        {call.schema for call in workload.calls} for workload in made if workload.constrained
    ]
    assert all(len(own) == 1 for own in schemas) and len(set.union(*schemas)) == len(schemas) == 8


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_makes_the_same_and_another_the_same_shape(name: str) -> None:
    kind = WORKLOADS[name]
    one, same, other = kind.make(3, 500, True), kind.make(3, 500, True), kind.make(4, 500, True)
    assert one == same
    assert one != other
    assert sorted(
        (len(c.tokens), c.new, c.context, c.joins) for c in one.calls if c.context is not None
    ) == sorted(
        (len(c.tokens), c.new, c.context, c.joins) for c in other.calls if c.context is not None
    )
    assert all(16 <= token < 500 for call in one.calls for token in call.tokens)
    assert all(need < number for number, call in enumerate(one.calls) for need in call.needs)


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("name", WORKLOADS)
def test_prompts_continue_what_they_need(name: str, levels: bool) -> None:
    workload, server = WORKLOADS[name].make(0, 500, True), FakeServer()
    outputs = play(server, workload, levels)
    assert sorted(server.prompts) == list(range(len(workload.calls)))
    for number, call in enumerate(workload.calls):
        assert outputs[number] == [1000 + number] * call.new
        begin = [] if call.context is None else server.prompts[call.context] + outputs[call.context]
        for other in call.joins:
            begin = begin + outputs[other]
        assert server.prompts[number] == begin + call.tokens


def test_levels_wait_for_each_other_and_others_do_not() -> None:
    workload = BASIC["tree of thought"].make(0, 500, True)
    together, flowing = FakeServer(), FakeServer()
    play(together, workload, levels=True)
    play(flowing, workload)
    assert [len(batch) for batch in together.batches] == [4, 8, 8]
    assert len(flowing.batches) > 3
    assert flowing.batches[1] == [
        n for n, c in enumerate(workload.calls) if c.context == flowing.batches[0][-1]
    ]


def test_many_calls_are_submitted_in_portions_unless_they_begin_together() -> None:
    workload = Workload([Call([number], 1) for number in range(150)], "req/s")
    for levels, sizes in ((False, [64, 64, 22]), (True, [150])):
        server = FakeServer()
        play(server, workload, levels)
        assert [len(batch) for batch in server.batches] == sizes


def test_one_at_a_time_is_one_at_a_time() -> None:
    server = FakeServer()
    play(server, Workload([Call([20], 2) for _ in range(3)], "s", one_at_a_time=True))
    assert server.batches == [[0], [1], [2]]


def test_an_output_of_another_length_is_an_error() -> None:
    class Short(FakeServer):
        def finished(self) -> list[tuple[int, list[int]]]:
            return [(number, ids[:-1]) for number, ids in super().finished()]

    with pytest.raises(ValueError, match="call 0 gave 1 tokens, 2 were asked for"):
        play(Short(), Workload([Call([20], 2)], "tok/s"))
    server = Short()
    with pytest.raises(ValueError, match="tokens, 3 were asked for"):
        measure(server, BASIC["chat"], 500, toy=True)
    assert server.waiting == [], "what was running is not given up"


def test_measuring_flushes_and_takes_the_better_style() -> None:
    server = FakeServer()
    result = measure(server, BASIC["chat"], 500, toy=True, repetitions=2, styles=(False, True))
    assert server.flushed == 4
    assert len(result["seconds"]) == 2
    assert result["unit"] == "tok/s"
    assert result["figure"] > 0


def test_figures() -> None:
    workload = Workload([Call([20] * 10, 5), Call([20] * 30, 15)], "tok/s")
    assert workload.figure(2) == 10
    assert Workload(workload.calls, "prompt tok/s").figure(2) == 20
    assert Workload(workload.calls, "req/s").figure(2) == 1
    assert Workload(workload.calls, "s").figure(2) == 1


def test_workloads_are_chosen_by_a_part_of_their_names() -> None:
    assert chosen_names(None) == list(NAMES)
    assert chosen_names("tree; prefill ;JSON, 128 requests") == [
        "tree of thought",
        "prefill",
        "JSON, 128 requests",
    ]
    with pytest.raises(SystemExit, match="'json' names 2 workloads"):
        chosen_names("json")
    with pytest.raises(SystemExit, match="names 0 workloads"):
        chosen_names("nothing")
