"""Images, videos and sounds on services: content parts, SGLang's data, and errors before a call."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api.media_parts import content_parts, image_urls, text_prompt
from sgnb.backends.api.sglang import read_media_tokens
from sgnb.errors import MediaError, OptionError, RequestError
from sgnb.lang.chat import ChatTemplate
from sgnb.lang.executor import ScoreCall
from sgnb.media import Audio, Image, read_audio, read_image

from .service import KEY, Service, started

RED = np.full((4, 5, 3), (255, 0, 0), np.uint8)
BLUE = np.full((4, 5, 3), (0, 0, 255), np.uint8)
TONE = np.sin(np.arange(800) / 5).astype(np.float32)


@sgl.function
def ask(s, question="What is this?", picture=RED, **options):
    s += sgl.system("Be short.")
    s += sgl.user("Look: " + sgl.image(picture) + question)
    s += sgl.assistant(sgl.gen("a", max_tokens=8, **options))


@pytest.fixture
def service():
    with Service() as service:
        yield service


def chat(service: Service, **options: Any):
    options.setdefault("modalities", ("image", "video", "audio"))
    return sgl.OpenAI("model", base_url=service.url, api_key=KEY, **options)


def read_part(part: dict[str, Any]) -> Any:
    """The item or the text of a part."""
    match part:
        case {"type": "text", "text": text}:
            return text
        case {"type": "image_url", "image_url": {"url": url}}:
            return read_image(url)
        case {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}:
            return read_audio(base64.b64decode(data))
    raise AssertionError(part)


def content(service: Service, turn: int) -> list[Any]:
    return list(map(read_part, service.requests[-1].body["messages"][turn]["content"]))


def test_an_image_is_a_part(service) -> None:
    state = ask.run(backend=chat(service))
    assert state["a"] == "one two three"
    messages = service.requests[0].body["messages"]
    assert messages[0] == {"role": "system", "content": "Be short."}
    assert content(service, 1) == ["Look: ", Image(RED), "What is this?"]
    assert "Look: [image 5×4]What is this?" in state.text()


def test_turns_of_text_alone_stay_texts(service) -> None:
    @sgl.function
    def program(s):
        s += sgl.user(sgl.image(RED)) + sgl.assistant(sgl.gen("a"))
        s += sgl.user("And now?") + sgl.assistant(sgl.gen("b"))

    program.run(backend=chat(service))["b"]
    messages = service.requests[-1].body["messages"]
    assert content(service, 0) == [Image(RED)]
    assert [turn["content"] for turn in messages[1:]] == ["one two three", "And now?"]


def test_videos_are_frames_and_sounds_are_wav(service) -> None:
    @sgl.function
    def program(s):
        s += sgl.image(RED) + "a" + sgl.video(np.stack([RED, BLUE])) + sgl.audio(TONE, 8000)
        s += sgl.gen("a")

    program.run(backend=chat(service))["a"]
    *images, sound = content(service, 0)
    assert images == [Image(RED), "a", Image(RED), Image(BLUE)]
    assert isinstance(sound, Audio) and sound.rate == 8000
    assert sound.samples == pytest.approx(TONE, abs=1e-4)


def test_an_item_that_is_not_declared_is_an_error_before_the_call(service) -> None:
    for declared in ((), ("audio",)):
        with pytest.raises(MediaError, match=r"gen 'a' contains an image.*'model' takes text") as e:
            ask.run(backend=chat(service, modalities=declared)).sync()
        assert "modalities=('image',)" in e.value.hint
    assert not service.requests


@pytest.mark.parametrize("modalities", [("picture",), "picture", ("image", 3), [None]])
def test_wrong_modalities(service, modalities) -> None:
    with pytest.raises(OptionError, match="modalities="):
        chat(service, modalities=modalities)


def test_one_kind_may_be_a_text_and_completion_models_take_none(service) -> None:
    assert chat(service, modalities="image").modalities == {"image"}
    with pytest.raises(OptionError, match="takes text only"):
        chat(service, is_chat_model=False)
    assert chat(service, is_chat_model=False, modalities=()).modalities == frozenset()


def test_roles_other_than_the_users_are_refused(service) -> None:
    @sgl.function
    def assistant(s):
        s += sgl.user("a") + sgl.assistant(sgl.image(RED) + sgl.gen("a"))

    @sgl.function
    def system(s):
        s += sgl.system(sgl.image(RED)) + sgl.user("a") + sgl.assistant(sgl.gen("a"))

    @sgl.function
    def between(s):
        s += sgl.user("a") + sgl.image(RED) + sgl.assistant(sgl.gen("a"))

    backend = chat(service)
    for program, message in ((assistant, "role 'assistant'"), (system, "role 'system'"),
                             (between, "outside of the roles")):  # fmt: skip
        with pytest.raises(RequestError, match=message):
            program.run(backend=backend).sync()
    ahead = sgl.function(assistant.func, num_api_spec_tokens=64)
    with pytest.raises(RequestError, match="role 'assistant'"):
        ahead.run(backend=backend).sync()
    assert not service.requests


def test_a_select_asks_with_the_image(service) -> None:
    service.answer = lambda request: '{"choice": "blue"}'

    @sgl.function
    def program(s):
        s += sgl.user(sgl.image(BLUE))
        s += sgl.assistant(sgl.select("color", ["red", "blue"]))

    assert program.run(backend=chat(service))["color"] == "blue"
    assert content(service, 0) == [Image(BLUE)]

    service.refuses = "response_format"
    service.answer = lambda request: "blue"
    backend = chat(service)
    backend.endpoint.enforces = frozenset()
    assert program.run(backend=backend)["color"] == "blue"
    image, question = content(service, 0)
    assert image == Image(BLUE) and 'Answer with one of these and nothing else: "red"' in question


def test_text_written_ahead_ends_at_an_image(service) -> None:
    """The model's text after a call may equal the label of an image, and is no image."""
    service.answer = lambda request: "red.[image 5×4]green."

    @sgl.function(num_api_spec_tokens=64)
    def program(s):
        s += "The colors: " + sgl.gen("a", stop=".")
        s += "." + sgl.image(RED) + sgl.gen("b", stop=".")

    state = program.run(backend=chat(service))
    state.sync()
    assert len(service.requests) == 2, "the image needs a request"
    assert Image(RED) in content(service, 0)


def test_tools_next_to_an_image(service) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    ask.run(tools=[add], backend=chat(service))["a"]
    assert content(service, 1)[1] == Image(RED)
    assert service.requests[-1].body["tools"]


def test_the_same_image_is_encoded_once() -> None:
    image_urls.cache_clear()
    for _ in range(3):
        content_parts("a", [(1, Image(RED))])
    assert image_urls.cache_info().misses == 1


# LiteLLM


def test_litellm_declares_by_its_list_or_by_the_user(monkeypatch) -> None:
    litellm = pytest.importorskip("litellm")
    monkeypatch.setattr(litellm, "supports_vision", lambda model: "sees" in model)
    monkeypatch.setattr(litellm, "supports_audio_input", lambda model: "hears" in model)
    assert sgl.LiteLLM("openai/x-sees", api_key=KEY).modalities == {"image", "video"}
    assert sgl.LiteLLM("openai/x-hears", api_key=KEY).modalities == {"audio"}
    assert sgl.LiteLLM("openai/x-sees", api_key=KEY, modalities=()).modalities == frozenset()
    assert sgl.Anthropic("claude-x", api_key=KEY, modalities=["image"]).modalities == {"image"}


def test_litellm_sends_the_parts(monkeypatch) -> None:
    litellm = pytest.importorskip("litellm")
    bodies = []

    async def acompletion(**body):
        bodies.append(body)
        message = SimpleNamespace(content="red", tool_calls=None)
        choice = SimpleNamespace(
            index=0, message=message, finish_reason="stop", logprobs=None, text=None
        )
        usage = SimpleNamespace(prompt_tokens=9, completion_tokens=1)
        return SimpleNamespace(choices=[choice], usage=usage, id="x")

    monkeypatch.setattr(litellm, "acompletion", acompletion)
    backend = sgl.Anthropic("claude-x", api_key=KEY, modalities=("image",))
    assert ask.run(backend=backend)["a"] == "red"
    parts = bodies[0]["messages"][1]["content"]
    assert list(map(read_part, parts)) == ["Look: ", Image(RED), "What is this?"]


# SGLang servers


TEMPLATE = ChatTemplate(
    "x", {"system": ("<s>", "\n"), "user": ("<u>", "\n"), "assistant": ("<a>", "\n")}
)


class VisionService:
    """SGLang's protocol with fixed answers."""

    def __init__(self, **info: Any) -> None:
        self.info = {"model_path": "sees", "tokenizer_path": "/nowhere"} | info
        self.bodies: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(service.info)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.bodies.append(body)
                many = isinstance(body["text"], list)
                answers = [service.answer(i) for i in range(len(body["text"]) if many else 1)]
                self._send(answers if many else answers[0])

            def _send(self, said: Any) -> None:
                data = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = started(Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @staticmethod
    def answer(number: int) -> dict[str, Any]:
        rows = [[None, 1, "a"], [-0.5 - number, 5 + number, "b"]]
        meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 9, "completion_tokens": 1,
                "id": "x", "input_token_logprobs": rows}  # fmt: skip
        return {"text": "red", "meta_info": meta}


def endpoint(service: VisionService, **options: Any):
    options.setdefault("media_tokens", {"image": "<|image|>", "audio": "<|audio|>"})
    return sgl.RuntimeEndpoint(service.url, chat_template=TEMPLATE, **options)


def test_an_sglang_server_gets_image_data() -> None:
    service = VisionService(has_image_understanding=True)
    backend = endpoint(service)
    assert backend.modalities == {"image", "video"}
    state = ask.run(backend=backend)
    assert state["a"] == "red" and "[image 5×4]" in state.text()
    (body,) = service.bodies
    assert body["text"] == "<s>Be short.\n<u>Look: <|image|>What is this?\n<a>"
    assert list(map(read_image, body["image_data"])) == [Image(RED)]
    assert "audio_data" not in body


def test_data_of_an_sglang_server_follow_the_order_of_the_prompt() -> None:
    service = VisionService()
    backend = endpoint(service, modalities=("image", "video", "audio"))

    @sgl.function
    def program(s):
        s += sgl.image(BLUE) + sgl.video(np.stack([RED, BLUE])) + sgl.audio(TONE, 8000)
        s += sgl.gen("a")
        s += sgl.image(RED) + sgl.select("b", ["x", "y"])

    program.run(backend=backend).sync()
    first, *scored = service.bodies
    assert first["text"] == "<|image|><|image|><|image|><|audio|>"
    assert list(map(read_image, first["image_data"])) == [Image(BLUE), Image(RED), Image(BLUE)]
    assert read_audio(first["audio_data"][0]).rate == 8000
    assert [len(body["text"]) for body in scored] == [1, 3]
    for body in scored:
        assert all("red<|image|>" in text for text in body["text"])
        for images in body["image_data"]:
            assert list(map(read_image, images))[-1] == Image(RED) and len(images) == 4
        assert len(body["image_data"]) == len(body["audio_data"]) == len(body["text"])


def test_an_sglang_server_without_media() -> None:
    service = VisionService(has_image_understanding=False, has_audio_understanding="yes")
    with pytest.raises(MediaError, match="'sees' takes text only"):
        ask.run(backend=endpoint(service)).sync()
    backend = endpoint(service, modalities=("image",), media_tokens={})
    with pytest.raises(RequestError, match=r"is unknown\n.*media_tokens=\{'image'"):
        ask.run(backend=backend).sync()
    assert not service.bodies


def test_texts_of_media_from_a_chat_template() -> None:
    def render(messages):
        texts = {"image": "<|start|><|pad|>", "audio": None}
        text = ""
        for part in messages[0]["content"]:
            text += part["text"] if part["type"] == "text" else texts[part["type"]]
        return f"<u>{text}</u>"

    assert read_media_tokens(render) == {"image": "<|start|><|pad|>"}
    assert read_media_tokens(lambda messages: f"<u>{messages[0]['content']}") == {}


def test_a_prompt_without_media_stays_the_same() -> None:
    call = ScoreCall("a prompt", ("x",), False, "run", "0", "name")
    assert text_prompt(call, {}).text == "a prompt"
