"""A service on loopback that answers with tool calls in the formats of OpenAI, Anthropic and
SGLang, from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from .service import started, words

PIECE = 7
"""Characters of a streamed piece of arguments."""


class Wire(NamedTuple):
    """A call as the service writes it. `arguments` is JSON text, or any value."""

    name: Any
    arguments: Any = "{}"
    id: Any = "call_a"


class Reply(NamedTuple):
    """An answer: text, then calls. `status` above 200 is an error with `text` as the message."""

    text: str = ""
    calls: Sequence[Wire] = ()
    finish: str = ""
    status: int = 200


class ToolService:
    """replies: The answers in order; the last answer repeats. A callable reads the request's
    body."""

    def __init__(self, *replies: Reply | Callable[[dict[str, Any]], Reply]) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        service = self

        class Handler(_Handler):
            pass

        Handler.service = service
        self._server = started(Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def next_reply(self, path: str, body: dict[str, Any]) -> Reply:
        with self.lock:
            self.paths.append(path)
            self.bodies.append(body)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply if isinstance(reply, Reply) else reply(body)

    def __enter__(self) -> ToolService:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: ToolService

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, {"model_path": "tiny", "version": "0.5.10"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.service.next_reply(self.path, body)
        with suppress(BrokenPipeError, ConnectionResetError):
            if reply.status != 200:
                return self._send(reply.status, {"error": {"message": reply.text, "type": "x"}})
            if self.path == "/generate":
                said = _generated(reply)
                return self._stream([said]) if body.get("stream") else self._send(200, said)
            is_anthropic = self.path.endswith("/messages")
            if not body.get("stream"):
                return self._send(200, _message(reply) if is_anthropic else _completion(reply))
            self._stream(_message_events(reply) if is_anthropic else _chunks(reply))

    def _send(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _completion(reply: Reply) -> dict[str, Any]:
    """A whole answer in OpenAI's format, with the additions of SGLang's servers."""
    calls = [
        {
            "id": call.id,
            "index": index,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(reply.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    message |= {"tool_calls": calls or None, "reasoning_content": None}
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply), "logprobs": None}
    return {"id": "a1", "choices": [choice | {"matched_stop": None}], "usage": USAGE}


def _chunks(reply: Reply) -> Any:
    """The chunks of an answer: the name first, then the arguments in pieces."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "a1", "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for word in words(reply.text):
        yield chunk({"content": word})
    for index, call in enumerate(reply.calls):
        function = {"name": call.name, "arguments": ""}
        entry = {"index": index, "id": call.id, "type": "function", "function": function}
        yield chunk({"tool_calls": [entry]})
        for piece in _pieces(call.arguments):
            part = {"index": index, "id": None, "function": {"name": None, "arguments": piece}}
            yield chunk({"tool_calls": [part]})
    yield chunk({}, _finish(reply))
    yield {"id": "a1", "object": "chat.completion.chunk", "choices": [], "usage": USAGE}


def _pieces(arguments: Any) -> list[Any]:
    if not isinstance(arguments, str):
        return [arguments]
    size = max(PIECE, len(arguments) // 50)
    return [arguments[i : i + size] for i in range(0, len(arguments), size)]


def _anthropic(reply: Reply, content: list[Any]) -> dict[str, Any]:
    reason = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}
    usage = {"input_tokens": 9, "output_tokens": 4}
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant"}
    message |= {"model": "claude-x", "stop_reason": reason[_finish(reply)], "usage": usage}
    return message | {"stop_sequence": None, "content": content}


def _input(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, TypeError):
        return arguments


def _message(reply: Reply) -> dict[str, Any]:
    """A whole answer in Anthropic's format."""
    content: list[Any] = [{"type": "text", "text": reply.text}] if reply.text else []
    for call in reply.calls:
        arguments = _input(call.arguments)
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
        content.append(block)
    return _anthropic(reply, content)


def _message_events(reply: Reply) -> Any:
    yield {"type": "message_start", "message": _anthropic(reply, []) | {"stop_reason": None}}
    index = 0
    if reply.text:
        start: dict[str, Any] = {"type": "text", "text": ""}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for word in words(reply.text):
            delta = {"type": "text_delta", "text": word}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
        index += 1
    for call in reply.calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for piece in _pieces(call.arguments):
            part = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": part}
        yield {"type": "content_block_stop", "index": index}
        index += 1
    message = _anthropic(reply, [])
    end: dict[str, Any] = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _generated(reply: Reply) -> dict[str, Any]:
    """An answer of SGLang's `/generate`."""
    finish = {"type": "stop", "matched": None}
    meta = {"id": "g1", "finish_reason": finish, "prompt_tokens": 9, "completion_tokens": 4}
    return {"text": reply.text, "meta_info": meta}
