"""The GPU benchmarks at toy sizes on a CPU: they run to their ends, and what they count is what
happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

import sgnb
from benchmarks.gpu import forks, memory_cycle, overhead
from benchmarks.gpu.bookkeeping import Stopwatch, schedule_milliseconds
from benchmarks.gpu.model import random_model, write_folder
from benchmarks.gpu.more_workloads import WORKLOADS
from benchmarks.gpu.ours import SgnbServer
from benchmarks.gpu.playing import play
from benchmarks.gpu.results import Results
from benchmarks.gpu.serving import run_sgnb
from benchmarks.gpu.shapes import FAMILIES, LLAMA_8B, SHAPES, TOY, TOYS, Shape
from benchmarks.gpu.soak import TOY_SIZES, Soak
from benchmarks.gpu.table import make_table
from benchmarks.gpu.vocabulary import FILE
from benchmarks.gpu.workloads import BASIC, Workload
from sgnb import models


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made_engine(shape: Shape) -> sgnb.Engine:
    """With the bundled model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = random_model(shape, "cpu", "float32", scale=0.3)
    return sgnb.Engine(model, tokenizer=tokenizer, max_total_tokens=20_000)


@pytest.fixture(scope="module")
def token_ids() -> int:
    return len(AutoTokenizer.from_pretrained(models.path("tiny")))


@pytest.fixture
def engine(token_ids: int) -> Iterator[sgnb.Engine]:
    with made_engine(replace(TOY, vocab=token_ids)) as made:
        yield made


@pytest.mark.parametrize(
    "toy",
    [
        pytest.param(toy, id=name, marks=[] if name == LLAMA_8B.name else pytest.mark.slow)
        for name, toy in TOYS.items()
    ],
)
def test_every_workload_gives_transformers_greedy_tokens(toy: Shape, token_ids: int) -> None:
    """Those of the calls that no schema binds; children are submitted when their parents end. The
    model has more tokens than the tokenizer: no schema may let those through."""
    shape = replace(toy, vocab=token_ids + 64)
    reference = random_model(shape, "cpu", "float32", scale=0.3)
    with made_engine(shape) as engine:
        for kind in WORKLOADS.values():
            workload = kind.make(0, token_ids, True)
            outputs = play(SgnbServer(engine), workload)
            if workload.constrained:
                assert all(output and max(output) < token_ids for output in outputs)
            else:
                _check_greedy(workload, outputs, reference)


def _check_greedy(workload: Workload, outputs: list[list[int]], reference: Any) -> None:
    prompts: list[list[int]] = []
    for call, output in zip(workload.calls, outputs, strict=True):
        begin = [] if call.context is None else prompts[call.context] + outputs[call.context]
        prompts.append(begin + [t for other in call.joins for t in outputs[other]] + call.tokens)
        if call.new:
            ids = torch.tensor([prompts[-1] + output])
            with torch.inference_mode():
                likeliest = reference(ids, use_cache=False).logits[0].argmax(-1)
            assert likeliest[len(prompts[-1]) - 1 : -1].tolist() == output


@pytest.mark.parametrize("toy", TOYS.values(), ids=list(TOYS))
def test_a_table_of_each_shape(toy: Shape) -> None:
    results = Results(model=toy.name)
    names = ["batch 256", "mixed lengths", "tree of thought"]
    run_sgnb(results, names, toy, toy=True, repetitions=1)
    table = make_table(results, toy=True, shape=toy)
    assert sorted(row[0] for row in table.rows) == names
    assert all(float(row[2].replace(",", "")) > 0 for row in table.rows)
    assert toy.title in table.title


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_the_peers_config_is_one_of_the_family(shape: Shape, tmp_path: Path) -> None:
    config = AutoConfig.from_pretrained(write_folder(tmp_path / "model", shape, tokenizer=False))
    assert config.model_type == shape.family
    assert config.architectures == FAMILIES[shape.family]["architectures"]
    assert (config.head_dim, config.vocab_size) == (shape.head_dim, shape.vocab)
    assert config.tie_word_embeddings == shape.tied
    assert getattr(config, "sliding_window", None) == shape.window
    assert getattr(config, "num_experts", 1) == shape.experts
    assert "'rope_theta': 1000000.0" in str(config.rope_parameters) or shape == LLAMA_8B


def test_the_tree_of_thought_hits_the_cache(engine: sgnb.Engine) -> None:
    workload = BASIC["tree of thought"].make(0, engine.vocab_size, True)
    play(SgnbServer(engine), workload)
    stats = engine.stats()
    distinct = 2 * 12 + len(workload.calls) * (1 + 3)
    assert stats["computed_tokens"] <= distinct + 2 * len(workload.calls)


def test_the_stopwatch_counts_and_leaves_no_trace(engine: sgnb.Engine) -> None:
    before = dict(vars(engine._scheduler)), dict(vars(engine.log))
    with Stopwatch(engine) as watch:
        outputs = engine.generate(
            [[20, 21, 22]] * 3, temperature=0, max_new_tokens=4, ignore_eos=True
        )
    assert all(len(output.token_ids) == 4 for output in outputs)
    assert 0 < watch.seconds["tree and scheduler"] < 5
    assert 0 < watch.seconds["events"] < 5
    assert set(vars(engine._scheduler)) == set(before[0])
    assert set(vars(engine.log)) == set(before[1])
    assert "timed" not in engine._scheduler._emit.__name__
    assert "timed" not in engine._scheduler.cache.tree._emit.__name__


def test_a_step_of_the_scheduler_with_many_sequences() -> None:
    times = schedule_milliseconds(sequences=500, rows=4, steps=40)
    assert 0 < times.median <= times.worst


def test_the_costs_of_a_regex_are_measured() -> None:
    report = overhead.measure_parts(["share", "constrained"])
    names = [row[0] for row in report.rows]
    assert any("regex costs" in name for name in names)
    assert any("tree, scheduler and events" in name for name in names)


def test_steps_of_branches() -> None:
    report = forks.run()
    assert [row[:2] for row in report.rows] == [(8, 200), (16, 100), (24, 100), (1, 100)]
    assert all(float(cell) > 0 for row in report.rows for cell in row[2:]) and report.met is None


def test_memory_cycles() -> None:
    report = memory_cycle.measure_cycles(2)
    assert [row[0] for row in report.rows] == ["start", "running", "unload 1", "unload 2"]
    assert report.met is None, "there is no GPU to judge"


@pytest.mark.slow
def test_a_soak_of_a_few_seconds() -> None:
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = random_model(replace(TOY, vocab=len(tokenizer)), "cpu", "float32", scale=0.3)
    with sgnb.Engine(
        model, tokenizer=tokenizer, max_total_tokens=TOY_SIZES.pool, max_step_tokens=300
    ) as small:
        findings = Soak(small, TOY_SIZES).run(4)
    assert findings.faults == []
    assert findings.programs.total() > 3
    assert findings.probes >= 2
    assert findings.rests >= 1
    assert "SOAK ok" in findings.line(4)


def test_a_soak_sees_a_changed_probe_and_a_wrong_pool(
    engine: sgnb.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    soak = Soak(engine, TOY_SIZES)
    soak._check("as it is")
    assert soak.findings.faults == []
    stats = engine.stats()
    monkeypatch.setattr(engine, "stats", lambda: stats | {"free": 0})
    soak._expected = [*soak._expected[:5], 0, *soak._expected[6:]]
    soak._check("spoilt")
    probe, pool = soak.findings.faults
    assert "the probe differs from token 5" in probe
    assert "does not add up" in pool


@pytest.mark.slow
def test_a_folder_for_the_peers(tmp_path: Path) -> None:
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    folder = write_folder(tmp_path / "model", replace(TOY, vocab=131072), tokenizer=True)
    assert AutoConfig.from_pretrained(folder).num_key_value_heads == TOY.kv_heads
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (len(tokenizer), tokenizer.eos_token_id) == (131072, 2)
    import mistral_common

    theirs = Tekkenizer.from_file(str(Path(mistral_common.__file__).parent / FILE))
    for text in (
        'Hello! 1234\n\n  {"name": "Größe", "x": [1, 2.5]}',
        "naïve 🦊 日本語 текст\t\r\n def f(x): x**2",
    ):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == theirs.encode(text, bos=False, eos=False)
        assert tokenizer.decode(ids) == text
