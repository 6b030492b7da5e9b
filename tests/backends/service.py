"""A service on loopback that speaks OpenAI's protocol, answers by a function, counts what it was
sent, and fails when it is told to."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "sk-test-3f9c1d7e5b"
HANG_SECONDS = 30.0


class Fault(NamedTuple):
    """What happens to one request instead of its answer."""

    kind: str  # "status", "kill", "hang", "half", "bad json", "wrong type", "error in stream"
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    after: int = 0  # pieces of a stream that come before


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def prompt(self) -> str:
        """All that the model reads."""
        if "messages" in self.body:
            return "".join(f" <{m['role']}> {m['content']}" for m in self.body["messages"])
        return str(self.body.get("prompt", ""))


def words(text: str) -> list[str]:
    """A token each: a word with the blanks before it."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def started(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server on a free port of loopback, whose threads end with the process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class Service:
    """answer: the whole text that a model would write after a prompt; stops and limits cut it here.

    with Service(answer) as service:
        OpenAI("model", base_url=service.url, api_key=KEY)
    """

    def __init__(
        self, answer: Callable[[Request], str] = lambda r: "one two three", delay: float = 0.0
    ) -> None:
        self.answer, self.delay = answer, delay
        self.samples = True  # takes n
        self.refuses = ""  # requests with this argument
        self.scores = True  # gives log-probabilities of prompts
        self.requests: list[Request] = []
        self.faults: deque[Fault | None] = deque()
        self.running = self.most_running = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.closing = threading.Event()
        self.lock = threading.Lock()
        service = self

        class Handler(_Handler):
            pass

        Handler.service = service
        self._server = started(Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def fail(self, *faults: Fault | None) -> None:
        """What happens to the next requests; None is an answer."""
        self.faults.extend(faults)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        service = self.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.path, body, {k.lower(): v for k, v in self.headers.items()})
        with service.lock:
            service.requests.append(request)
            fault = service.faults.popleft() if service.faults else None
            service.running += 1
            service.most_running = max(service.most_running, service.running)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                self._reply(request, fault)
        finally:
            with service.lock:
                service.running -= 1

    def _reply(self, request: Request, fault: Fault | None) -> None:
        time.sleep(self.service.delay)
        if (name := self.service.refuses) in request.body:
            return self._send(400, json.dumps({"error": {"message": f"no {name} here"}}))
        if fault is not None and not request.body.get("stream"):
            return self._fail(fault)
        if fault is not None and fault.kind in ("status", "hang", "wrong type"):
            return self._fail(fault)
        self._answer(request, fault)

    def _fail(self, fault: Fault) -> None:
        match fault.kind:
            case "status":
                said = {"error": {"message": f"refused with key {KEY}", "type": "x", "code": None}}
                self._send(fault.status, json.dumps(said), headers=dict(fault.headers))
            case "hang":
                self.service.closing.wait(HANG_SECONDS)
                self.close_connection = True
            case "bad json":
                self._send(200, '{"id": "x", "choices": [')
            case "wrong type":
                self._send(200, "<html>Sign in</html>", "text/html")
            case "half":
                self._send(200, json.dumps({"id": "x", "choices": []}))
            case "kill":
                self._send(200, '{"id": "x", ', length=1000)
                self._kill()
            case other:
                raise AssertionError(other)

    def _kill(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _answer(self, request: Request, fault: Fault | None) -> None:
        if request.path.endswith("/messages"):
            return self._answer_as_anthropic(request, fault)
        body, chat = request.body, "messages" in request.body
        prompts = body.get("prompt") if isinstance(body.get("prompt"), list) else [None]
        count = (body.get("n") or 1) if self.service.samples else 1
        texts = [_cut(self.service.answer(request), body) for _ in range(count)]
        prompt = len(words(request.prompt)) * len(prompts)
        made = sum(len(words(text)) for text, _ in texts)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": made,
            "total_tokens": prompt + made,
            "prompt_tokens_details": {"cached_tokens": 1},
        }
        with self.service.lock:
            self.service.prompt_tokens += prompt
            self.service.completion_tokens += made
        if body.get("echo") and self.service.scores:
            choices = [_echoed(i, text) for i, text in enumerate(prompts)]
            self._send(200, json.dumps({"id": "a1", "choices": choices, "usage": usage}))
            return
        if not body.get("stream"):
            choices = [_choice(i, t, end, chat, body) for i, (t, end) in enumerate(texts)]
            self._send(200, json.dumps({"id": "a1", "choices": choices, "usage": usage}))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = words(texts[0][0])
        for i, piece in enumerate(pieces):
            if fault is not None and i == fault.after:
                return self._fail_in_stream(fault)
            time.sleep(self.service.delay)
            part: dict[str, Any] = {"delta": {"content": piece}} if chat else {"text": piece}
            self._event({"id": "a1", "choices": [{"index": 0, "finish_reason": None, **part}]})
        end: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
        last = {"index": 0, "finish_reason": texts[0][1], **end}
        self._event({"id": "a1", "choices": [last]})
        self._event({"id": "a1", "choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n", end=True)

    def _answer_as_anthropic(self, request: Request, fault: Fault | None) -> None:
        text = self.service.answer(request)
        usage = {"input_tokens": 7, "output_tokens": len(words(text)), "cache_read_input_tokens": 2}
        message: dict[str, Any] = {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
        }
        message |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
        if not request.body.get("stream"):
            said = message | {"content": [{"type": "text", "text": text}]}
            return self._send(200, json.dumps(said))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        begun = message | {"content": [], "stop_reason": None}
        self._named({"type": "message_start", "message": begun})
        block = {"type": "text", "text": ""}
        self._named({"type": "content_block_start", "index": 0, "content_block": block})
        for i, piece in enumerate(words(text)):
            if fault is not None and i == fault.after:
                return self._fail_in_stream(fault)
            delta = {"type": "text_delta", "text": piece}
            self._named({"type": "content_block_delta", "index": 0, "delta": delta})
        self._named({"type": "content_block_stop", "index": 0})
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        self._named({"type": "message_delta", "delta": end, "usage": usage})
        self._named({"type": "message_stop"})
        self._chunk(b"", end=True)

    def _named(self, event: dict[str, Any]) -> None:
        data = json.dumps(event)
        self._chunk(f"event: {event['type']}\ndata: {data}\n\n".encode())

    def _fail_in_stream(self, fault: Fault) -> None:
        match fault.kind:
            case "kill":
                self._kill()
            case "half":
                self._chunk(b"data: [DONE]\n\n", end=True)
            case "bad json":
                self._chunk(b'data: {"id": \n\n', end=True)
            case "error in stream":
                self._event({"error": {"message": f"overloaded, key {KEY}"}})
                self._chunk(b"", end=True)
            case other:
                raise AssertionError(other)

    def _event(self, data: Any) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data: bytes, end: bool = False) -> None:
        framed = b"%x\r\n%s\r\n" % (len(data), data) if data else b""
        self.wfile.write(framed + (b"0\r\n\r\n" if end else b""))
        self.wfile.flush()

    def _send(
        self,
        status: int,
        text: str,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _cut(text: str, body: dict[str, Any]) -> tuple[str, str]:
    """The text up to a stop or the limit, and why it ends."""
    end = "stop"
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 10**6
    if len(words(text)) > limit:
        text, end = "".join(words(text)[:limit]), "length"
    found = [at for stop in body.get("stop") or () if (at := text.find(stop)) >= 0]
    return (text[: min(found)], "stop") if found else (text, end)


def logprob(token: str) -> float:
    return -0.01 * sum(map(ord, token))


def _echoed(index: int, prompt: str) -> dict[str, Any]:
    """A prompt with the log-probabilities of its tokens, and one token more."""
    tokens = [*words(prompt), " next"]
    logprobs = {"tokens": tokens, "token_logprobs": [None, *map(logprob, tokens[1:])]}
    return {
        "index": index,
        "finish_reason": "length",
        "text": f"{prompt} next",
        "logprobs": logprobs,
    }


def _choice(index: int, text: str, end: str, chat: bool, body: dict[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {"index": index, "finish_reason": end}
    if not chat:
        logprobs = None
        if body.get("logprobs") is not None:
            tokens = words(text)
            logprobs = {
                "tokens": tokens,
                "token_logprobs": [-0.5] * len(tokens),
                "top_logprobs": [{token: -0.5} for token in tokens],
                "text_offset": [0] * len(tokens),
            }
        return own | {"text": text, "logprobs": logprobs}
    rows = [{"token": w, "logprob": -0.5, "top_logprobs": []} for w in words(text)]
    message = {"role": "assistant", "content": text}
    return own | {
        "message": message,
        "logprobs": {"content": rows} if body.get("logprobs") else None,
    }
