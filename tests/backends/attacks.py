"""Answers of a hostile service, and the calls for them."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-hostile-3f9c1d7e5b2a4860"
SECRET_FILE = "secret-7731.json"
STREAM_SECONDS = 20.0
"""An endless answer ends after so long, if the client has not gone away."""

Reply = Callable[["Client"], None]


@dataclass(frozen=True)
class Attack:
    """One answer, and the call that it answers. TRAP stands for the address of another host, FILE
    for the path of a local file, in texts of `options` too."""

    name: str
    reply: Reply
    backend: str = "chat"  # chat, text, sglang, litellm, claude, bench
    options: dict[str, Any] = field(default_factory=dict)  # of `gen`
    stream: bool = False
    choices: bool = False
    tries: int = 1
    quick: bool = False  # part of the small test


class Client:
    """The connection to one client, with what its request said."""

    def __init__(self, handler: Any, body: Any, key: str) -> None:
        self.body = body
        self.path, self.key, self.names = handler.path, key, {**handler.names, "KEY": key}
        self._write, self._flush = handler.wfile.write, handler.wfile.flush

    def send(self, data: bytes) -> None:
        self._write(data)
        self._flush()

    def head(self, kind: str, status: int = 200, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close", *headers]
        self.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode())

    def document(self, body: Any, status: int = 200, *headers: str) -> None:
        """Send JSON, or text as it is."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.head("application/json", status, *headers)
        self.send(filled(text, self.names).encode("utf-8", "surrogatepass"))

    def events(self, *events: Any) -> None:
        self.head("text/event-stream")
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            self.send(f"data: {filled(text, self.names)}\n\n".encode())
        self.send(b"data: [DONE]\n\n")

    def endless(self, chunk: bytes, pause: float = 0.0) -> None:
        end = time.monotonic() + STREAM_SECONDS
        while time.monotonic() < end:
            self.send(chunk)
            time.sleep(pause)


def filled(text: str, names: dict[str, str]) -> str:
    """Return `text` with the values of TRAP, FILE, FOLDER and KEY."""
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def chat(content: Any, **other: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    return {"id": "x", "choices": [choice | {"finish_reason": "stop"} | other]}


def part(content: Any, finish: Any = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return {"id": "x", "choices": [choice]}


def sglang(**meta: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": 1, "completion_tokens": 1, "finish_reason": {"type": "stop"}}
    return {"text": "a", "meta_info": counts | meta}


def say(body: Any, status: int = 200, *headers: str) -> Reply:
    return lambda client: client.document(body, status, *headers)


def stream(*events: Any) -> Reply:
    return lambda client: client.events(*events)


def redirect(status: int, location: str) -> Reply:
    def reply(client: Client) -> None:
        client.document({}, status, f"Location: {filled(location, client.names)}")

    return reply


def forever(kind: str, chunk: bytes, pause: float = 0.0, first: bytes = b"") -> Reply:
    def reply(client: Client) -> None:
        client.head(kind)
        client.send(first)
        client.endless(chunk, pause)

    return reply


def _raw(head: bytes, chunk: bytes, pause: float = 0.0) -> Reply:
    def reply(client: Client) -> None:
        client.send(head)
        client.endless(chunk, pause)

    return reply


def _compressed(client: Client) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    client.head("application/json", 200, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}")
    client.send(bomb)


def _split_key(client: Client) -> None:
    pieces = [part(f"a {client.key}"[i : i + 5]) for i in range(0, len(client.key) + 2, 5)]
    client.events(*pieces, part("", "stop"))


def _scored(meta: dict[str, Any]) -> Reply:
    def reply(client: Client) -> None:
        rows = meta["input_token_logprobs"]
        metas = [
            meta | {"input_token_logprobs": [*rows, [-1.0, i, "a"], rows[0]]} for i in range(9)
        ]
        client.document([{"meta_info": meta} for meta in metas[: len(client.body["text"])]])

    return reply


DEEP = "[" * 100_000
NESTED = "[" * 900 + "]" * 900
WIDE = "[" + "[]," * 500_000 + "0]"
EVIL = "a" * 36 + "!"
PATTERNS = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(a*)*b", "^(([a-z])+.)+[A-Z]$", "(x+x+)+y"]


def attacks() -> Iterator[Attack]:
    yield from _patterns()
    yield from _nested()
    yield from _references()
    yield from _redirects()
    yield from _endless()
    yield from _types()
    yield from _keys()


def _patterns() -> Iterator[Attack]:
    for number, pattern in enumerate(PATTERNS):
        text = EVIL.replace("a", "x") if "x" in pattern else EVIL
        schemas: dict[str, Any] = {
            "pattern": {"pattern": pattern},
            "names": {"propertyNames": {"pattern": pattern}},
            "members": {"patternProperties": {pattern: False}, "additionalProperties": False},
        }
        for kind, schema in schemas.items():
            value = text if kind == "pattern" else {text: 1}
            options = {"json_schema": json.dumps(schema)}
            yield Attack(
                f"pattern-{kind}-{number}",
                say(chat(json.dumps(value))),
                options=options,
                quick=number == 0,
            )
    nested_dialect = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "^(a+)+$"}],
    }
    unevaluated = {"patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False}
    for name, schema, value in (
        ("dialect", nested_dialect, EVIL),
        ("unevaluated", unevaluated, {EVIL: 1}),
        ("enum", {"enum": [EVIL, "b"], "pattern": "^(a+)+$"}, EVIL),
        ("backreference", {"pattern": r"^(a+)\1$"}, EVIL),
        ("exponential", {"pattern": "^(a|b)*a(a|b){40}$"}, "ab" * 30),
        ("unique", {"uniqueItems": True}, [{"a": i} for i in range(30_000)]),
        ("collisions", {"uniqueItems": True}, [i * (2**61 - 1) for i in range(30_000)]),
        ("multiple", {"multipleOf": 1e-9}, 10**308),
        ("format", {"format": "regex"}, "(" * 5000),
        ("items", {"items": False, "unevaluatedItems": False}, list(range(50_000))),
    ):
        options = {"json_schema": json.dumps(schema)}
        yield Attack(f"schema-{name}", say(chat(json.dumps(value))), options=options)
    for name, options in (
        ("regex", {"regex": "(a+)+b"}),
        ("ebnf", {"ebnf": 'root ::= ("a" | "aa")* "b"'}),
    ):
        yield Attack(f"format-{name}", say(chat("a" * 200_000)), options=options, quick=True)


def _nested() -> Iterator[Attack]:
    any_json = {"json_schema": "{}"}
    yield Attack("deep-content", say(chat(DEEP)), options=any_json, quick=True)
    yield Attack("nested-content", say(chat(NESTED)), options=any_json)
    yield Attack("wide-content", say(chat(WIDE)), options=any_json, quick=True)
    tree = {"items": {"$ref": "#"}}
    yield Attack("tree-content", say(chat(NESTED)), options={"json_schema": json.dumps(tree)})
    yield Attack("deep-document", say(DEEP), quick=True)
    yield Attack("nested-document", say(NESTED))
    yield Attack("wide-document", say('{"choices": ' + WIDE + "}"), quick=True)
    yield Attack("nested-error", say('{"error": ' + NESTED + "}", 400))
    yield Attack("nested-event", stream('{"choices": ' + NESTED + "}"), stream=True)
    yield Attack("error-event", stream('{"error": ' + NESTED + "}"), stream=True)
    meta = json.dumps(sglang(other="NESTED")).replace('"NESTED"', NESTED)
    yield Attack("nested-meta", say(meta), backend="sglang", quick=True)
    numbers = ("NaN", "-Infinity", "9" * 5000, "1e999999999", '{"a": 1, "a": 2}', "\ud800")
    for number, text in enumerate(numbers):
        yield Attack(f"number-{number}", say(chat(text)), options=any_json)
    for name, text in (
        ("lists", "[" + "[]," * 99_990 + "0]"),
        ("members", "{" + ",".join(f'"{i}":{i}' for i in range(190_000)) + "}"),
        ("commas", "[" + "1e5," * 190_000 + "0]"),
        ("letters", '"' + "a" * 1_000_000 + '"'),
        ("text", '"' + "a" * 8_000_000 + '"'),
    ):
        yield Attack(f"limit-{name}", say(chat(text)), options=any_json)
        yield Attack(f"limit-document-{name}", say(text))


def _references() -> Iterator[Attack]:
    for number, reference in enumerate(
        (
            "http://TRAP/x.json",
            "https://TRAP/x.json",
            "file://FILE",
            "FILE",
            "//TRAP/x",
            "ftp://TRAP/x",
        )
    ):
        for keyword in ("$ref", "$dynamicRef"):
            schema = {"properties": {"a": {keyword: reference}}}
            options = {"json_schema": json.dumps(schema)}
            yield Attack(
                f"reference-{keyword[1:]}-{number}",
                say(chat('{"a": 1}')),
                options=options,
                quick=number in (0, 2),
            )
    for number, schema in enumerate(
        (
            {"$schema": "http://TRAP/schema", "type": "object"},
            {"$id": "http://TRAP/a", "$ref": "b"},
            {"$ref": "#"},
            {
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                "$ref": "#/$defs/a",
            },
        )
    ):
        options = {"json_schema": json.dumps(schema)}
        yield Attack(f"reference-schema-{number}", say(chat("{}")), options=options)
    for number, named in enumerate(("FILE", "FOLDER", "../FOLDER", "http://TRAP/model")):
        reply = say({"model_path": "m", "tokenizer_path": named})
        yield Attack(f"tokenizer-{number}", reply, backend="sglang-info", quick=True)


def _redirects() -> Iterator[Attack]:
    for status in (301, 302, 303, 307, 308):
        yield Attack(
            f"redirect-{status}", redirect(status, "http://TRAP/v1/x"), quick=status == 307
        )
    for backend in ("text", "sglang", "sglang-info", "litellm", "claude", "bench"):
        reply = redirect(307, "http://TRAP/v1/x")
        yield Attack(f"redirect-{backend}", reply, backend=backend, quick=True)
        yield Attack(f"redirect-get-{backend}", redirect(302, "http://TRAP/"), backend=backend)
    for backend in ("chat", "sglang", "litellm", "claude"):
        reply = redirect(308, "http://TRAP/v1/x")
        yield Attack(f"redirect-stream-{backend}", reply, backend=backend, stream=True)
    for number, place in enumerate(
        ("file://FILE", "//TRAP/x", "http://[", "http://KEY.example/", "", "http://TRAP/?KEY")
    ):
        yield Attack(f"redirect-place-{number}", redirect(307, place))


def _endless() -> Iterator[Attack]:
    sse, document = "text/event-stream", "application/json"
    event = b"data: " + json.dumps(part("a" * 2000)).encode() + b"\n\n"
    yield Attack("endless-events", forever(sse, event * 20), stream=True, quick=True)
    tiny = b"data: " + json.dumps(part("a")).encode() + b"\n\n"
    yield Attack("endless-tiny", forever(sse, tiny * 500), stream=True)
    yield Attack("endless-comments", forever(sse, b": ping\n\n" * 5000), stream=True)
    yield Attack("endless-event", forever(sse, b"a" * 60_000, first=b"data: "), stream=True)
    yield Attack("endless-lines", forever(sse, b"data: a\n" * 8000), stream=True)
    yield Attack("endless-document", forever(document, b" " * 60_000), quick=True)
    yield Attack("endless-text", forever(document, b"a" * 60_000, first=b'"'))
    yield Attack("endless-values", forever(document, b"[]," * 20_000, first=b"["), quick=True)
    yield Attack("endless-error", _raw(b"HTTP/1.1 400 X\r\n\r\n", b"a" * 60_000))
    yield Attack("endless-html", forever("text/html", b"<p>" * 20_000))
    yield Attack("endless-headers", _raw(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 2000 + b"\r\n"))
    yield Attack("endless-header", _raw(b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 60_000))
    yield Attack("endless-status", _raw(b"HTTP/1.1 200 ", b"a" * 60_000))
    yield Attack("drip-headers", _raw(b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n", 0.05))
    yield Attack("drip-document", forever(document, b" ", 0.05))
    yield Attack("drip-events", forever(sse, b": ping\n\n", 0.05), stream=True, quick=True)
    yield Attack("drip-info", forever(document, b" ", 0.05), backend="sglang-info")
    yield Attack("silence", _raw(b"", b"", 1.0))
    yield Attack("bomb", _compressed, quick=True)
    yield Attack("bomb-stream", _compressed, stream=True)
    yield Attack("bomb-litellm", _compressed, backend="litellm")
    yield Attack("bomb-bench", _compressed, backend="bench")
    for backend in ("litellm", "claude", "bench", "sglang"):
        reply = forever(document, b"[]," * 20_000, first=b"[")
        yield Attack(f"endless-{backend}", reply, backend=backend)
    yield Attack("negative-length", say(chat("a"), 200, "Content-Length: -5"))
    yield Attack("huge-length", say(chat("a"), 200, "Content-Length: 99999999999999999999"))


def _types() -> Iterator[Attack]:
    odd: list[Any] = [None, True, -1, 10**30, 1.5, "x", [], [1], {}, {"a": []}]
    for number, value in enumerate(odd):
        yield Attack(f"type-content-{number}", say(chat(value)))
        yield Attack(f"type-finish-{number}", say(chat("a", finish_reason=value)))
        yield Attack(f"type-index-{number}", say(chat("a", index=value)))
        yield Attack(f"type-choices-{number}", say({"id": value, "choices": value}))
        counts = {"prompt_tokens": value, "completion_tokens": value}
        yield Attack(f"type-usage-{number}", say(chat("a") | {"usage": counts}), quick=number == 5)
        rows = {"content": [{"token": value, "logprob": value, "top_logprobs": []}]}
        options = {"return_logprob": True}
        yield Attack(f"type-logprobs-{number}", say(chat("a", logprobs=rows)), options=options)
        yield Attack(f"type-meta-{number}", say(sglang(finish_reason=value)), backend="sglang")
        yield Attack(f"type-text-{number}", say({"text": value, "meta_info": value}), "sglang")
        yield Attack(f"type-bench-{number}", say({"choices": value}), backend="bench")
        reply = _scored({"prompt_tokens": value, "input_token_logprobs": [[value, 7, value]]})
        yield Attack(f"type-scores-{number}", reply, backend="sglang", choices=True)
        yield Attack(f"type-info-{number}", say({"model_path": value}), backend="sglang-info")
    yield Attack("many-choices", say({"id": "x", "choices": chat("a")["choices"] * 20_000}))
    for number, wait in enumerate(("nan", "-1", "1e-400", "x", "Mon, 99 Foo 99999 99:99:99 GMT")):
        reply = say({}, 429, f"Retry-After: {wait}", "Retry-After-Ms: nan")
        yield Attack(f"retry-{number}", reply, tries=2)


def _keys() -> Iterator[Attack]:
    yield Attack("key-content", say(chat("your key is KEY")), quick=True)
    yield Attack("key-json", say(chat('"KEY"')), options={"json_schema": '{"type": "integer"}'})
    yield Attack("key-split", _split_key, stream=True, quick=True)
    yield Attack("key-id", say(chat("a") | {"id": "KEY"}))
    yield Attack("key-finish", say(chat("a", finish_reason="KEY")))
    for status in (400, 401, 403, 404, 429, 500):
        yield Attack(
            f"key-error-{status}", say({"error": {"message": "no KEY", "code": "KEY"}}, status)
        )
    yield Attack("key-nested", say({"error": {"message": {"a": ["KEY"]}}}, 400))
    yield Attack("key-text", say("KEY is wrong", 400), quick=True)
    yield Attack("key-upper", say(KEY.upper(), 400))
    yield Attack("key-event", stream(part("a"), {"error": {"message": "KEY"}}), stream=True)
    message = {"role": "assistant", "content": "", "refusal": "KEY", "reasoning_content": "KEY"}
    yield Attack("key-refusal", say(chat("", message=message)))
    yield Attack("key-meta", say(sglang(id="KEY", other=[{"KEY": "KEY"}])), backend="sglang")
    yield Attack("key-sglang", say(sglang() | {"text": "KEY"}), backend="sglang", quick=True)
    yield Attack("key-info", say({"model_path": "KEY"}), backend="sglang-info")
    for backend in ("litellm", "claude"):
        yield Attack(f"key-{backend}", say({"error": {"message": "KEY"}}, 400), backend=backend)
        yield Attack(f"key-500-{backend}", say("KEY", 500), backend=backend)
    yield Attack("key-choice", say(chat("KEY")), choices=True)
    rows = {"content": [{"token": "KEY", "logprob": -1.0, "top_logprobs": []}]}
    yield Attack("key-logprobs", say(chat("a", logprobs=rows)), options={"return_logprob": True})


ATTACKS = {attack.name: attack for attack in attacks()}
