"""The tables of the GPU benchmarks, from made-up figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import ablations
from benchmarks.gpu.gaps import Piece, device_work, idle_of, idle_share
from benchmarks.gpu.naming import NAMES
from benchmarks.gpu.ready import READY
from benchmarks.gpu.results import Results
from benchmarks.gpu.shapes import LLAMA_8B, QWEN3_06B, QWEN3_30B_A3B, TOYS
from benchmarks.gpu.table import COLUMNS, command, make_table, number


def result(figure: float, unit: str = "tok/s") -> dict[str, Any]:
    return {"figure": figure, "unit": unit, "seconds": [1.0]}


def rows(results: Results) -> dict[str, dict[str, str]]:
    table = make_table(results)
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table.rows}


def test_known_figures_stand_in_for_peers_and_are_marked() -> None:
    results = Results()
    results.add("sgnb", "1", "decode 1", result(250) | {"mhz": 1755.0})
    results.add("sgnb", "1", "chat", result(5000))
    results.add("vllm", "0.20.0", "chat", result(2500))
    found = rows(results)
    assert found["decode 1"] == {
        "workload": "decode 1", "unit": "tok/s", "sgnb": "250", "SGLang": "204*", "vLLM": "201*",
        "times the better peer": "1.23", "limit": "286", "share of the limit": "88%",
        "to reach": "240", "met": "yes", "MHz": "1,755",
    }  # fmt: skip
    assert found["chat"]["SGLang"] == "4,320*"
    assert found["chat"]["vLLM"] == "2,500"
    assert found["chat"]["times the better peer"] == "1.16"
    assert found["chat"]["met"] == "NO"
    assert make_table(results).met is False


def test_of_seconds_fewer_are_better() -> None:
    results = Results()
    results.add("sgnb", "1", READY, result(8, "s"))
    results.add("sgnb", "1", "JSON, one at a time", result(0.4, "s"))
    results.add("sglang", "0.5.11", "JSON, one at a time", result(1.0, "s"))
    results.add("vllm", "0.20.0", "JSON, one at a time", result(0.9, "s"))
    found = rows(results)
    assert found[READY]["met"] == "yes"
    assert found[READY]["times the better peer"] == "7.38"
    assert found["JSON, one at a time"]["times the better peer"] == "2.25"
    assert found["JSON, one at a time"]["to reach"] == "0.45"
    assert found["JSON, one at a time"]["met"] == "yes"


def test_json_has_no_bar_without_a_peer_in_the_same_run() -> None:
    results = Results()
    results.add("sgnb", "1", "JSON, 128 requests", result(90, "req/s"))
    row = rows(results)["JSON, 128 requests"]
    assert (row["SGLang"], row["vLLM"], row["to reach"], row["met"]) == ("", "", "", "")


def test_each_shape_has_its_own_table_and_goals() -> None:
    results = Results(model=QWEN3_06B.name)
    results.add("sgnb", "1", "batch 256", result(28115))
    results.add("sgnb", "1", "chat", result(20000))
    table = make_table(results, shape=QWEN3_06B)
    found = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table.rows}
    assert table.title == "Serving, Qwen3-0.6B (GPU)"
    assert found["batch 256"]["vLLM"] == "29,925*"
    assert (found["batch 256"]["to reach"], found["batch 256"]["met"]) == ("33,000", "NO")
    assert (found["chat"]["vLLM"], found["chat"]["to reach"]) == ("", "")
    assert '--shape qwen3-0.6b --only "batch 256; chat"`' in table.note
    assert "an earlier run on one H200 with vllm 0.20.0. Random" in table.note


def test_a_shape_without_goals_has_limits_alone() -> None:
    results = Results(model=QWEN3_30B_A3B.name)
    results.add("sgnb", "1", "decode 1", result(345))
    table = make_table(results, shape=QWEN3_30B_A3B)
    assert table.rows[0][2:10] == ("345", "", "", "", "690", "50%", "", "")
    assert table.met is None
    assert "earlier run" not in table.note


def test_toy_sizes_have_neither_goals_nor_limits() -> None:
    results = Results(model=QWEN3_06B.name)
    results.add("sgnb", "1", "decode 1", result(345))
    table = make_table(results, toy=True, shape=TOYS[QWEN3_06B.name])
    assert table.rows[0][2:10] == ("345", "", "", "", "", "", "", "")


def test_the_command_names_the_workloads_unless_they_are_all() -> None:
    assert command(LLAMA_8B, list(NAMES)) == "python -m benchmarks.gpu.serving --shape llama-8b"
    assert command(LLAMA_8B, ["chat"]).endswith('--shape llama-8b --only "chat"')
    assert command(LLAMA_8B, list(NAMES), toy=True).endswith("--shape llama-8b --toy")


def test_figures_of_two_shapes_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    Results(path, QWEN3_06B.name).add("sgnb", "1", "chat", result(10))
    Results(model=QWEN3_06B.name).read([path])
    with pytest.raises(ValueError, match=r"figures of the model qwen3-0\.6b, not of llama-8b"):
        Results(model=LLAMA_8B.name).read([path])


def test_results_are_on_the_disk_after_each_figure(tmp_path: Path) -> None:
    results = Results(tmp_path / "deep" / "out.json")
    results.add("sgnb", "1", "chat", result(10))
    again = Results()
    again.read([tmp_path / "deep" / "out.json"])
    assert again.figure("sgnb", "chat") == 10
    assert again.figure("sgnb", "prefill") is None
    assert again.figure("vllm", "chat") is None


def test_numbers_are_short() -> None:
    assert [number(x) for x in (None, 0.4567, 12.345, 345.6, 1234.5)] == [
        "",
        "0.457",
        "12.3",
        "346",
        "1,234",
    ]


def ablation_results(**seconds: float) -> Results:
    results = Results()
    for option, value in seconds.items():
        results.add(
            option.replace("_", " "),
            "1",
            "chat",
            {"seconds": [value], "unit": "tok/s", "figure": 1.0},
        )
    return results


def test_ablations_say_what_each_technique_is_worth() -> None:
    results = ablation_results(all_on=1.0, no_prefix_cache=2.0, no_fork_attention=1.02)
    results.add(ablations.AGAIN, "1", "chat", {"seconds": [1.04], "unit": "tok/s", "figure": 1.0})
    table = ablations.make_table(results, gpu=True)
    assert table.columns == (
        "program",
        "all on, s",
        "no prefix cache",
        "no fork attention",
        ablations.AGAIN,
    )
    assert table.rows == [("chat", "1.020", "1.96", "1.00", "1.04")]
    assert table.met is True


@pytest.mark.parametrize("changed", [{"no_prefix_cache": 0.99}, {"no_fork_attention": 0.9}])
def test_ablations_are_not_met_by_a_missing_gain_or_a_loss(changed: dict[str, float]) -> None:
    seconds = {"all_on": 1.0, "no_prefix_cache": 2.0, "no_fork_attention": 1.0} | changed
    assert ablations.make_table(ablation_results(**seconds), gpu=True).met is False


def test_idle_time_between_pieces_of_work() -> None:
    def idle(*work: tuple[float, float], margin: float = 0.0, copies: tuple[int, ...] = ()) -> Any:
        pieces = [
            Piece("Memcpy HtoD" if i in copies else "Memset", *times)
            for i, times in enumerate(work)
        ]
        return pytest.approx(idle_of(pieces, margin))

    assert idle((0, 10)) == (0, 0)
    assert idle((0, 4), (6, 10)) == (0, 0.2)
    assert idle((6, 10), (0, 4), (1, 3), (3, 5)) == (0, 0.1)
    assert idle((0, 1), (40, 60), (99, 100), margin=0.25) == (0, 0.6)
    assert idle((0, 2), (3, 4), (6, 7), (7, 9), (9.5, 10), copies=(1,)) == (0.3, 0.05)
    assert idle((0, 2), (1, 5), (6, 10), copies=(0,)) == (0, 0.1)
    assert idle((0, 5), (1, 6), (8, 10), copies=(1,)) == (0.2, 0)


def test_a_trace_counts_what_the_device_did(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "attend_tiles", "ts": 0, "dur": 5},
        {"ph": "X", "cat": "cpu_op", "ts": 5, "dur": 3},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH", "ts": 8, "dur": 2},
        {"ph": "M", "name": "process_name"},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    assert device_work(path) == [Piece("attend_tiles", 0, 5), Piece("Memcpy DtoH", 8, 10)]
    assert idle_share(path, 0.0) == pytest.approx((0.3, 0))
    path.write_text(json.dumps({"traceEvents": events[1:2]}), encoding="utf-8")
    with pytest.raises(ValueError, match="no work of a GPU"):
        idle_share(path)
