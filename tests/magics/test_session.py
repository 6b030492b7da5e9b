"""`%sglang` and its Python twins: engines, cache, runs, doctor, completion, and an engine that
fails."""

from __future__ import annotations

from typing import Any

import pytest

import sgnb
from sgnb.errors import EngineError, OptionError
from sgnb.magics.magic_options import COMMANDS
from sgnb.magics.session import SESSION

from ..engine.test_stored_payloads import wait_for

CELL = (
    "%%sglang --show none\ns += 'The capital of France is'\ns += gen('a', "
    "max_tokens=4, temperature=0)\n"
)
LONG = "%%sglang --bg\ns += 'A story.'\ns += gen('story', max_tokens=3000, ignore_eos=True)\n"


@pytest.fixture
def engine(shell: Any) -> Any:
    """The bundled model as the only, current engine, with an empty cache."""
    for name in sgnb.engines.names():
        if name != "tiny":
            sgnb.unload(name)
    loaded = sgnb.load("tiny")
    sgnb.flush_cache()
    return loaded


def test_loading_twice_says_so(shell: Any, engine: Any, capsys: Any) -> None:
    shell("%sglang load tiny")
    assert "tiny is loaded already" in capsys.readouterr().out
    assert sgnb.load("tiny") is engine


def test_several_engines(shell: Any, engine: Any) -> None:
    shell("%sglang load tiny --as second --dtype float32")
    assert [row["engine"] for row in sgnb.engines.ls() if row["current"]] == ["second"]
    assert shell("%sglang engine") == sgnb.engines.ls()
    shell(CELL)
    assert sgnb.engines.info("second")["requests"] == 1
    shell(CELL.replace("none", "none -m tiny"))
    assert sgnb.runs()[-1]["engine"] == "tiny"
    shell("%sglang engine use tiny")
    assert sgnb.engines.info()["engine"] == "tiny"
    assert sgnb.engines.info()["token_bytes"] == 2 * 5 * 2 * 64 * 4, "keys and values, in float32"
    shell("%sglang engine unload second")
    assert sgnb.engines.names() == ["tiny"]
    with pytest.raises(OptionError, match="second"):
        sgnb.engines.use("second")


def test_an_ended_engine_is_marked(shell: Any, engine: Any) -> None:
    sgnb.load("tiny", name="second").close()
    rows = {row["engine"]: row["runs"] for row in sgnb.engines.ls()}
    assert rows == {"tiny": 0, "second": "ended"}
    sgnb.unload("second")


def test_unloading_the_current_engine_leaves_another_or_none(shell: Any, engine: Any) -> None:
    sgnb.load("tiny", name="second")
    sgnb.unload()
    assert [row["current"] for row in sgnb.engines.ls()] == ["*"]
    sgnb.unload()
    assert "no engine is loaded" in repr(sgnb.engines)
    with pytest.raises(OptionError, match="no engine is loaded"):
        sgnb.unload()
    with pytest.raises(OptionError, match="nothing to run programs on"):
        sgnb.function(lambda s: None).run()


def test_an_engine_in_use_is_neither_unloaded_nor_replaced(shell: Any, engine: Any) -> None:
    handle = shell(LONG)
    for line in ("%sglang engine unload tiny", "%sglang load tiny --dtype bfloat16"):
        lines = shell.fails(line)
        assert lines[0].startswith("EngineError")
        assert lines[-1].endswith(f"%sglang cancel {handle.run.id}")
    assert handle.status == "running"
    shell(f"%sglang cancel {handle.run.id}")
    with pytest.raises(Exception, match="stopped"):
        handle.wait()
    shell("%sglang engine unload tiny")
    assert engine.closed


def test_a_reload_accepts_a_processor(engine: Any) -> None:
    """A reload checks the engine options first, and `processor` is not one of them."""
    assert sgnb.load("tiny", processor=None) is not engine


def test_a_reload_says_what_it_drops(shell: Any, engine: Any, capsys: Any) -> None:
    engine.generate("Once upon a time there was", max_new_tokens=2)
    cached = engine.stats()["cached"]
    shell("%sglang load tiny --as second")
    assert "cached" not in capsys.readouterr().out, "the first stays"
    sgnb.unload("second")
    shell("%sglang load tiny --max-total-tokens 2000")
    out = capsys.readouterr().out
    assert f"loading tiny as tiny closes the engine before it, and its {cached} cached tok" in out
    assert "context 4,096 tokens, of which the KV pool holds 2,000" in out
    shell("%sglang load tiny")
    assert "cached" not in capsys.readouterr().out, "there was nothing to lose"


def test_a_context_that_is_cut_is_said(
    shell: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(UserWarning, match=r"context_length=9,000 is cut to the 4,096 positions"):
        shell("%sglang load tiny --context-length 9000")
    monkeypatch.setattr("sgnb.engine.sizing.CPU_POOL_TOKENS", 1500)
    with pytest.warns(UserWarning, match="a request may have 1,500 of 4,096 tokens"):
        shell("%sglang load tiny --dtype bfloat16")


def test_loading_under_a_taken_name_replaces(shell: Any, engine: Any) -> None:
    other = sgnb.load("tiny", dtype="bfloat16")
    assert engine.closed
    assert other.dtype == "bfloat16"
    assert sgnb.engines.names() == ["tiny"]


def test_options_are_checked_before_the_old_engine_goes(shell: Any, engine: Any) -> None:
    assert "did you mean 'float16'" in shell.fails("%sglang load tiny --dtype flt16")[-1]
    for cannot in ("--device gpu", "--deterministic on", "--attention flashinfer"):
        shell.fails(f"%sglang load tiny --device cpu {cannot}")
    assert not engine.closed


def test_after_a_load_that_failed_the_name_means_what_it_did(
    shell: Any, engine: Any, capsys: Any
) -> None:
    shell.fails("%sglang load /nowhere/else --as tiny")
    assert engine.closed
    assert shell(CELL)["a"]
    assert "tiny had ended and is loaded again" in capsys.readouterr().out


def test_an_interrupt_as_the_engine_is_named_closes_it(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    def open_(model: str, options: dict[str, Any], line: Any) -> Any:
        made.append(sgnb.Engine(model, **options))
        return made[0]

    monkeypatch.setattr("sgnb.magics.engines.open_engine", open_)
    monkeypatch.setattr("sgnb.magics.loaded_engine.Emitter", interrupted)
    assert shell.fails("%sglang load tiny --as other")[0] == "KeyboardInterrupt"
    assert made[0].closed and "other" not in sgnb.engines.names()


def test_a_wrong_argument_names_the_cell_that_gave_it(shell: Any, engine: Any) -> None:
    shell("%%sglang greet who\ns += who\n")
    with pytest.raises(OptionError, match=r"^Cell In\[\d+\], line 2: greet has no argument 'whom'"):
        shell("x = 1\ngreet.run(whom='you')")


def test_an_engine_made_elsewhere(shell: Any, engine: Any, capsys: Any) -> None:
    before = engine.stats()["requests"]
    with sgnb.Engine("tiny") as own:
        sgnb.set_default_backend(own)
        sgnb.set_default_backend(own)
        assert sgnb.engines.names() == ["tiny", "tiny-2"]
        shell(CELL)
        assert own.stats()["requests"] == 1
    shell(CELL)
    assert "tiny-2 was closed" in capsys.readouterr().out
    assert engine.stats()["requests"] == before + 1
    assert "'tiny-2'" in shell.fails(CELL.replace("none", "none -m tiny-2"))[0]


def test_an_ended_engine_is_loaded_again(shell: Any, engine: Any, capsys: Any) -> None:
    engine.close()
    engine.close()
    assert shell(CELL)["a"]
    assert "tiny had ended and is loaded again" in capsys.readouterr().out
    assert sgnb.engines.names() == ["tiny"]


def test_a_failing_engine_reaches_the_cell_and_the_next_cell_works(
    shell: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = engine._loop._runner

    def explode(*args: Any) -> Any:
        raise RuntimeError("the device is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(type(runner), "run", explode)
        lines = shell.fails(CELL)
    assert lines[0].startswith("EngineError")
    assert lines[0].endswith("RuntimeError: the device is on fire") and "because of" not in "".join(
        lines
    )
    assert shell(CELL)["a"]


def test_cache(shell: Any, engine: Any, capsys: Any) -> None:
    shell(CELL)
    shell(CELL)
    stats = shell("%sglang cache stats")
    assert stats == sgnb.cache.stats()
    assert 0 < stats["hit_rate"] < 1
    assert stats["free"] + stats["cached"] + stats["in_flight"] == stats["pool_tokens"]
    capsys.readouterr()
    shell("%sglang cache")
    assert "The capital of France" in capsys.readouterr().out
    shell("%sglang cache flush")
    assert capsys.readouterr().out == f"freed {stats['cached']} tokens\n"
    assert sgnb.flush_cache() == 0


def test_pins_and_evictions_by_hand(shell: Any, engine: Any, capsys: Any) -> None:
    shell(CELL)
    state = shell.ns["s"]
    capsys.readouterr()
    shell(f"%sglang cache pin {state.run_id}")
    pinned = sgnb.cache.stats()["pinned"]
    assert capsys.readouterr().out == f"{pinned} tokens are pinned\n" and pinned > 0
    (pin,) = shell("%sglang cache pins")
    assert (pin["owner"], pin["tokens"]) == (state.run_id, pinned)
    sgnb.flush_cache()
    assert sgnb.cache.stats()["cached"] == pinned
    shell(f"%sglang cache evict {pin['node']}")
    assert f"freed 0 tokens (0 bytes) of 0 nodes; {pinned} stay: pinned" in capsys.readouterr().out
    assert sgnb.cache.pin(pin["node"]) == pinned == sgnb.cache.pin(state)
    shell("%sglang cache unpin")
    assert capsys.readouterr().out == "undone: 2 pins\n"
    assert sgnb.cache.evict(pin["node"]).freed == pinned
    assert repr(sgnb.cache.pins()) == "nothing is pinned"
    with pytest.raises(OptionError, match="no prompt of run 'run0'"):
        sgnb.cache.pin("run0")
    for line in ("cache pin", "cache evict", "cache flush run1"):
        with pytest.raises(OptionError):
            shell(f"%sglang {line}")


def test_what_a_views_button_does(shell: Any, engine: Any) -> None:
    loaded = SESSION.engines.get()
    shell(CELL)
    node = max(engine.tree(), key=lambda node: node["tick"])["id"]
    assert "tokens are kept" in loaded.act("pin", node)
    assert engine.pins()[0]["owner"] == "view"
    assert "stay: pinned" in loaded.act("evict", node)
    assert loaded.act("unpin", node) == "not pinned any more"
    assert loaded.act("unpin", node) == "it was not pinned"
    assert loaded.act("evict", node).startswith("freed ")


def test_runs_lists_those_of_python_too(shell: Any, engine: Any) -> None:
    def program(s: Any) -> None:
        s += "x"

    sgnb.function(program).run()
    last = shell("%sglang runs")[-1]
    assert (last["program"], last["status"], last["programs"], last["engine"]) == (
        "program",
        "done",
        "1/1",
        "tiny",
    )


def test_stop(shell: Any, engine: Any, capsys: Any) -> None:
    first, second = shell(LONG), shell(LONG)
    capsys.readouterr()
    shell("%sglang cancel")
    assert capsys.readouterr().out == f"cancelled {first.run.id}, {second.run.id}\n"
    for handle in (first, second):
        with pytest.raises(Exception, match="stopped"):
            handle.wait()
    shell("%sglang cancel")
    assert "no run was active" in capsys.readouterr().out


def test_doctor(shell: Any) -> None:
    rows = {row["part"]: row for row in shell("%sglang doctor")}
    assert rows["python"]["ok"] == rows["model"]["ok"] == "yes"
    assert all(row["ok"] == "yes" or row["cure"] for row in rows.values())
    assert "awq, gptq" in rows["quantized weights"]["found"]


def test_help(shell: Any, capsys: Any) -> None:
    shell("%sglang")
    assert "%sglang load PATH_OR_ID" in capsys.readouterr().out
    assert "--max-tokens" in shell.ipython.find_magic("sglang", "cell").__doc__


def test_loading_the_extension_twice_changes_nothing(shell: Any) -> None:
    before = shell.ipython.find_magic("sglang", "cell")
    sgnb.load_ipython_extension(shell.ipython)
    assert shell.ipython.find_magic("sglang", "cell") == before


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%%sglang --temp", {"--temperature"}),
        ("%%sglang --d", {"--dry"}),
        ("%sglang fsm [a-z] --", {"--tokens", "--documents"}),
        ("%%sglang qa q --to", {"--top-p"}),
        ("%%sglang -m ", {"tiny"}),
        ("%%sglang --show t", {"text", "time", "tree"}),
        ("%sglang ca", {"cache", "cancel"}),
        ("%sglang cache ", set(COMMANDS["cache"].actions)),
        ("%sglang engine use ", {"tiny"}),
        ("%sglang load ti", {"tiny", "tiny-vision"}),
        ("%sglang load tiny --d", {"--device", "--dtype", "--deterministic", "--disk-cache"}),
        ("%sglang load tiny --fuse o", {"on", "off"}),
        ("%sglang load tiny --attention t", {"torch", "triton"}),
        ("%sglang load tiny --device c", {"cpu", "cuda"}),
        ("%sglang cancel ", {"all"}),
    ],
)
def test_completion(shell: Any, engine: Any, line: str, words: set[str]) -> None:
    word = line.rpartition(" ")[2]
    assert set(shell.ipython.complete(word, line, len(line))[1]) == words


def test_closed_engines_say_how_to_go_on(shell: Any, engine: Any) -> None:
    engine.close()
    with pytest.raises(EngineError, match="load"):
        engine.generate("x")


def test_prefixes_on_the_disk_are_listed_and_forgotten(
    shell: Any, capsys: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from sgnb.engine.cache.tiers.blocks import BLOCK, Block
    from sgnb.engine.cache.tiers.disk import DiskBlocks

    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    assert "nothing is stored" in repr(shell("%sglang cache stored"))
    assert "stored: no model" in " ".join(shell.fails("%sglang cache forget 123"))
    tokens = np.arange(BLOCK, dtype=np.int32)
    for name in ("ab" * 32, "cd" * 32):
        store = DiskBlocks(None, name, 8, 1 << 30)
        assert store.write(Block(b"k" * 16, b"p" * 16, tokens, 1.0, np.ones((BLOCK, 8), np.uint8)))
    table = shell("%sglang cache stored")
    assert {row["model"] for row in table} == {"ab" * 6, "cd" * 6}
    assert [row["tokens"] for row in table] == [64, 64]

    assert shell.fails("%sglang cache forget")[0].endswith("%sglang cache forget needs a name")
    assert "is not a model in" in shell.fails("%sglang cache forget 123")[0]
    capsys.readouterr()
    shell(f"%sglang cache forget {'ab' * 6}")
    assert capsys.readouterr().out == "deleted 0.0 MiB\n"
    assert [row["model"] for row in sgnb.cache.stored()] == ["cd" * 6]
    assert sgnb.cache.forget() > 4096 and not list(sgnb.cache.stored())


def test_durable_pins(shell: Any, engine: Any, capsys: Any, tmp_path: Any) -> None:
    assert "pin does" in " ".join(shell.fails("%sglang cache stats --durable"))
    folder = str(tmp_path / "kv")
    sgnb.load("tiny", disk_cache=folder, max_total_tokens=4096)
    try:
        shell("%%sglang\ns += 'A page about ships. ' * 60 + gen('a', max_tokens=2)")
        run = shell.ns["s"].run_id
        capsys.readouterr()
        shell(f"%sglang cache pin {run} --durable")
        assert "tokens are pinned" in capsys.readouterr().out
        (pin,) = shell("%sglang cache pins")
        assert pin["owner"] == run and pin["tokens"] > 256
        wait_for(lambda: shell("%sglang cache pins")[0]["durable"] == pin["tokens"] // 64 * 64)
        (row,) = sgnb.cache.stored(folder)
        assert list(shell("%sglang cache stored")) == [row], "the folder of the engine"
        assert row["pinned"] == pin["tokens"] // 64 * 64
        shell("%sglang cache restore")
        assert capsys.readouterr().out.endswith("0 tokens were loaded and pinned\n")
        shell("%%sglang\ns += 'Short' + gen('a', max_tokens=2)")
        short = shell.ns["s"].run_id
        assert "has 256 tokens" in shell.fails(f"%sglang cache pin {short} --durable")[0]
        shell("%sglang cache unpin")
        assert not list(sgnb.cache.pins()) and sgnb.cache.stored(folder)[0]["pinned"] == 0
        shell(f"%sglang cache forget {row['model']}")
        assert not list(sgnb.cache.stored(folder))
    finally:
        sgnb.load("tiny")
