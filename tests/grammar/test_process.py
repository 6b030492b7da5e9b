"""Grammars lowered in another process: answers, errors, bounds, death, interrupts, forks."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgnb.errors import GrammarError
from sgnb.grammar import process as module
from sgnb.grammar.automaton.build_limits import Recursive, TooLarge
from sgnb.grammar.compiler import GrammarCompiler, compile_spec
from sgnb.grammar.lowering import lower, lower_if_small
from sgnb.grammar.process import DiedError, Processes
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([value]) for value in range(256)])
REGULAR = GrammarSpec("regex", "(one|two){1,3}")
LOGICAL = GrammarSpec("json_schema", json.dumps({"allOf": [{"anyOf": [{}, {"not": {}}]}] * 6}))


@pytest.fixture(scope="module")
def warm() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.end()


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.end()


def pid(processes: Processes) -> int:
    [process] = processes._started
    return process._popen.pid


def test_what_comes_back_is_what_is_made_here(warm: Processes) -> None:
    found, here = warm.lower(REGULAR), lower(REGULAR)
    assert found.automaton is not None and here.automaton is not None
    assert found.to_bytes() == here.to_bytes()
    tree = json.dumps({"type": "array", "items": {"$ref": "#"}})
    for spec in (GrammarSpec("json_schema", tree), GrammarSpec("ebnf", 'start: "a" start? "b"')):
        assert warm.lower(spec) == lower(spec)
    assert len(warm._started) == 1


@pytest.mark.parametrize(
    "spec",
    [
        GrammarSpec("regex", "a(?<=b)"),
        GrammarSpec("json_schema", '{"properties": {"a": {"type": "strin"}}}'),
        GrammarSpec("json_schema", '{"items": {"minimum": 3, "maximum": 2, "type": "integer"}, '
                    '"minItems": 1, "type": "array"}'),
        GrammarSpec("ebnf", 'root ::= "a'),
    ],
)  # fmt: skip
def test_errors_are_those_made_here(warm: Processes, spec: GrammarSpec) -> None:
    with pytest.raises(GrammarError) as here:
        lower(spec)
    with pytest.raises(GrammarError) as there:
        warm.lower(spec)
    assert type(there.value) is type(here.value) and str(there.value) == str(here.value)
    assert there.value.hint == here.value.hint


def test_every_kind_of_error_survives_the_pipe() -> None:
    for error in (GrammarError("a", "b"), TooLarge("a", "b"), Recursive("x"), DiedError("a", "b")):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error) and vars(back) == vars(error) and str(back) == str(error)


def test_a_free_worker_is_used_before_another_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    pool = Processes()
    try:
        for _ in range(3):
            pool.lower(REGULAR)
        assert len(pool._started) == 1
    finally:
        pool.end()


def test_a_bound_on_every_stage(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here while translating, where nothing else looks at the clock."""
    begin = "import sgnb.grammar.process as p; p.SECONDS = 0.1; "
    begin += "p.lower = lambda spec: [0 for _ in iter(int, 1)];"
    monkeypatch.setattr(module, "_BEGIN", module._BEGIN.replace("from", begin + " from", 1))
    monkeypatch.setattr(module, "SECONDS", 0.1)
    with pytest.raises(GrammarError, match=r"the regex took more than 0\.1 s") as raised:
        processes.lower(REGULAR)
    assert "fewer alternatives" in raised.value.hint and not isinstance(raised.value, DiedError)
    monkeypatch.undo()
    assert processes.lower(REGULAR).automaton is not None  # in the next process


def test_one_that_dies_is_an_error_and_the_next_works(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "import os, sgnb.grammar.process as p; p.lower = lambda spec: os.abort();"
    monkeypatch.setattr(module, "_BEGIN", module._BEGIN.replace("from", begin + " from", 1))
    with pytest.raises(DiedError, match="ended early") as raised:
        processes.lower(REGULAR)
    assert "memory" in raised.value.hint
    monkeypatch.undo()
    assert processes.lower(REGULAR).automaton is not None


def test_no_answer_in_time_is_an_error(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.lower(REGULAR)
    os.kill(pid(processes), signal.SIGSTOP)
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with pytest.raises(DiedError):
        processes.lower(REGULAR)


def test_one_that_went_idle_is_started_again(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "import sgnb.grammar.process as p; p.IDLE = 0.1;"
    monkeypatch.setattr(module, "_BEGIN", module._BEGIN.replace("from", begin + " from", 1))
    processes.lower(REGULAR)
    [first] = processes._started
    first._popen.wait(10)
    assert first.was_idle
    monkeypatch.undo()
    monkeypatch.setattr(module._Process, "is_alive", True)  # nobody looked since
    assert processes.lower(REGULAR).automaton is not None


def test_a_compiler_tries_again_after_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [DiedError("gone"), lower(REGULAR)]

    def answer(spec: GrammarSpec) -> object:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("sgnb.grammar.compiler.lower_if_small", lambda spec: None)
    monkeypatch.setattr("sgnb.grammar.compiler.processes.lower", answer)
    grammars = GrammarCompiler(lambda: BYTES)
    with pytest.raises(DiedError):
        grammars.compile(REGULAR).result()
    assert grammars.compile(REGULAR).result().compiled.automaton is not None
    grammars.close()


@pytest.mark.parametrize("interpreter", ["", "/nothing/python", "/bin/true", "/bin/echo"])
def test_without_a_process_it_is_done_here(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    assert processes.lower(REGULAR).automaton is not None
    assert not processes._started
    monkeypatch.undo()
    assert processes.lower(REGULAR).automaton is not None and not processes._started  # for good


def test_an_interrupt_ends_the_wait_alone(warm: Processes) -> None:
    warm.lower(REGULAR)
    first = pid(warm)
    os.kill(first, signal.SIGSTOP)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        warm.lower(REGULAR)
    os.kill(first, signal.SIGCONT)
    assert warm.lower(REGULAR).automaton is not None
    assert pid(warm) == first


def test_small_ones_start_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    monkeypatch.setattr("sgnb.grammar.compiler.processes.lower", lambda spec: pytest.fail("asked"))
    tree = json.dumps({"type": "array", "items": {"$ref": "#"}})
    for spec in (REGULAR, GrammarSpec("json_schema", tree), GrammarSpec("ebnf", 'start: "a"')):
        compile_spec(spec)
    assert lower_if_small(LOGICAL) is None
    assert lower_if_small(GrammarSpec("regex", "a" * 2000)) is None
    assert lower_if_small(GrammarSpec("regex", "(a|b)*a(a|b){14}")) is None


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_the_interpreter_and_runs_nothing_of_main(tmp_path: Path, end: str) -> None:
    """`__main__` has no guard: were it run again, it would be heard."""
    script = tmp_path / "main.py"
    script.write_text(
        "print('main')\n"
        "from sgnb.grammar.process import processes\n"
        "from sgnb.grammar.spec import GrammarSpec\n"
        "processes.lower(GrammarSpec('regex', 'a'))\n"
        f"print([p._popen.pid for p in processes._started][0], flush=True)\n{end}\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    said, number = done.stdout.split()
    assert said == "main"
    until = time.monotonic() + 60
    while is_running(int(number)):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_it_imports_no_torch() -> None:
    code = (
        "import sys; from sgnb.grammar.process import _answer; "
        "from sgnb.grammar.spec import GrammarSpec; _answer(GrammarSpec('regex', 'a')); "
        "print('torch' in sys.modules)"
    )
    assert run(code).stdout.split() == ["False"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_has_its_own() -> None:
    code = """
import os
from sgnb.grammar.process import processes
from sgnb.grammar.spec import GrammarSpec
spec = GrammarSpec('regex', 'a')
processes.lower(spec)
[old] = [process._popen.pid for process in processes._started]
child = os.fork()
if not child:
    assert not processes._started
    processes.lower(spec)
    [new] = processes._started
    assert new._popen.pid != old
    processes.end()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
processes.lower(spec)
assert [process._popen.pid for process in processes._started] == [old]
print('fine')
"""
    assert run(code).stdout.split() == ["fine"]


@pytest.mark.slow
def test_hard_schemas_are_not_computed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    properties = {f"property{number}": {"type": "string"} for number in range(250)}
    hard = {"type": "object", "properties": properties}
    specs = [GrammarSpec("json_schema", json.dumps({**hard, "title": str(i)})) for i in range(5)]
    began = time.thread_time()
    lower(specs[0])
    alone = time.thread_time() - began
    compile_spec(specs[0])  # starts the process
    began = time.process_time()
    assert all(compile_spec(spec).lark for spec in specs[1:])
    assert time.process_time() - began < 0.3 * 4 * alone
