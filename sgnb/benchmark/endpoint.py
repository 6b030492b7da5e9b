"""A model behind a URL as a peer: SGLang's own `/generate`, or an OpenAI-compatible
`/v1/completions`. Plain HTTP by the standard library, without a key; each call on a thread.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import EngineError, OptionError, shown
from ..lang.executor import Call, Delta, Result
from .peers import JSON, LENGTH, SAMPLED, STOPS, Peer

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

AT_ONCE = 64
SECONDS = 600.0
"""How long one answer may take."""
_TOLD = ("stop", "ignore_eos", "stop_token_ids", "top_p", "top_k", "seed")


class Endpoint(Peer):
    """`url`: with or without a path. Which protocol it speaks is asked of it, once."""

    package = "the endpoint"

    def __init__(self, executor: LocalExecutor, url: str) -> None:
        super().__init__(executor)
        self.url = url.rstrip("/")
        self._pool = ThreadPoolExecutor(AT_ONCE)

    @property
    def title(self) -> str:
        known = "model" in vars(self)
        return f"the endpoint with {shown(self.model)}" if known else self.package

    def missing(self) -> str:
        try:
            return "" if self.model else "it names no model"
        except EngineError as error:
            return error.message
        except (LookupError, TypeError):
            return f"{self.url} speaks neither SGLang's protocol nor OpenAI's"

    @cached_property
    def _is_sglang(self) -> bool:
        try:
            return "model_path" in self._ask("/get_model_info", None)
        except EngineError:
            return False

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]
        own = LENGTH | SAMPLED | STOPS
        return own | JSON | {"regex", "ebnf"} if self._is_sglang else own - {"top_k"}

    @cached_property
    def model(self) -> str:
        """The model that it serves. EngineError where nobody answers."""
        if self._is_sglang:
            return str(self._ask("/get_model_info", None)["model_path"])
        return str(self._ask("/v1/models", None)["data"][0]["id"])

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        """At once: the server batches."""
        cancelled = threading.Event()
        self._pool.submit(self._serve_group, [(call, sink, cancelled)])
        return cancelled.set

    def answer(self, calls: Sequence[Call]) -> list[tuple[str, int]]:
        return [self._one(call) for call in calls]

    def _one(self, call: Call) -> tuple[str, int]:
        params = call.params
        told = {name: v for name in _TOLD if (v := getattr(params, name)) not in (None, (), -1)}
        if self._is_sglang:
            told |= {"max_new_tokens": params.max_new_tokens, "temperature": params.temperature}
            if params.grammar is not None:
                told[params.grammar.kind] = params.grammar.text
            told.pop("seed", None)
            got = self._ask("/generate", {"text": call.prompt, "sampling_params": told})
            return got["text"], got["meta_info"]["completion_tokens"]
        told |= {"max_tokens": params.max_new_tokens, "temperature": params.temperature}
        got = self._ask("/v1/completions", {"model": self.model, "prompt": call.prompt, **told})
        return got["choices"][0]["text"], got["usage"]["completion_tokens"]

    def _ask(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = self.url.removesuffix("/v1") + path
        try:
            request = urllib.request.Request(url, data, headers)
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(300).decode(errors="replace")
            raise EngineError(f"{url} answered {error.code}: {said}") from None
        except (OSError, ValueError, HTTPException) as error:
            hint = "is the server up? give its address, as in http://localhost:30000"
            raise EngineError(f"{url} does not answer: {error}", hint) from None

    def close(self) -> None:
        self._pool.shutdown(wait=False)


def is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def check_url(url: str) -> None:
    """OptionError for an address that names no host, or more than a place: a password or a key, of
    which nothing may stand in a report."""
    try:
        parts = urlsplit(url)
        place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        place = False
    if not place or "@" in url or "?" in url or "#" in url or not url.isprintable() or " " in url:
        hint = "give http://HOST:PORT, without a user, a key or a query"
        raise OptionError("against an address: it is none that can be asked", hint)
