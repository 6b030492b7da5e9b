"""Images, videos and sounds in programs, over executors that take them or do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import sgnb as sgl
from sgnb.errors import MediaError, ProgramError, RecordError
from sgnb.lang import Snapshot, function, gen, select, user
from sgnb.lang.executor import Call, ScoreCall
from sgnb.media import Image, MediaItem, read_image

from .fake import FakeExecutor

RED = np.full((4, 5, 3), (255, 0, 0), np.uint8)
BLUE = np.full((4, 5, 3), (0, 0, 255), np.uint8)
FRAMES = np.stack([RED, BLUE, RED])
TONE = np.sin(np.arange(800) / 5).astype(np.float32)
ALL = frozenset({"image", "video", "audio"})


@pytest.fixture
def sees(make: Any) -> FakeExecutor:
    executor = make()
    executor.modalities = ALL
    return executor


def items(call: Call | ScoreCall) -> list[MediaItem]:
    return [segment.item for segment in call.segments if segment.kind == "media"]


@function
def ask(s: Any, question: str, picture: Any) -> None:
    s += sgl.system("Look closely.")
    s += user("Here: " + sgl.image(picture) + question)
    s += sgl.assistant(gen("answer", max_tokens=8))


def test_an_image_in_a_role(sees: FakeExecutor) -> None:
    state = ask.run("What color?", RED, backend=sees)
    assert state.text().startswith("SYSTEM: Look closely.\nUSER: Here: [image 5×4]What color?\n")
    assert state.messages()[1]["content"] == "Here: [image 5×4]What color?"
    (call,) = sees.calls
    assert items(call) == [Image(RED)]
    assert "".join(segment.text for segment in call.segments) == call.prompt
    kinds = [segment.kind for segment in call.segments]
    assert kinds[kinds.index("media") - 1 :][:3] == ["data", "media", "data"]


def test_media_outside_of_roles(sees: FakeExecutor) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.image(RED)
        s += "a " + sgl.video(FRAMES, num_frames=2) + sgl.audio(TONE, 8000) + " b"
        s += gen("x")

    state = program.run(backend=sees)
    state.sync()
    assert state.text().startswith("[image 5×4]a [video 2 frames 5×4][audio 0.1 s] b")
    assert [item.kind for item in items(sees.calls[0])] == ["image", "video", "audio"]


def test_expressions_are_reusable_and_state_methods_work(sees: FakeExecutor) -> None:
    picture = sgl.image(RED)
    assert sgl.image(RED) == picture != sgl.image(BLUE)

    @function
    def program(s: Any) -> None:
        s.user("First " + picture)
        s.assistant(gen("x"))
        with s.user():
            s += picture
        with s.assistant():
            s += select("y", ["red", "blue"])

    program.run(backend=sees).sync()
    first, second = sees.calls
    assert isinstance(second, ScoreCall)
    assert items(first) == [Image(RED)] and items(second) == [Image(RED)] * 2


def test_forks_and_joins(sees: FakeExecutor) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.image(RED) + " common "
        forks = s.fork(2)
        for fork, array in zip(forks, (RED, BLUE), strict=True):
            fork += sgl.image(array)
            fork += gen("x")
        forks.join("concate_and_append")
        s += gen("y")

    state = program.run(backend=sees)
    state.sync()
    asked = {tuple(items(call)) for call in sees.calls if call.name == "x"}
    assert asked == {(Image(RED), Image(RED)), (Image(RED), Image(BLUE))}
    assert items(sees.calls[-1]) == [Image(RED), Image(RED), Image(BLUE)]
    assert {call.forked for call in sees.calls if call.name == "x"} == {2}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_column_of_images(sees: FakeExecutor, compiled: bool, tmp_path: Path) -> None:
    path = tmp_path / "blue.png"
    PIL.Image.fromarray(BLUE).save(path)
    program = ask.compile() if compiled else ask
    rows = {"question": ["a", "b", "c"], "picture": [RED, str(path), PIL.Image.fromarray(RED)]}
    states = program.run_batch(rows, backend=sees)
    assert all(state["answer"] for state in states)
    asked = {call.prompt.split("]")[1][0]: items(call)[0] for call in sees.calls}
    assert asked == {"a": Image(RED), "b": Image(BLUE), "c": Image(RED)}


def test_a_row_with_a_damaged_image_fails_alone(sees: FakeExecutor) -> None:
    rows = [{"question": "a", "picture": RED}, {"question": "b", "picture": b"GIF89a"}]
    first, second = ask.run_batch(rows, backend=sees)
    assert first["answer"]
    with pytest.raises(MediaError, match=r"test_media.py:\d+: the image in bytes"):
        second.sync()


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_model_of_text_refuses_before_the_call(fake: FakeExecutor, sees: FakeExecutor) -> None:
    line = line_of("gen(" + '"answer", max_tokens=8')
    refusal = rf"test_media.py:{line}: the prompt of gen 'answer' contains an image, and"
    with pytest.raises(
        MediaError,
        match=rf"{refusal} 'FakeExecutor' takes text only\n.*takes images.*modalities=\('image'",
    ):
        ask.run("?", RED, backend=fake)
    assert not fake.calls

    sees.modalities = frozenset({"image"})

    @function
    def listen(s: Any) -> None:
        s += sgl.image(RED) + sgl.audio(TONE, 8000)
        s += select("x", ["a", "b"])

    with pytest.raises(MediaError, match=r"select 'x' contains a sound.*takes text and images"):
        listen.run(backend=sees).sync()


def test_the_check_knows_forks_joins_and_other_backends(
    fake: FakeExecutor, sees: FakeExecutor
) -> None:
    @function
    def forked(s: Any) -> None:
        s += sgl.image(RED)
        s.fork(1)[0].__iadd__(gen("x"))

    @function
    def joined(s: Any) -> None:
        forks = s.fork(2)
        forks[1] += sgl.image(RED)
        forks.join("concate_and_append")
        s += gen("x")

    @function
    def gathered(s: Any) -> None:
        forks = s.fork(1)
        forks[0] += sgl.image(RED) + gen("x", backend=sees)
        forks.join()
        s += gen("y")

    for program in (forked, joined):
        with pytest.raises(MediaError, match="gen 'x' contains an image"):
            program.run(backend=fake).sync()
        program.run(backend=sees).sync()
    state = gathered.run(backend=fake)
    assert state["y"], "values of a branch contain no images"

    with pytest.raises(MediaError, match="the prompt of gen 'answer' contains an image"):
        ask.run("?", RED, backend=[sees, fake]).sync()


def test_errors_of_a_source_name_the_line(sees: FakeExecutor) -> None:
    line = line_of('s += user("Here: ' + '" + sgl.image(picture)')
    for source in ("missing.png", b"", None, np.zeros((2, 2, 2)) - 1, 3):
        with pytest.raises(MediaError, match=rf"test_media.py:{line}: ") as caught:
            ask.run("?", source, backend=sees).sync()
        assert caught.value.hint


def test_a_text_cannot_hold_an_image() -> None:
    for make in (lambda: f"{sgl.image(RED)}", lambda: str(sgl.image(RED))):
        with pytest.raises(ProgramError, match=r"a text cannot hold an image\n.*user\("):
            make()


def test_continuing_and_json(sees: FakeExecutor, make: Any) -> None:
    @function
    def first(s: Any) -> None:
        s += user(sgl.image(RED) + sgl.video(FRAMES) + sgl.audio(TONE, 8000))
        s += sgl.assistant(gen("a"))
        s += sgl.user_begin() + sgl.image(BLUE)

    @function
    def second(s: Any) -> None:
        s += " go on" + sgl.user_end()
        s += sgl.assistant(gen("b"))

    state = first.run(backend=sees)
    snapshot = state.snapshot()
    restored = Snapshot.from_json(snapshot.to_json())
    assert restored.segments == snapshot.segments and restored.text == snapshot.text
    assert restored.role == "user"
    prompts = []
    for initial in (state, snapshot, restored):
        later = second.run(continue_from=initial, backend=sees)
        later.sync()
        assert later.messages()[-2]["content"] == "[image 5×4] go on"
        prompts.append((sees.calls[-1].prompt, items(sees.calls[-1])))
    assert prompts[0] == prompts[1] == prompts[2]
    assert [item.kind for item in prompts[0][1]] == ["image", "video", "audio", "image"]

    with pytest.raises(MediaError, match="gen 'b' contains a"):
        second.run(continue_from=restored, backend=make()).sync()


@pytest.mark.parametrize(
    "change",
    [
        lambda segment: segment.pop("item"),
        lambda segment: segment["item"].pop("digest"),
        lambda segment: segment["item"].update(digest="0" * 64),
        lambda segment: segment["item"].update(content="AAAA"),
        lambda segment: segment["item"].update(kind="audio"),
        lambda segment: segment.update(item=[1]),
    ],
)
def test_damaged_snapshots(sees: FakeExecutor, change: Any) -> None:
    document = json.loads(ask.run("?", RED, backend=sees).snapshot().to_json())
    change(next(s for s in document["segments"] if s.get("kind") == "media"))
    with pytest.raises(RecordError, match="the saved state cannot be read"):
        Snapshot.from_json(json.dumps(document))


def test_a_changed_label_in_json_has_no_effect(sees: FakeExecutor) -> None:
    state = ask.run("?", RED, backend=sees)
    text = state.snapshot().to_json().replace("[image 5×4]", "[image 9×9]")
    assert Snapshot.from_json(text).segments == state.snapshot().segments


def test_programs_of_sglang(
    sees: FakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image and video programs of SGLang's examples."""
    monkeypatch.chdir(tmp_path)
    PIL.Image.fromarray(RED).save("example_image.png")
    images = [PIL.Image.fromarray(frame) for frame in (RED, BLUE) * 8]
    images[0].save("example.gif", save_all=True, append_images=images[1:])

    @sgl.function
    def image_qa(s: Any, question: str) -> None:
        s += sgl.user(sgl.image("example_image.png") + question)
        s += sgl.assistant(sgl.gen("answer"))

    @sgl.function
    def video_qa(s: Any, num_frames: int, video_path: str, question: str) -> None:
        s += sgl.user(sgl.video(video_path, num_frames) + question)
        s += sgl.assistant(sgl.gen("answer"))

    options: Any = {"temperature": 0, "max_new_tokens": 64, "backend": sees}
    state = image_qa.run(question="Please describe this image.", **options)
    assert state.messages()[-1]["content"] == state["answer"]
    state = video_qa.run(
        num_frames=4, video_path="example.gif", question="And this?", stream=True, **options
    )
    assert "".join(state.text_iter("answer")) == state["answer"]
    assert items(sees.calls[0]) == [Image(RED)]
    assert items(sees.calls[1])[0].label == "video 4 frames 5×4"


def test_other_libraries_are_not_measured_with_images(sees: FakeExecutor) -> None:
    from sgnb.benchmark.peers import Transformers
    from sgnb.benchmark.work import Work

    ask.run("?", RED, backend=sees, temperature=0).sync()
    peer = Transformers.__new__(Transformers)
    assert "text only" in peer.refuses(Work(calls=list(sees.calls)))


@pytest.mark.parametrize("value", [RED, read_image(RED), PIL.Image.fromarray(RED)])
def test_an_image_without_the_function(sees: FakeExecutor, value: Any) -> None:
    @function
    def program(s: Any) -> None:
        s += value

    with pytest.raises(ProgramError, match=r"cannot be appended to a program\n.*append image\(x\)"):
        program.run(backend=sees)


def test_saved_rows_know_items_by_their_digest(sees: FakeExecutor, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"

    def run(*arrays: np.ndarray) -> int:
        before = len(sees.calls)
        rows = [{"question": "?", "picture": read_image(array)} for array in arrays]
        ask.run_batch(rows, backend=sees, save=file)
        return len(sees.calls) - before

    assert run(RED, BLUE) == 2
    changed = RED.copy()
    changed[0, 0, 0] -= 1
    assert run(BLUE, RED, changed) == 1, "the changed image only"
    assert Image(RED).digest.hex() in file.read_text()
