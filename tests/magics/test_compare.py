"""`%%sglang --vs` and `sgnb.compare` on the bundled model, by counts."""

from __future__ import annotations

from typing import Any

import pytest

import sgnb
from sgnb.errors import OptionError
from sgnb.magics.complete import cell_words
from sgnb.magics.help_texts import cell_help
from sgnb.magics.session import SESSION

RULES = "Answer in one word. " * 20
FORKS = f"""s += "{RULES}"
forks = s.fork(4)
forks += "Name a city:" + gen("city", max_tokens=3, ignore_eos=True)
forks.join()
s += gen("record", regex=r'{{"city": "(Paris|Rome)", "land": "(France|Italy)"}}')
"""
PLAIN = 's += "A story."\ns += gen("story", max_tokens=3, ignore_eos=True)\n'
LINE = "%%sglang --rounds 1 --show none --temperature 0 --vs "


@pytest.fixture
def cached(shell: Any) -> Any:
    """How many tokens the cache holds; it begins empty."""
    shell("%%sglang -q\ns += 'x'\n")
    sgnb.cache.flush()
    return lambda: sgnb.cache.stats()["cached"]


@pytest.mark.slow
def test_each_variant_does_without_one_technique(shell: Any, cached: Any) -> None:
    report = shell(f"{LINE}nocache,nojump,nofork -o c\n{FORKS}")
    assert shell.ns["c"] is report
    rows = {row["variant"]: row for row in report.rows}
    as_is, nocache, nojump, nofork = rows.values()
    assert list(rows) == ["as it is", "nocache", "nojump", "nofork"]
    assert as_is["cached_tokens"] > as_is["computed_tokens"]
    assert nocache["computed_tokens"] == nocache["prompt_tokens"] == as_is["prompt_tokens"]
    assert as_is["jumped_tokens"] == nofork["jumped_tokens"] > 4
    assert nojump["jumped_tokens"] == 0
    assert nojump["sampled_tokens"] > as_is["sampled_tokens"]
    assert nojump["passes"] > as_is["passes"]
    for row in (nojump, nofork):
        assert row["cached_tokens"] == as_is["cached_tokens"]
    assert all(row["same_text"] and row["note"] == "" for row in rows.values())
    assert {state.text() for state in report.states.values()} == {report.state.text()}
    assert report.lines[0].endswith("each began with an empty cache")
    assert report.lines[1].startswith("nocache: Without the prefix cache it took ")
    assert all(line.endswith("; the same text") for line in report.lines[1:])
    assert cached() == 0, "the notebook's cache stays as it was"


def test_what_a_program_does_not_use_is_not_drawn_as_noise(shell: Any, cached: Any) -> None:
    report = shell(f"{LINE}nocache,nojump,nofork\n{PLAIN}")
    assert [row.get("seconds", 0) > 0 for row in report.rows] == [True, False, False, False]
    assert report.lines[1:] == [
        "nocache: not run, cannot differ: no prompt token was found in the cache",
        "nojump: not run, cannot differ: no token was forced by a grammar",
        "nofork: not run, cannot differ: no step read a prefix once for several requests",
    ]


def test_runs_begin_with_what_the_notebooks_cache_holds(shell: Any, cached: Any) -> None:
    shell(f"%%sglang -q\n{PLAIN}")
    before = cached()
    for _ in range(2):  # the first leaves nothing to the second
        report = shell(f"{LINE}nocache\n{PLAIN}")
        as_is, nocache = report.rows
        assert (as_is["computed_tokens"], nocache["cached_tokens"]) == (1, 0)
        held = as_is["prompt_tokens"] - 1
        assert report.lines[0].endswith(f"prompts from the notebook's cache, {held} tokens")
    assert cached() == before > held


def test_samples_are_the_same_in_every_run(shell: Any) -> None:
    body = 's += "A story."\nforks = s.fork(2)\nforks += gen("x", max_tokens=12)\nforks.join()\n'
    report = shell(f"%%sglang --rounds 2 --show none --temperature 1 --vs nocache\n{body}")
    assert [row["same_text"] for row in report.rows] == [True, True]


def test_a_batch_is_compared_as_a_whole(shell: Any, capsys: Any) -> None:
    body = f's += "{RULES}" + q\ns += gen("a", max_tokens=2, ignore_eos=True)\n'
    line = "%%sglang ask q --over list('abc') --rounds 1 --temperature 0 --vs nocache -o c"
    assert shell(f"{line}\n{body}") is None
    as_is, nocache = shell.ns["c"].rows
    assert nocache["computed_tokens"] > 2 * as_is["computed_tokens"]
    assert [state["a"] for state in shell.ns["c"].state] == [
        state["a"] for state in shell.ns["c"].states["nocache"]
    ]
    out = capsys.readouterr().out
    assert "ask compared with itself" in out and "each began with" in out
    assert out.count("█") > 10


def test_the_python_twin_takes_a_function_or_a_cells_name(shell: Any) -> None:
    @sgnb.function
    def story(s: Any, n: int) -> None:
        s += "A story. " * n + sgnb.gen("story", max_tokens=2, ignore_eos=True, temperature=0)

    report = sgnb.compare(story, 5, vs=["nojump"], rounds=1)
    assert [row["variant"] for row in report.rows] == ["as it is", "nojump"]
    assert repr(report).splitlines()[0] == "story compared with itself"
    batch = sgnb.compare(story, vs=["nocache"], over=[{"n": 9}, {"n": 9}], rounds=1)
    assert batch.rows[1]["computed_tokens"] > batch.rows[0]["computed_tokens"]
    shell("%%sglang tale n:int -q\ns += 'A tale. ' * n + gen('x', max_tokens=1)\n")
    assert sgnb.compare(shell.ns["tale"], n=3, vs=(), rounds=1).rows[0]["passes"] == 1


def test_it_is_a_trace_too(shell: Any, tmp_path: Any) -> None:
    report = shell(f"{LINE}nocache\n{PLAIN}")
    again = sgnb.open_recording(report.recording.save(tmp_path / "compared.jsonl"))
    assert again.states.comparison.rows()[0]["passes"] == report.rows[0]["passes"]
    assert again.text() == repr(report)
    assert sgnb.recording().text() == repr(report)


def test_an_error_ends_it_and_leaves_the_cache_as_it_was(shell: Any, cached: Any) -> None:
    body = 's += "A story."\ns += gen("story", max_tokens=2)\nprint(s["story"])\n1 / 0\n'
    shown = shell.fails(f"{LINE}nocache\n{body}")
    assert shown[0] == "ZeroDivisionError: division by zero"
    assert cached() == 0 and not SESSION.runs.running()


@pytest.mark.parametrize("last", [1, 3])
def test_an_interrupt_is_said(shell: Any, capsys: Any, last: int) -> None:
    """In the run that is not measured, and between two that are."""
    shell.ns["runs"] = []
    body = f"{PLAIN}runs.append(s['story'])\nif len(runs) == {last}: raise KeyboardInterrupt\n"
    shell.fails(f"%%sglang --vs nocache --show compare\n{body}")
    out = capsys.readouterr().out
    assert "stopped before the end" in out and "as it is" in out and "measuring" not in out


def test_what_went_on_beside_is_said(shell: Any) -> None:
    shell(
        "%%sglang -q --bg -o other\ns += 'A story.' + gen('x', max_tokens=3000, ignore_eos=True)\n"
    )
    try:
        report = shell(f"{LINE}nojump\n{PLAIN}")
    finally:
        shell.ns["other"].cancel()
    assert report.lines[0].endswith("; other requests ran at the same time")


@pytest.mark.parametrize(
    "line, message",
    [
        ("--vs nocash", "not a variant"),
        ("--rounds 2", "give it with --vs"),
        ("--vs nocache --rounds 0", "rounds=0 is not allowed"),
        ("--vs nocache --bg", "--bg and --vs exclude each other"),
        ("--vs nocache --dry", "--dry and --vs exclude each other"),
        ("ask q --vs nocache", "has parameters"),
    ],
)
def test_what_cannot_be_compared_is_refused(shell: Any, line: str, message: str) -> None:
    shown = shell.fails(f"%%sglang {line}\ns += 'x'\n")
    assert message in "\n".join(shown) and shown[0].startswith(OptionError.__name__)


def test_the_variants_are_completed_and_in_the_help() -> None:
    assert cell_words(["--vs"], SESSION) == ["nocache", "nojump", "nofork"]
    assert "--vs VARIANTS" in cell_help() and "nocache, nojump, nofork" in cell_help()
