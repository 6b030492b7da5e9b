"""Strings that no message can contain: the same typed error in this process and with a host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.request.request_state import Origin
from sgnb.errors import GrammarError, OptionError, RequestError, SgnbError
from sgnb.events import RequestFinished
from sgnb.events.program_kinds import PROGRAM_KINDS
from sgnb.sampling import SamplingParams

from .conftest import TOKEN, dial, wait_until

HALF = "a\ud800b"
ONE = SamplingParams(max_new_tokens=1)


@pytest.fixture(scope="module")
def remote(address: str, tokenizer: Any) -> Iterator[RemoteEngine]:
    with RemoteEngine(dial(address), TOKEN, "test", tokenizer) as remote:
        yield remote


def generate(**options: Any) -> Callable[[Any], Any]:
    return lambda engine: engine.generate("x", max_new_tokens=1, **options)


def submit(**options: Any) -> Callable[[Any], Any]:
    return lambda engine: engine.submit(["x"], [ONE], [print], **options)


def half(place: str) -> str:
    return f"{place} contains half of a surrogate pair, '\\ud800'"


NAMESPACE = half("namespace='a\\ud800b'")

CALLS: dict[str, tuple[Callable[[Any], Any], type[SgnbError], str]] = {
    "prompt": (lambda engine: engine.generate(HALF), RequestError, "character 1 of the prompt"),
    "stop": (generate(stop=[HALF]), OptionError, half("stop=['a\\ud800b']")),
    "stop_regex": (generate(stop_regex=HALF), OptionError, half("stop_regex='a\\ud800b'")),
    "thinking": (
        generate(regex="a", thinking=HALF),
        OptionError,
        half("thinking='a\\ud800b'"),
    ),
    "regex": (generate(regex=HALF), GrammarError, half("regex")),
    "ebnf": (generate(ebnf=HALF), OptionError, half("ebnf='a\\ud800b'")),
    "schema": (
        generate(json_schema={"properties": {HALF: {}}}),
        GrammarError,
        half("json_schema"),
    ),
    "flush": (lambda engine: engine.flush_cache(HALF), OptionError, NAMESPACE),
    "pin": (lambda engine: engine.pin("x", namespace=HALF), OptionError, NAMESPACE),
    "owner": (
        lambda engine: engine.pin("x", owner=HALF),
        OptionError,
        half("owner='a\\ud800b'"),
    ),
    "unpin": (lambda engine: engine.unpin(owner=HALF), OptionError, half("owner='a\\ud800b'")),
    "export": (lambda engine: engine.export_prefix("x", HALF), OptionError, NAMESPACE),
    "transport": (
        lambda engine: engine.export_prefix("x", transport=HALF),
        OptionError,
        half("transport='a\\ud800b'"),
    ),
    "adopt": (
        lambda engine: engine.adopt_prefix(engine.export_prefix("x"), HALF),
        OptionError,
        NAMESPACE,
    ),
    "run": (lambda engine: engine.why_waiting(HALF), OptionError, half("run='a\\ud800b'")),
    "policy": (
        lambda engine: engine.switch(schedule_policy=HALF),
        OptionError,
        half("schedule_policy='a\\ud800b'"),
    ),
    "scope": (submit(cache_scopes=[CacheScope(HALF)]), OptionError, "cache_scopes=CacheScope("),
    "origin": (submit(origins=[Origin(branch=HALF)]), OptionError, "origins=Origin("),
}


@pytest.mark.parametrize("name", CALLS)
def test_half_of_a_surrogate_pair(engine: Engine, remote: RemoteEngine, name: str) -> None:
    call, kind, message = CALLS[name]
    errors = []
    for each in (engine, remote):
        with pytest.raises(kind) as raised:
            call(each)
        errors.append(raised.value)
        assert each.generate("x", max_new_tokens=1).token_ids
    near, far = errors
    assert message in near.message and near.hint
    assert (near.message, near.hint) == (far.message, far.hint)


def test_variables_have_whole_names() -> None:
    for expression in (sgl.gen, lambda name: sgl.select(name, choices=["a", "b"])):
        with pytest.raises(OptionError, match=r"name='a.ud800b' contains half"):
            expression(HALF)


def test_source_paths_outside_of_utf_8(engine: Engine, remote: RemoteEngine) -> None:
    """Such a path has no influence on a run."""
    source = "def program(s):\n    s += 'x' + sgl.gen('word', max_tokens=2)\n"
    names: dict[str, Any] = {"sgl": sgl}
    exec(compile(source, os.fsdecode(b"/\xff/program.py"), "exec"), names)
    program = sgl.function(names["program"])
    for each in (engine, remote):
        assert program.run(backend=each)["word"]


def test_clients_receive_no_programs_of_the_engines_process(
    engine: Engine, remote: RemoteEngine
) -> None:
    """A notebook that shares the engine has runs with the names of the client's runs, and texts
    that no message can contain."""

    @sgl.function
    def private(s: Any, text: str) -> None:
        s += text + sgl.gen("word", max_tokens=2)

    before = remote.log.last
    assert private.run("private", backend=engine)["word"]
    assert private.run(HALF, backend=engine).error()
    assert remote.generate("x", max_new_tokens=1).token_ids

    def kinds() -> set[type]:
        return {type(record.event) for record in remote.log.read(before).records}

    wait_until(lambda: RequestFinished in kinds())
    assert kinds().isdisjoint(PROGRAM_KINDS.values())
