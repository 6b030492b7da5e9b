"""When a decode step is captured, replayed, or run kernel by kernel: with a stand-in for CUDA's
graphs."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from sgnb.engine.step_input import SHORT, AttentionInput

from .interpreter import needs_triton

pytestmark = needs_triton


class Graph:
    """As torch's. A capture opens a pool of memory, its end closes it, unless CUDA gave the capture
    up. A pool that no graph uses any more is gone."""

    log: ClassVar[list[str]] = []
    open: ClassVar[set[Any]] = set()
    open_on_host: ClassVar[set[Any]] = set()
    uses: ClassVar[dict[Any, int]] = {}
    given_up: ClassVar[bool] = False
    too_large: ClassVar[bool] = False

    def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
        if pool in self.open | self.open_on_host:
            raise RuntimeError("already recording to mempool_id")
        self.open_on_host.add(pool)
        assert self.uses.get(pool) != 0, "use_count > 0"
        self.open.add(pool)
        self.uses[pool] = self.uses.get(pool, 0) + 1
        self.pool, self.ended, self.used = pool, False, self.uses
        self.log.append("capture")

    def capture_end(self) -> None:
        if self.given_up:
            raise RuntimeError("operation failed due to a previous error during capture")
        self.close(0, self.pool)
        self.open_on_host.remove(self.pool)
        self.ended = True
        if self.too_large:
            raise RuntimeError("CUDA error: out of memory")  # of cudaGraphInstantiate

    def __del__(self) -> None:
        if self.ended:
            self.used[self.pool] -= 1

    @classmethod
    def close(cls, device: int, pool: Any) -> None:
        if pool not in cls.open:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        cls.open.remove(pool)

    @classmethod
    def release(cls, device: int, pool: Any) -> None:
        cls.uses[pool] -= 1

    def replay(self) -> None:
        self.log.append("replay")


class Generator:
    def __init__(self, name: str) -> None:
        self.state = name

    def clone_state(self) -> str:
        return f"clone of {self.state}"

    def graphsafe_set_state(self, state: str) -> None:
        self.state = state


class Steps:
    """Steps of a fake model; `run` returns the log of a step of `rows` rows.

    Args:
        room, max_rows: See `DecodeGraphs`.

    Attributes:
        errors: Errors of the next forward passes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int = 0, max_rows: int = 64) -> None:
        from sgnb.engine import graphs

        monkeypatch.setattr(graphs, "resume", lambda *tensors: None)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", partial(next, itertools.count()))
        self.generator = Generator("the user's")
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "default_generators", (self.generator,))
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", Graph.close)
        monkeypatch.setattr(torch._C, "_cuda_releasePool", Graph.release)
        fresh: dict[str, Any] = {"log": [], "open": set(), "open_on_host": set(), "uses": {}}
        for name, value in (fresh | {"given_up": False, "too_large": False}).items():
            monkeypatch.setattr(Graph, name, value)
        self.errors: list[Exception] = []
        self.sampled = self.states = torch.zeros(64, dtype=torch.int64)
        self.precompiled: list[int] = []
        anything: Any = self
        self._graphs = graphs.DecodeGraphs(
            self._forward, anything, anything, max_rows, torch.device("cpu"), room
        )

    def run(self, rows: int = 1, constrained: bool = False) -> list[str]:
        del Graph.log[:]
        self._graphs._replay((rows, constrained), rows, True, constrained)
        return list(Graph.log)

    def prepare(self) -> None:
        self._graphs.precompile()

    def precompile(self, what: Any) -> None:
        """The attention's, of a number of rows, and the sampler's, of logits."""
        if isinstance(what, int):
            self.precompiled.append(what)

    def launch(self, logits: Any, *args: Any, **options: Any) -> Any:
        return logits

    def _forward(self, ids: Any, positions: Any) -> Any:
        Graph.log.append("step")
        if self.errors:
            raise self.errors.pop(0)  # in no variable: a cycle would keep the frames of a capture
        return torch.zeros(len(ids), 5)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def test_without_precompile_the_second_step_of_a_kind_is_captured(steps: Steps) -> None:
    for rows in (1, 2):
        assert steps.run(rows) == ["step"]
        assert steps.run(rows) == ["capture", "step", "replay"]
        assert steps.run(rows) == steps.run(rows) == ["replay"]


def test_after_precompile_the_first_is_but_for_what_sets_up_the_thread(steps: Steps) -> None:
    from sgnb.engine.graphs import PRECOMPILED_ROWS

    steps.prepare()
    assert steps.precompiled == [*PRECOMPILED_ROWS]
    assert steps.run(1) == ["step"]
    assert steps.run(2) == steps.run(1) == ["capture", "step", "replay"]
    assert steps.run(2) == ["replay"]
    assert steps.run(1, constrained=True) == ["step"], "masks have kernels and tables of their own"
    assert steps.run(4, constrained=True) == ["capture", "step", "replay"]


@pytest.mark.parametrize("how", ["given_up", "too_large", "ended well"])
@pytest.mark.parametrize("graphs", [0, 1])
def test_a_capture_that_fails_is_tried_once_more(
    how: str, graphs: int, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.prepare()
    for _ in range(1 + graphs):
        steps.run(1)
    steps.errors = [ValueError("not while a stream is captured")]
    with monkeypatch.context() as patch:
        if how != "ended well":
            patch.setattr(Graph, how, True)
        assert steps.run(2) == ["capture", "step", "step"], (
            "a step that was captured only was not run"
        )
    assert not Graph.open and sum(Graph.uses.values()) == 0, (
        "as often given back as taken, and all graphs went"
    )
    assert (steps.generator.state == "the user's") == (how == "ended well")
    assert steps.run(2) == ["capture", "step", "replay"]
    assert steps.run(2) == ["replay"]


def test_a_model_that_cannot_be_captured_runs_kernel_by_kernel(steps: Steps) -> None:
    assert steps.run(1) == ["step"]
    steps.errors = [ValueError("it waits for the device")]
    assert steps.run(1) == ["capture", "step", "step"]
    assert steps.run(1) == steps.run(2) == steps.run(2) == ["step"]


def test_a_model_that_reads_what_was_not_computed_is_not_precompiled(steps: Steps) -> None:
    steps.errors = [ValueError("no such expert")]
    steps.prepare()
    assert steps.run(1) == ["step"]
    assert steps.run(1) == ["capture", "step", "replay"]
    assert steps.run(2) == ["step"], "nobody knows whether its kernels are there"


def test_want_of_memory_is_the_engine_s(steps: Steps) -> None:
    steps.errors = [torch.OutOfMemoryError("at load")]
    with pytest.raises(torch.OutOfMemoryError, match="at load"):
        steps.prepare()
    steps.errors = [torch.OutOfMemoryError("in a step")]
    with pytest.raises(torch.OutOfMemoryError, match="in a step"):
        steps.run(1)


def test_without_memory_for_a_graph_all_give_theirs_back(steps: Steps) -> None:
    for rows in (1, 1, 2):
        steps.run(rows)
    assert steps.run(1) == ["replay"]
    steps.errors = [torch.OutOfMemoryError("in a capture")]
    assert steps.run(2) == ["capture", "step", "step"], "kernel by kernel"
    assert steps.run(2) == ["step"], "and so from then on"
    assert steps.run(1) == ["capture", "step", "replay"], "what is smaller may fit"
    steps.run(3)
    steps.errors = [torch.OutOfMemoryError("in a capture"), torch.OutOfMemoryError("in its step")]
    with pytest.raises(torch.OutOfMemoryError, match="in its step"):
        steps.run(3)
    assert not Graph.open


def test_the_memory_of_all_graphs_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, room=1000)
    assert steps.run(1) == ["step"]
    assert steps.run(1) == ["capture", "capture", "step", "replay"]
    assert Graph.uses == {0: 2}
    steps.run(2)
    assert steps.run(2) == ["capture", "step", "replay"]
    for rows, how in ((4, "given_up"), (8, "too_large")):
        steps.run(rows)
        steps.errors = [ValueError("not while a stream is captured")]
        with monkeypatch.context() as patch:
            patch.setattr(Graph, how, True)
            assert steps.run(rows) == ["capture", "step", "step"]
        steps._graphs._cannot = False  # as if no step like it had run
        assert not Graph.open and set(Graph.uses.values()) == {0}
        assert steps.run(1) == ["capture", "capture", "step", "replay"], (
            "elsewhere, in one place again"
        )


def test_no_memory_to_take_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, room=1000)
    steps.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(Graph, "too_large", True)
        assert steps.run(1) == ["capture", "capture", "step", "step"]
    assert not Graph.open and set(Graph.uses.values()) == {0}
    assert steps.run(2) == ["step"]
    assert steps.run(2) == ["capture", "step", "replay"], "the graphs take it as they come"


def test_logits_lie_in_one_place(steps: Steps) -> None:
    """A graph for each number of rows, and one tensor for what they give."""
    kept = set()
    for rows in (1, 2, 4):
        for _ in range(3):
            logits = steps._graphs._replay((rows, False), rows, False, False)
            assert isinstance(logits, torch.Tensor) and logits.shape == (rows, 5)
            kept.add(logits.data_ptr())
    assert len(kept) == 1


def test_a_graph_that_is_too_large_in_the_end(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(Graph, "too_large", True)
        assert steps.run(1) == ["capture", "step", "step"]
    assert not Graph.open and sum(Graph.uses.values()) == 0
    assert steps.run(1) == ["step"]


def test_the_longest_unused_graph_goes(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    from sgnb.engine import graphs

    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    for rows in (1, 1, 2, 2, 1, 3, 3):
        steps.run(rows)
    assert steps.run(1) == steps.run(3) == ["replay"]
    assert steps.run(2) == ["capture", "step", "replay"]


def chunks(*lengths: int, whole: bool = False, **fields: Any) -> Any:
    """A step of chunks with these numbers of tokens; the last is `whole`. fields: of the step."""
    rows, none = np.array(lengths), np.empty(0, np.int32)
    attention = AttentionInput(
        rows * 0, rows, none, [], [], [False] * (len(rows) - 1) + [True] if whole else ()
    )
    step = {
        "attention": attention,
        "positions": attention.kv_positions,
        "sampled": range(len(rows)),
        "embeddings": (),
        "uses": (),
    }
    return SimpleNamespace(**step | fields)


def test_chunks_of_any_length_are_graphs_in_a_step_of_few_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sgnb.engine.graphs import FEW_TOKENS

    fits = Steps(monkeypatch, max_rows=3 * FEW_TOKENS)._graphs.fits
    assert fits(chunks(SHORT + 9)) and fits(chunks(1, FEW_TOKENS - 1))
    assert not fits(chunks(FEW_TOKENS + 1)) and not fits(chunks(1, FEW_TOKENS))
    assert fits(chunks(*[SHORT] * 9)), "many short chunks"
    assert not fits(chunks(2, 5, whole=True)), "rows that see later rows"
    assert not fits(chunks(2, 5, sampled=range(1))), "a part of a prompt"
    scored = SimpleNamespace(scored=(7,), sequence=1)
    assert not fits(chunks(2, 5, uses=[scored])) and fits(chunks(2, 1, uses=[scored]))
    assert not fits(chunks(5, positions=np.zeros((3, 5)))), "axes that differ, as of an image"


def test_a_step_of_few_tokens_needs_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = Steps(monkeypatch, max_rows=20)._graphs.fits
    assert fits(chunks(20)) and not fits(chunks(21))
