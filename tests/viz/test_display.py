"""What a cell or a terminal gets, with the front end replaced by a list of what was sent to it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from sgnb import events
from sgnb.errors import OptionError
from sgnb.events import EventLog, decode
from sgnb.magics.cache import EngineView
from sgnb.viz import Display, Emitter, LogState, Recording, RunState, render_text
from sgnb.viz.live import display
from tests.viz.make_log import HOSTILE, Program, WordEngine, demo

pytest.importorskip("anywidget")


class Handle:
    def __init__(self, shown: list[Any]) -> None:
        self.shown = shown

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        self.shown.append(bundle)


class Comm:
    """Keeps what the kernel's half of a widget sends."""

    made: list[Comm] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, data: dict[str, Any], **_: Any) -> None:
        self.comm_id = f"comm{len(self.made)}"
        self.opened = data["state"]
        self.sent: list[dict[str, Any]] = []
        self.handler: Any = None
        self.made.append(self)

    def on_msg(self, handler: Any) -> None:
        self.handler = handler

    def send(self, data: dict[str, Any], buffers: Any = None, **_: Any) -> None:
        self.sent.append({**data, "buffers": buffers})

    def close(self, *_: Any, **__: Any) -> None:
        """A page that is gone."""

    def messages(self) -> list[tuple[int, list[str]]]:
        """The number of the first line, and the lines."""
        return [
            (data["content"]["from"], bytes(data["buffers"][0]).decode().splitlines())
            for data in self.sent
            if data["method"] == "custom"
        ]

    def records(self) -> list[dict[str, Any]]:
        return [data["state"]["records"] for data in self.sent if data["method"] == "update"]

    def ask(self, content: dict[str, Any]) -> None:
        self.handler({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})


def live_view() -> Comm:
    """The comm of the only one; ipywidgets makes one for its layout as well."""
    (comm,) = (comm for comm in Comm.made if "records" in comm.opened)
    return comm


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Pretends a kernel; the list gets everything that is displayed."""
    out: list[Any] = []

    def show(thing: Any, raw: bool = False, display_id: str = "", metadata: Any = None) -> Handle:
        out.append(thing)
        return Handle(out)

    Comm.made.clear()
    monkeypatch.delenv("SGNB_STATIC", raising=False)
    monkeypatch.setattr(display, "in_kernel", lambda: True)
    monkeypatch.setattr("IPython.display.display", show)
    monkeypatch.setattr("comm.create_comm", lambda target_name, **kw: Comm(**kw))
    return out


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def emitter(log: EventLog) -> Iterator[Emitter]:
    emitter = Emitter(log)
    yield emitter
    emitter.close()


def test_a_button_of_a_view_asks_the_kernel_and_is_answered(
    emitter: Emitter, shown: list[Any]
) -> None:
    asked: list[tuple[str, int]] = []

    def act(action: str, node: int) -> str:
        asked.append((action, node))
        if node == 9:
            raise OptionError("the cache has no node 9")
        return "done"

    view = Display(emitter, ["tree"], act=act)
    view.open()
    comm = live_view()
    assert comm.opened["controls"] is True
    hostile = [("flush", 1), ("pin", "1"), ("pin", True), ("pin", None), (None, 1)]
    for id, (action, node) in enumerate([("pin", 4), ("evict", 9), *hostile]):
        comm.ask({"kind": "act", "id": id, "action": action, "node": node})
    answers = [data["content"] for data in comm.sent if "answer" in data.get("content", {})]
    assert answers[0] == {"answer": 0, "text": "done", "failed": False}
    assert answers[1] == {"answer": 1, "text": "the cache has no node 9", "failed": True}
    assert [answer["failed"] for answer in answers[2:]] == [True] * len(hostile)
    assert asked == [("pin", 4), ("evict", 9)]
    view.close()
    comm.ask({"kind": "act", "id": 7, "action": "unpin", "node": 4})
    assert asked[-1] == ("unpin", 4), "after its run too"


def test_messages_of_other_threads_belong_to_the_cell_of_the_view(
    log: EventLog, emitter: Emitter, shown: list[Any]
) -> None:
    request = ContextVar("request", default="none")
    request.set("the cell")
    parents: list[tuple[str, str]] = []
    view = Display(emitter, ["tree"], act=lambda action, node: "done")
    view.open()
    comm = live_view()
    send = comm.send

    def record_parent(data: dict[str, Any], buffers: Any = None) -> None:
        parents.append((data["method"], request.get()))
        send(data, buffers)

    comm.send = record_parent  # type: ignore[method-assign]
    request.set("a later request")
    list(demo(log))
    emitter.flush()
    comm.ask({"kind": "act", "id": 1, "action": "pin", "node": 4})
    comm.ask({"kind": "resync"})
    view.close()
    assert set(parents) == {("custom", "the cell"), ("update", "the cell")}


def test_without_an_engine_there_are_no_buttons(emitter: Emitter, shown: list[Any]) -> None:
    view = Display(emitter, ["tree"])
    view.open()
    comm = live_view()
    assert comm.opened["controls"] is False
    comm.ask({"kind": "act", "id": 0, "action": "pin", "node": 1})
    assert not [data for data in comm.sent if "answer" in data.get("content", {})]
    view.close()


def test_a_live_view_then_the_twin(log: EventLog, emitter: Emitter, shown: list[Any]) -> None:
    run = Display(emitter)
    run.open("r1")
    style, _, twin = shown
    assert "sgnb-static" in style["application/javascript"] and style["text/plain"] == ""
    assert f"sgnb-static-{run.uid}" in twin["image/svg+xml"]
    assert list(shown[1]) == ["application/vnd.jupyter.widget-view+json"]
    for _ in demo(log):
        run.tick()
    run.close()
    comm = live_view()
    lines: list[str] = comm.opened["records"]["lines"].splitlines()
    for start, new in comm.messages():
        assert start == len(lines)
        lines += new
    first, *_, last = comm.records()
    assert first["live"] and not last["live"] and last["lines"].splitlines() == lines
    assert comm.opened["run"] == "r1"
    assert [decode(line).event for line in lines if "StepRan" in line] == [
        record.event for record in log.read().records if isinstance(record.event, events.StepRan)
    ]
    assert "80 new tokens" in shown[-1]["text/plain"] and shown[-1]["text/plain"] == run.text()


def test_an_error_that_the_cell_shows_is_no_part_of_the_views(
    log: EventLog, emitter: Emitter, shown: list[Any]
) -> None:
    def show(reported: bool) -> str:
        display = Display(emitter, ("text",))
        display.open("r1")
        program = Program(WordEngine(log))
        program.branch("0")
        program.end("0", "ValueError: bad")
        program.finish("error", "ValueError: bad")
        display.close(reported)
        assert live_view().records()[-1]["reported"] is reported
        Comm.made.clear()
        return str(shown[-1]["text/plain"])

    assert show(reported=False).count("ValueError: bad") == 1
    text = show(reported=True)
    assert "error" in text and "ValueError" not in text


def test_a_view_says_that_it_lives(
    log: EventLog, emitter: Emitter, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sgnb.viz.live import widget

    monkeypatch.setattr(widget, "HEARTBEAT", 0.0)
    run = Display(emitter)
    run.open()
    emitter.flush()
    before = len(live_view().messages())
    emitter.flush()
    assert live_view().messages()[before:] == [(len(run.feed.lines), [])]  # type: ignore[union-attr]
    run.close()


def test_a_page_that_missed_something_gets_everything(
    log: EventLog, emitter: Emitter, shown: list[Any]
) -> None:
    view = Display(emitter, ["tree"])
    view.open()
    list(demo(log))
    emitter.flush()
    comm = live_view()
    comm.ask({"kind": "resync"})
    whole = comm.records()[-1]["lines"]
    assert whole.count("NodeAdded") == sum(
        isinstance(record.event, events.NodeAdded) for record in log.read().records
    )
    view.close()
    before = comm.records()[-1]
    list(demo(log, "r2"))
    emitter.flush()
    comm.ask({"kind": "resync"})
    assert comm.records()[-1] == before, "a closed view keeps what it had when it was closed"


def test_static_shows_the_twin_only(
    log: EventLog, emitter: Emitter, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGNB_STATIC", "1")
    run = Display(emitter, ["text"])
    run.open("r1")
    list(demo(log))
    run.close()
    run.close()
    assert len(shown) == 2 and not Comm.made and "three_tips" in shown[-1]["text/plain"]
    assert run.feed is not None
    traced = Recording(run.feed.lines, "r1")._repr_mimebundle_()
    assert set(traced) == {"image/svg+xml", "text/plain"}, "no widget, which nobody would see"
    assert "three_tips" in traced["text/plain"]


def test_a_picture_of_the_engine_stays_as_it_was(
    log: EventLog, emitter: Emitter, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGNB_STATIC", "1")
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    loaded = SimpleNamespace(emitter=emitter, act=None)
    view = EngineView(SimpleNamespace(backend=lambda: loaded), ["tree"])
    view()
    before = len(shown)
    list(demo(log))
    view()
    texts = [bundle["text/plain"] for bundle in shown]
    assert len(texts) == 2 * before, "the first picture is not drawn anew"
    assert all("0 nodes" in text for text in texts[:before])
    assert all("12 nodes" in text for text in texts[before:])


def test_a_failing_view_is_a_line_and_the_run_goes_on(
    log: EventLog,
    emitter: Emitter,
    shown: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Comm, "send", lambda *_, **__: 1 / 0)
    run = Display(emitter, ["tree"])
    run.open("r1")
    list(demo(log))
    emitter.flush()
    run.tick()
    run.tick()
    assert capsys.readouterr().err.count("view stopped: ZeroDivisionError") == 1
    run.close()
    assert "radix tree: 12 nodes" in shown[-1]["text/plain"]


def test_without_the_widget_packages_the_twin_still_comes(
    log: EventLog,
    emitter: Emitter,
    shown: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "sgnb.viz.live.widget", raising=False)
    Display(emitter).open("r1")
    assert len(shown) == 1 and "view stopped: ModuleNotFoundError" in capsys.readouterr().err


def test_in_a_terminal(log: EventLog, emitter: Emitter, capsys: pytest.CaptureFixture[str]) -> None:
    run = Display(emitter)
    run.open("r1")
    list(demo(log))
    run.close()
    out = capsys.readouterr().out
    assert (
        out.count("three_tips · done") == 1
        and "radix tree: 12 nodes" in out
        and "hit rate 90%" in out
    )
    assert run.feed is not None
    assert "three_tips · done" in Recording(run.feed.lines, "r1").text(), "without a notebook"


def test_a_terminal_shows_the_rows_of_a_batch(log: EventLog) -> None:
    from rich.console import Console

    program = Program(WordEngine(log), title="yes or no", total=2)
    for name in ("0", "1"):
        program.branch(name)
        program.add(name, "Say")
        list(program.gen(name, "a", f" answer {name}"))
        program.end(name)
    out = io.StringIO()
    Console(file=out, width=100).print(render_text(LogState(log.read().records).runs["r1"]))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["0", "0%", "1", "2", "answer", "0"] in [line[:4] + line[6:] for line in lines]
    assert ["Say"] in lines


def test_a_live_terminal_keeps_the_newest_lines_in_sight() -> None:
    from rich.console import Console
    from rich.text import Text

    from sgnb.viz.live.terminal import Tail

    out = io.StringIO()
    Console(file=out, width=40, height=10).print(
        Tail(Text("\n".join(f"line {i}" for i in range(50))))
    )
    assert out.getvalue().split("\n") == [*(f"line {i}" for i in range(41, 50)), ""]


def test_a_live_terminal_streams_and_cannot_be_steered(
    log: EventLog, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from sgnb.viz.live import terminal
    from sgnb.viz.live.terminal import TerminalView

    monkeypatch.setattr(terminal, "REDRAW_SECONDS", 0.0)
    out = io.StringIO()
    run = RunState("r1", emitter.trees)
    emitter.follow(run)
    view = TerminalView(
        [run, emitter.tree], Console(file=out, force_terminal=True, width=100, height=40)
    )
    for _ in demo(log):
        emitter.flush()
        view.refresh()
    assert out.getvalue().count("three_tips") > 1, "it was drawn while it ran"
    view.end()
    assert (
        "<img onerror=" in out.getvalue()
        and "\u202e" not in out.getvalue()
        and HOSTILE[-3:] in out.getvalue()
    )


def test_mistakes_name_the_cure(log: EventLog, emitter: Emitter) -> None:
    with pytest.raises(OptionError, match=r"'tre'.*\n.*did you mean 'tree'"):
        Display(emitter, ["tre"])


def test_showing_nothing_is_possible(log: EventLog, emitter: Emitter, shown: list[Any]) -> None:
    run = Display(emitter, [])
    run.open("r1")
    list(demo(log))
    run.close()
    assert shown == [] and not Comm.made


def test_import_is_light() -> None:
    code = (
        "import sgnb.viz, sys; print({'IPython', 'ipywidgets', 'anywidget', 'rich', "
        "'torch'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
