"""The web application: OpenAI's and SGLang's protocols over an engine."""

from __future__ import annotations

import asyncio
import hmac
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ...engine.request.output import Output
from ...errors import EngineError, RequestError, SgnbError, shown
from ...lang.chat import ChatTemplate
from ...sampling import SamplingParams
from ...segment import Segment
from ..any_engine import AnyEngine
from ..template_reader import special_tokens
from . import answer_format
from .bodies import ChatBody, CompletionBody, GenerateBody, OpenAIBody, StreamOptions
from .conversation import chat_segments
from .tool_answers import ToolAnswer, requested_tools

MAX_BODY = 16 << 20
"""Maximum bytes of a body."""

MAX_SAMPLES = 1024
"""Maximum number of samples of a request."""

T = TypeVar("T")
Asked = TypeVar("Asked", bound=OpenAIBody)
Handler = Callable[[Request], Awaitable[Response]]
_encode = msgspec.json.Encoder().encode  # numbers that are not finite become null


class UnknownModelError(RequestError):
    """A request for a model that the server does not have."""


class ChatRequest(NamedTuple):
    """A request for an answer, as the engine takes it."""

    segments: Sequence[Segment]
    tokens: Sequence[int]
    params: SamplingParams
    answer: ToolAnswer | None  # with tools


class EngineApp:
    """Handlers of the protocols.

    Args:
        engine: The engine.
        chat: Chat template of the model.
        token: Secret of the clients.
    """

    def __init__(self, engine: AnyEngine, chat: ChatTemplate, token: str) -> None:
        self.engine, self.chat = engine, chat
        self.model = engine.model_name.rstrip("/").rpartition("/")[2]
        self._token = token.encode()
        self._numbers = itertools.count(1)

    def routes(self) -> Starlette:
        """Return the web application."""
        posts: dict[str, Handler] = {
            "/v1/completions": self.complete,
            "/v1/chat/completions": self.chat_complete,
            "/generate": self.generate,
            "/flush_cache": self.flush_cache,
        }
        gets: dict[str, Handler] = {
            "/v1/models": self.models,
            "/v1/models/{name}": self.find_model,
            "/get_model_info": self.model_info,
            "/server_info": self.server_info,
        }
        routes = [
            Route(path, self._guarded(each), methods=["POST"]) for path, each in posts.items()
        ]
        routes += [Route(path, self._guarded(each)) for path, each in gets.items()]
        served = ", ".join((*posts, *gets))

        async def refuse(request: Request, error: Exception) -> Response:
            """Answer an unknown path or method, in OpenAI's format."""
            message = f"{request.method} {shown(request.url.path)} is not served"
            body = error_body(RequestError(message, f"paths: {served}"))
            return respond(body, getattr(error, "status_code", 404))

        return Starlette(routes=routes, exception_handlers={404: refuse, 405: refuse})

    @property
    def _model_object(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": 0, "owned_by": "sgnb"}

    async def models(self, request: Request) -> Response:
        return respond({"object": "list", "data": [self._model_object]})

    async def find_model(self, request: Request) -> Response:
        if (name := request.path_params["name"]) == self.model:
            return respond(self._model_object)
        raise self._unknown_model(name)

    def _unknown_model(self, name: str) -> UnknownModelError:
        return UnknownModelError(f"no model is called {shown(name)}", f"the model is {self.model}")

    async def _read_openai(self, request: Request, kind: type[Asked]) -> Asked:
        """Return the body of a request for this model. A body without a model is accepted."""
        body = await read_body(request, kind)
        if body.model not in ("", self.model, self.engine.model_name):
            raise self._unknown_model(body.model)
        return body

    async def model_info(self, request: Request) -> Response:
        kinds = self.engine.modalities
        return respond(
            {
                "model_path": self.model,
                "tokenizer_path": self.model,
                "is_generation": True,
                "has_image_understanding": "image" in kinds,
                "has_audio_understanding": "audio" in kinds,
            }
        )

    async def server_info(self, request: Request) -> Response:
        stats = await asyncio.to_thread(self.engine.stats)
        return respond({"model_path": self.model, "device": self.engine.device, **stats})

    async def flush_cache(self, request: Request) -> Response:
        await asyncio.to_thread(self.engine.flush_cache)
        return PlainTextResponse("Cache flushed.\n")

    async def complete(self, request: Request) -> Response:
        body = await self._read_openai(request, CompletionBody)
        prompts, params = body.prompts, await asyncio.to_thread(body.sampling_params)
        id = f"cmpl-{next(self._numbers)}"
        if body.stream:
            stream = await self._stream(prompts, params)

            def chunk(output: Output) -> dict[str, Any]:
                choice = answer_format.completion_choice(0, output) | {"text": output.delta}
                return answer_format.envelope(id, "text_completion", self.model, [choice])

            return streamed(stream, chunk, body.stream_options)
        outputs = await self._run(request, prompts, params)
        choices = [answer_format.completion_choice(*each) for each in enumerate(outputs)]
        response = answer_format.envelope(id, "text_completion", self.model, choices)
        return respond(response | {"usage": answer_format.usage(outputs, params.n)})

    async def chat_complete(self, request: Request) -> Response:
        body = await self._read_openai(request, ChatBody)
        asked = await asyncio.to_thread(self._read_chat, body)
        id = f"chatcmpl-{next(self._numbers)}"
        if asked.answer is not None:
            return await self._with_tools(request, body, asked, asked.answer, id)
        if body.stream:
            stream = await self._stream([asked.tokens], asked.params)
            first = itertools.chain([{"role": "assistant"}], itertools.repeat({}))

            def chunk(output: Output) -> dict[str, Any]:
                delta = {**next(first), "content": output.delta}
                return self._chat_chunk(id, delta, answer_format.finish_reason(output))

            return streamed(stream, chunk, body.stream_options)
        outputs = await self._run(request, [asked.tokens], asked.params)
        choices = [answer_format.chat_choice(*each) for each in enumerate(outputs)]
        return self._chat_response(id, choices, outputs, asked.params.n)

    async def _with_tools(
        self, request: Request, body: ChatBody, asked: ChatRequest, answer: ToolAnswer, id: str
    ) -> Response:
        """Answer with text, or with calls of the client's tools."""
        texts = answer.write(asked.segments, asked.params)
        if body.stream:
            return EventStream(self._tool_events(id, texts, answer, body.stream_options))

        async def write() -> None:
            async with aclosing(texts):
                async for _ in texts:
                    pass

        await _unless_disconnected(request, write())
        calls = answer_format.call_parts(answer.calls)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = answer.finish_reason
        return self._chat_response(id, [choice], answer.outputs, len(answer.outputs))

    async def _tool_events(
        self,
        id: str,
        texts: AsyncGenerator[str],
        answer: ToolAnswer,
        options: StreamOptions | None,
    ) -> AsyncGenerator[bytes]:
        """Yield the text as it arrives, then each call."""
        try:
            yield _event(self._chat_chunk(id, {"role": "assistant", "content": ""}, None))
            async with aclosing(texts):
                async for text in texts:
                    yield _event(self._chat_chunk(id, {"content": text}, None))

            for index, call in enumerate(answer_format.call_parts(answer.calls)):
                delta = {"tool_calls": [{"index": index, **call}]}
                yield _event(self._chat_chunk(id, delta, None))

            end = self._chat_chunk(id, {}, answer.finish_reason)
            yield _event(end)
            if options is not None and options.include_usage:
                usage = answer_format.usage(answer.outputs, len(answer.outputs))
                yield _event(end | {"choices": [], "usage": usage})
        except SgnbError as error:
            yield _event(error_body(error))
        yield b"data: [DONE]\n\n"

    def _chat_chunk(self, id: str, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return answer_format.envelope(id, "chat.completion.chunk", self.model, [choice])

    def _chat_response(
        self, id: str, choices: list[Any], outputs: Sequence[Output], samples: int
    ) -> Response:
        response = answer_format.envelope(id, "chat.completion", self.model, choices)
        return respond(response | {"usage": answer_format.usage(outputs, samples)})

    def _read_chat(self, body: ChatBody) -> ChatRequest:
        """Read images and tools, and tokenize the prompt. Takes long, therefore on a thread."""
        params = self._chat_params(body)
        tools, use = requested_tools(body)
        chat = self.chat.declare(tools) if tools else self.chat
        segments = chat_segments(chat, body.messages)
        tokens = self.engine.encode([segments])[0]
        answer = None
        if use is not None:
            answer = ToolAnswer(self.engine, chat, use, special_tokens(self.engine))
        return ChatRequest(segments, tokens, params, answer)

    async def generate(self, request: Request) -> Response:
        body = await read_body(request, GenerateBody)
        prompts, params = body.prompts, await asyncio.to_thread(body.sampling_params)
        if body.stream:
            stream = await self._stream(prompts, params)
            return streamed(stream, answer_format.generated, None)
        outputs = await self._run(request, prompts, params)
        answers = [answer_format.generated(output) for output in outputs]
        return respond(answers if body.is_list or params.n > 1 else answers[0])

    def _chat_params(self, body: ChatBody) -> SamplingParams:
        """Return the parameters with the stops of the chat template."""
        params = body.sampling_params()
        stops = tuple(dict.fromkeys((*params.stop, *self.chat.stop)))
        ids = tuple(dict.fromkeys((*params.stop_token_ids, *self.chat.stop_token_ids)))
        limit = self.engine.context_length if body.max_new_tokens is None else params.max_new_tokens
        return replace(params, stop=stops, stop_token_ids=ids, max_new_tokens=limit)

    async def _run(
        self, request: Request, prompts: Sequence[Any], params: SamplingParams
    ) -> list[Output]:
        """Return all samples. The end of the client's connection ends the requests."""
        _check_count(prompts, params)
        asked = self.engine.agenerate(list(prompts), params)
        outputs: list[Output] = await _unless_disconnected(request, asked)
        return outputs

    async def _stream(
        self, prompts: Sequence[Any], params: SamplingParams
    ) -> AsyncGenerator[Output]:
        if len(prompts) != 1 or params.n != 1:
            raise RequestError("a stream has one prompt and n=1", "send a request per prompt")
        outputs: AsyncGenerator[Output] = await self.engine.agenerate(
            prompts[0], params, stream=True
        )
        return outputs

    def _guarded(self, handler: Handler) -> Handler:
        """Check the token, and turn errors into responses."""

        async def handle(request: Request) -> Response:
            sent = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(sent, b"Bearer " + self._token):
                hint = "send the header Authorization: Bearer TOKEN"
                error = RequestError("the token is missing or wrong", hint)
                return respond(error_body(error), 401)
            try:
                return await handler(request)
            except EngineError as error:
                return respond(error_body(error), 503)
            except UnknownModelError as error:
                return respond(error_body(error), 404)
            except SgnbError as error:
                return respond(error_body(error), 400)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                hint = "send a JSON object with the fields of the protocol"
                invalid = RequestError(f"the body is not valid: {error}", hint)
                return respond(error_body(invalid), 400)
            except ClientDisconnect:
                return Response(status_code=499)

        return handle


class EventStream(StreamingResponse):
    """Server-sent events. The end of the connection ends the generator at once."""

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


def streamed(
    outputs: AsyncGenerator[Output],
    chunk: Callable[[Output], dict[str, Any]],
    options: StreamOptions | None,
) -> Response:
    """Return partial outputs as a response.

    Args:
        outputs: Partial outputs of a request.
        chunk: Returns the data of an output.
        options: OpenAI's options of a stream.
    """

    async def events() -> AsyncGenerator[bytes]:
        output = None
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    yield _event(chunk(output))
            if output is not None and options is not None and options.include_usage:
                total = chunk(output) | {"choices": [], "usage": answer_format.usage([output], 1)}
                yield _event(total)
        except SgnbError as error:
            yield _event(error_body(error))
        yield b"data: [DONE]\n\n"

    return EventStream(events())


def _event(value: Any) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result. The end of the client's connection ends the work."""
    running = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientDisconnect
        return running.result()
    finally:
        running.cancel()
        leaving.cancel()


async def _disconnect(request: Request) -> None:
    """Return when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_count(prompts: Sequence[Any], params: SamplingParams) -> None:
    if not 0 < len(prompts) * params.n <= MAX_SAMPLES:
        message = f"{len(prompts)} prompts with n={params.n} are not 1 to {MAX_SAMPLES:,} samples"
        raise RequestError(message, "send fewer prompts per request, or at least one")


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body of a request. Raises RequestError for a large or deeply nested body, and
    DecodeError for an invalid body."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise RequestError(f"the body exceeds {MAX_BODY:,} bytes", "send less")
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise RequestError("the body is nested too deeply", "send fewer levels") from None


def respond(value: Any, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def error_body(error: SgnbError) -> dict[str, Any]:
    """Return an error in OpenAI's format."""
    kind = "server_error" if isinstance(error, EngineError) else "invalid_request_error"
    return {"error": {"message": str(error), "type": kind, "code": type(error).__name__}}
