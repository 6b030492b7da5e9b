"""Cells on a model behind an API."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")

import sgnb
from sgnb.errors import OptionError
from sgnb.events import RequestFinished, RequestQueued, TextStreamed
from tests.backends.service import KEY, Fault, Service


@pytest.fixture
def service(shell):
    with Service(lambda request: "one two three", delay=0.01) as service:
        model = sgnb.OpenAI("model", base_url=service.url, api_key=KEY, tries=1)
        sgnb.set_default_backend(model)
        yield service
        sgnb.load("tiny")


CELL = """%%sglang --static
s += user("Count.") + assistant(gen("a"))
for fork in s.fork(2):
    fork += user("More.") + assistant(gen("b"))
"""


def test_a_cell_draws_its_branches_and_calls(shell, service, capsys) -> None:
    shell(CELL)
    shown = capsys.readouterr().out
    assert "prompt + 9 new tokens" in shown
    assert shown.count("ASSISTANT: one two three") == 3
    assert shell("s['a']") == "one two three"
    model = shell("import sgnb; sgnb.global_config.default_backend")
    events = [record.event for record in model.log.read().records]
    assert sum(isinstance(event, RequestQueued) for event in events) == 3
    finished = [event for event in events if isinstance(event, RequestFinished)]
    assert [event.output_tokens for event in finished] == [3, 3, 3]
    assert {event.line for event in events if isinstance(event, RequestQueued)} == {2, 4}
    assert "OpenAI" in repr(sgnb.runs())


def test_an_error_of_the_service_ends_the_cell(shell, service) -> None:
    service.fail(Fault("status", 400))
    lines = shell.fails(CELL)
    assert lines[0].startswith(f"ServiceError: the service of 'model' at {service.url} refused")
    assert KEY not in "".join(lines)


def test_what_needs_an_engine_says_so(shell, service) -> None:
    for what in ("sgnb.cache.stats()", "sgnb.dry(sgnb.function(lambda s: None))"):
        with pytest.raises(OptionError, match="is not an engine in this process"):
            shell(f"import sgnb; {what}")
    sgnb.load("tiny")
    assert sgnb.cache.stats()


def test_a_streamed_text_is_told_as_it_comes(service) -> None:
    model = sgnb.global_config.default_backend

    @sgnb.function
    def ask(s):
        s += sgnb.user("Count.") + sgnb.assistant(sgnb.gen("a"))

    ask.run(stream=True).sync()
    pieces = [r.event.text for r in model.log.read().records if isinstance(r.event, TextStreamed)]
    assert pieces == ["one", " two", " three"]
