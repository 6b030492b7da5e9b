"""The GPU benchmarks at toy sizes on a CPU: they run to their ends, and what they count is what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import sgnb
from benchmarks.gpu import forks, memory_cycle, overhead
from benchmarks.gpu.bookkeeping import Stopwatch, schedule_milliseconds
from benchmarks.gpu.limits import TOY
from benchmarks.gpu.model import random_llama, write_folder
from benchmarks.gpu.more_workloads import WORKLOADS
from benchmarks.gpu.ours import SgnbServer
from benchmarks.gpu.playing import play
from benchmarks.gpu.soak import TOY_SIZES, Soak
from benchmarks.gpu.vocabulary import FILE
from benchmarks.gpu.workloads import BASIC
from sgnb import models


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def engine() -> Iterator[sgnb.Engine]:
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = random_llama(replace(TOY, vocab=len(tokenizer)), "cpu", "float32", scale=0.3)
    with sgnb.Engine(model, tokenizer=tokenizer, max_total_tokens=20_000) as made:
        yield made


def test_every_workload_gives_transformers_greedy_tokens(engine: sgnb.Engine) -> None:
    """Those of the calls that no schema binds; children are submitted when their parents end."""
    tokenizer = engine.tokenizer
    assert tokenizer is not None
    reference = random_llama(replace(TOY, vocab=engine.vocab_size), "cpu", "float32", scale=0.3)
    for name, kind in WORKLOADS.items():
        workload = kind.make(0, engine.vocab_size, True)
        outputs = play(SgnbServer(engine), workload)
        if workload.constrained:
            assert all(output for output in outputs)
            continue
        prompts: list[list[int]] = []
        for call, output in zip(workload.calls, outputs, strict=True):
            begin = [] if call.context is None else prompts[call.context] + outputs[call.context]
            prompts.append(begin + [t for other in call.joins for t in outputs[other]] + call.tokens)
            if call.new:
                ids = torch.tensor([prompts[-1] + output])
                with torch.inference_mode():
                    likeliest = reference(ids, use_cache=False).logits[0].argmax(-1)
                assert likeliest[len(prompts[-1]) - 1 : -1].tolist() == output, name


def test_the_tree_of_thought_hits_the_cache(engine: sgnb.Engine) -> None:
    workload = BASIC["tree of thought"].make(0, engine.vocab_size, True)
    play(SgnbServer(engine), workload)
    stats = engine.stats()
    distinct = 2 * 12 + len(workload.calls) * (1 + 3)
    assert stats["computed_tokens"] <= distinct + 2 * len(workload.calls)


def test_the_stopwatch_counts_and_leaves_no_trace(engine: sgnb.Engine) -> None:
    before = dict(vars(engine._scheduler)), dict(vars(engine.log))
    with Stopwatch(engine) as watch:
        outputs = engine.generate([[20, 21, 22]] * 3, temperature=0, max_new_tokens=4, ignore_eos=True)
    assert all(len(output.token_ids) == 4 for output in outputs)
    assert 0 < watch.seconds["tree and scheduler"] < 5
    assert 0 < watch.seconds["events"] < 5
    assert set(vars(engine._scheduler)) == set(before[0])
    assert set(vars(engine.log)) == set(before[1])
    assert "timed" not in engine._scheduler._emit.__name__
    assert "timed" not in engine._scheduler.tree._emit.__name__


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


def test_a_soak_of_a_few_seconds() -> None:
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = random_llama(replace(TOY, vocab=len(tokenizer)), "cpu", "float32", scale=0.3)
    with sgnb.Engine(model, tokenizer=tokenizer, max_total_tokens=TOY_SIZES.pool, max_step_tokens=300) as small:
        findings = Soak(small, TOY_SIZES).run(4)
    assert findings.faults == []
    assert findings.programs.total() > 3
    assert findings.probes >= 2
    assert findings.rests >= 1
    assert "SOAK ok" in findings.line(4)


def test_a_soak_sees_a_changed_probe_and_a_wrong_pool(engine: sgnb.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_folder_for_the_peers(tmp_path: Path) -> None:
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    from transformers import AutoConfig

    folder = write_folder(tmp_path / "model", replace(TOY, vocab=131072), tokenizer=True)
    assert AutoConfig.from_pretrained(folder).num_key_value_heads == TOY.kv_heads
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (len(tokenizer), tokenizer.eos_token_id) == (131072, 2)
    import mistral_common

    theirs = Tekkenizer.from_file(str(Path(mistral_common.__file__).parent / FILE))
    for text in ('Hello! 1234\n\n  {"name": "Größe", "x": [1, 2.5]}', "naïve 🦊 日本語 текст\t\r\n def f(x): x**2"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == theirs.encode(text, bos=False, eos=False)
        assert tokenizer.decode(ids) == text
