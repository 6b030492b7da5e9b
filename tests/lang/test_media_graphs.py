"""Images, videos and sounds in compiled programs: constants with digests, holes for arguments."""

from __future__ import annotations

import contextlib
import io
import json
import random
import warnings
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import sgnb as sgl
from benchmarks.damaged_files import changed
from sgnb.errors import MediaError, ProgramError, RecordError, TraceError
from sgnb.lang import CompiledProgram, Graph, Snapshot, function, gen, select, user
from sgnb.media import Image, read_image

from .fake import FakeExecutor
from .test_media import BLUE, FRAMES, RED, TONE, ask, items
from .test_media import sees as sees


def test_a_graph_with_a_hole_for_an_argument(sees: FakeExecutor) -> None:
    compiled = ask.compile()
    assert "image({picture})" in str(compiled.graph)
    assert compiled.graph.arguments_in_texts == ("picture", "question")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a difference between code and graph would warn
        for source in (RED, BLUE, PIL.Image.fromarray(RED), read_image(BLUE)):
            expected = ask.run("What?", source, backend=sees)
            state = compiled.run("What?", source, backend=sees)
            assert state.text() == expected.text()
            assert sees.calls[-1].segments == sees.calls[-2].segments

    loaded = Graph.from_json(compiled.graph.to_json())
    assert loaded == compiled.graph
    CompiledProgram(loaded).run("What?", BLUE, backend=sees).sync()
    assert items(sees.calls[-1]) == [Image(BLUE)]
    compiled.graph.to_svg()


def test_a_graph_with_a_constant_image(sees: FakeExecutor) -> None:
    @function
    def program(s: Any, question: str) -> None:
        s += user(sgl.image(RED) + sgl.video(FRAMES) + sgl.audio(TONE, 8000) + question)
        s += sgl.assistant(gen("answer"))

    compiled = program.compile()
    assert "image 5×4" in str(compiled.graph)
    text = compiled.graph.to_json()
    assert Image(RED).digest.hex() in text
    loaded = Graph.from_json(text)
    assert loaded == compiled.graph and loaded.to_json() == text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled.run("?", backend=sees).sync()
        CompiledProgram(loaded).run("?", backend=sees).sync()
    program.run("?", backend=sees).sync()
    first, second, third = sees.calls
    assert first.segments == second.segments == third.segments

    changed = json.loads(text)
    damaged = json.dumps(changed).replace(Image(RED).digest.hex(), "0" * 64)
    with pytest.raises(RecordError, match="does not have its digest"):
        Graph.from_json(damaged)


def test_a_constant_image_that_changes_gets_a_graph_of_its_own(sees: FakeExecutor) -> None:
    held = [RED]

    @function
    def program(s: Any, question: str) -> None:
        s += user(sgl.image(held[0]) + question)
        s += sgl.assistant(gen("answer"))

    compiled = program.compile()
    compiled.run("?", backend=sees).sync()
    held[0] = BLUE
    with pytest.warns(UserWarning, match="differs from the compiled graph"):
        compiled.run("?", backend=sees).sync()
    assert [items(call) for call in sees.calls] == [[Image(RED)], [Image(BLUE)]]


def test_called_programs_forks_and_lists_of_frames_in_graphs(sees: FakeExecutor) -> None:
    @function
    def outer(s: Any, picture: Any, other: Any, count: Any) -> None:
        ask(s, "What?", picture)
        forks = s.fork(2)
        forks += sgl.video([picture, other], num_frames=count, fps=2) + gen("x")
        forks.join()

    compiled = outer.compile()
    assert "video([" in str(compiled.graph) and "num_frames={count}" in str(compiled.graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for arguments in ((RED, BLUE, 2), (BLUE, BLUE, 1)):
            outer.run(*arguments, backend=sees).sync()
            plain = [call.segments for call in sees.calls]
            sees.calls.clear()
            compiled.run(*arguments, backend=sees).sync()
            assert [call.segments for call in sees.calls] == plain
            sees.calls.clear()
    Graph.from_json(compiled.graph.to_json())

    @function
    def caller(s: Any, picture: Any) -> None:
        compiled_ask(s, "What?", picture)

    compiled_ask = ask.compile(check=False)
    caller.compile().run(RED, backend=sees).sync()
    assert items(sees.calls[-1]) == [Image(RED)]


def test_a_path_made_of_an_argument(sees: FakeExecutor, tmp_path: Path) -> None:
    PIL.Image.fromarray(BLUE).save(tmp_path / "blue.png")

    @function
    def program(s: Any, name: str) -> None:
        s += sgl.image(f"{tmp_path}/{name}.png") + gen("x")

    compiled = program.compile()
    compiled.run("blue", backend=sees).sync()
    assert items(sees.calls[-1]) == [Image(BLUE)]
    with pytest.raises(MediaError, match=r"test_media_graphs.py:\d+: the file .*/red.png"):
        compiled.run("red", backend=sees).sync()


def test_a_saved_graph_names_no_files(tmp_path: Path) -> None:
    """Graphs come from other people: only arguments of a run select files and URLs."""

    @function
    def composed(s: Any, name: str) -> None:
        s += sgl.image(f"{tmp_path}/{name}.png")

    @function
    def with_default(s: Any, picture: str = "/home/user/secret.png") -> None:
        s += sgl.image(picture)

    @function
    def generated(s: Any) -> None:
        s += select("path", ["/home/user/secret.png", "b"])
        s += sgl.image(s["path"])

    for program in (composed, with_default, generated):
        with pytest.raises(ProgramError, match="cannot be saved: image"):
            program.trace().to_json()

    text = ask.trace().to_json()
    graph = json.loads(text)

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            if "UnreadMedia" in value:
                kind, _, options = value["UnreadMedia"]
                return {"UnreadMedia": [kind, "/home/user/secret.png", options]}
            return {key: replaced(item) for key, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list) else value

    with pytest.raises(RecordError, match="reads a file that no argument names"):
        Graph.from_json(json.dumps(replaced(graph)))
    with pytest.raises(RecordError):
        Graph.from_json(text.replace('"fetch"', '"other"'))


def test_a_trace_refuses_to_open_an_argument() -> None:
    @function
    def program(s: Any, picture: Any) -> None:
        s += sgl.image(PIL.Image.open(io.BytesIO(picture.read())))

    with pytest.raises(TraceError, match="needs the value of the argument 'picture'"):
        program.trace()


def test_the_constant_prefix_contains_a_constant_image(sees: FakeExecutor) -> None:
    from sgnb.lang.graph.code_motion import constant_prefix

    @function
    def program(s: Any, question: str) -> None:
        s += user("Look: " + sgl.image(RED) + question)

    prefix = constant_prefix(program.trace(), sees)
    assert [s.item for s in prefix if s.kind == "media"] == [Image(RED)]
    assert constant_prefix(ask.trace(), sees)[-1].text == "Here: "


def test_bounds_and_explain_count_by_the_executor(sees: FakeExecutor, fake: FakeExecutor) -> None:
    ask.compile().bounds("What?", RED, backend=sees)
    explanation = ask.compile().explain("What?", RED, backend=sees)
    assert "answer" in str(explanation)
    with pytest.raises(MediaError, match="contains an image"):
        ask.compile().bounds("What?", RED, backend=fake)
    assert not sees.calls


def test_reserved_names_of_sglang() -> None:
    from sgnb.lang.ir import SglImage, SglVideo

    assert isinstance(sgl.image(RED), SglImage) and isinstance(sgl.video(FRAMES), SglVideo)


def test_an_expression_of_a_trace_is_refused_in_a_run(sees: FakeExecutor) -> None:
    stored = []

    @function
    def keep(s: Any, picture: Any) -> None:
        stored.append(sgl.image(picture))

    @function
    def use(s: Any) -> None:
        s += stored[0]

    with pytest.warns(UserWarning, match="effect"):
        keep.trace()
    with pytest.raises(ProgramError, match=r"image\(\) was called in a trace"):
        use.run(backend=sees).sync()


def test_a_cached_prefix_needs_a_model_that_takes_the_image(
    sees: FakeExecutor, fake: FakeExecutor
) -> None:
    filled: list[Any] = []

    @function
    def program(s: Any, question: str) -> None:
        s += sgl.image(RED) + question + gen("x")

    for executor in (sees, fake):
        executor.fill_cache = filled.extend  # type: ignore[attr-defined]
    assert program.cache(backend=sees) == len("[image 5×4]".encode()) and len(filled) == 1
    with pytest.raises(MediaError, match="the prefix of program contains an image"):
        program.compile().cache(backend=fake)
    with pytest.raises(MediaError, match="the prompt of gen 'x' contains an image"):
        program.cache(backend=fake)
    assert len(filled) == 1


def test_arguments_of_many_bytes_are_shown_by_their_beginning(sees: FakeExecutor) -> None:
    from sgnb.events import ProgramCalled

    @function
    def program(s: Any, data: bytes) -> None:
        s += "x"

    program.run(b"\x89" * 10_000_000, backend=sees).sync()
    (event,) = sees.events(ProgramCalled)
    assert len(event.arguments) < 100


@pytest.mark.parametrize("kind", ["snapshot", "graph"])
def test_changed_records_with_media(sees: FakeExecutor, kind: str) -> None:
    @function
    def program(s: Any, picture: Any) -> None:
        s += user(sgl.image(RED) + sgl.video(FRAMES, num_frames=2) + sgl.audio(TONE[:50], 8000))
        s += sgl.image(picture)

    if kind == "graph":
        original, read = program.trace().to_json(), Graph.from_json
    else:
        state = program.run(BLUE, backend=sees)
        original, read = state.snapshot().to_json(), Snapshot.from_json
    rng, answers = random.Random(kind), 0
    for _ in range(500):
        data = changed(original.encode(), rng).decode("utf-8", "surrogateescape")
        with contextlib.suppress(RecordError):
            repr(read(data))
            answers += 1
    assert 0 < answers < 400
