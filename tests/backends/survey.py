"""What a hostile service achieves: connections, opened files, blocked threads and quoted keys."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sgnb as sgl
from sgnb.backends.api import limits
from sgnb.benchmark.http_peer import HttpPeer
from sgnb.errors import SgnbError
from sgnb.lang.chat import PLAIN
from sgnb.lang.executor import Call
from sgnb.sampling import SamplingParams
from sgnb.viz import RunState
from sgnb.viz.static.plain_text import run_text

from .attacks import KEY, SECRET_FILE, Attack, filled
from .hostile import HostileService

TICK = 0.005
TIMEOUT = 4.0
"""Seconds for one try. Checks of answers stop after 2 s of processor time."""

ROOTS = [
    sys.prefix,
    sys.base_prefix,
    str(Path(__file__).parents[2]),
    str(Path("~/.cache/huggingface").expanduser()),
    "/etc/",
    "/proc/",
]
"""Files of Python, its packages, the project, the machine, and the cache of the model hub."""


@sgl.function
def ask(s: Any, options: dict[str, Any]) -> None:
    s += sgl.user("Count.") + sgl.assistant(sgl.gen("a", max_tokens=16, **options))


@sgl.function
def choose(s: Any, options: dict[str, Any]) -> None:
    s += sgl.user("Choose.") + sgl.assistant(sgl.select("a", ["yes", "no"]))


class Watch:
    """Counts opened files and connections by `sys.addaudithook`, of which none can be removed."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, int]] = set()
        self.address = ""
        self.roots = ROOTS
        self.files: list[str] = []
        self.connections: list[str] = []
        self.active = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active or event not in ("open", "socket.connect", "urllib.Request"):
            return
        if event == "open":
            path = args[0].decode() if isinstance(args[0], bytes) else args[0]
            if isinstance(path, str) and not os.path.abspath(path).startswith(tuple(self.roots)):
                self.files.append(path)
        elif event == "urllib.Request":
            self.connections += [args[0]] * (not args[0].startswith(self.address))
        elif args[0].family != socket.AF_UNIX and tuple(args[1][:2]) not in self.allowed:
            self.connections.append(str(args[1]))


class Ticker:
    """The longest time for which a thread could not run, in processor time of this process: the
    load of the machine by other processes does not count. Nor do Python's garbage collections: one
    takes 0.3 s with the objects of torch and litellm, whoever starts it."""

    def __init__(self) -> None:
        self.longest = self.collecting = self._began = 0.0
        gc.callbacks.append(self._collected)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()

    def _tick(self) -> None:
        last = time.process_time()
        while not self._end.is_set():
            time.sleep(TICK)
            now = time.process_time() - self.collecting
            now -= time.process_time() - self._began if self._began else 0.0
            self.longest = max(self.longest, now - last)
            last = now

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.collecting += time.process_time() - self._began
            self._began = 0.0

    def close(self) -> float:
        self._end.set()
        self._thread.join()
        gc.callbacks.remove(self._collected)
        return self.longest


@dataclass
class Outcome:
    """The result of one attack."""

    name: str
    error: BaseException | None = None
    seconds: float = 0.0
    gap: float = 0.0
    texts: list[str] = field(default_factory=list)

    @property
    def is_typed(self) -> bool:
        return self.error is None or isinstance(self.error, SgnbError)

    @property
    def quotes_key(self) -> bool:
        return any(KEY.lower() in text.lower() for text in self.texts)


@contextmanager
def surveying(folder: Path) -> Iterator[Survey]:
    """A survey with a hostile service; `folder` holds a file that nobody may open."""
    service = HostileService(folder / SECRET_FILE)
    first_wait, limits.FIRST_WAIT = limits.FIRST_WAIT, 0.01
    try:
        yield Survey(service, folder)
    finally:
        limits.FIRST_WAIT = first_wait
        service.close()


class Survey:
    """Runs attacks in this process."""

    def __init__(self, service: HostileService, folder: Path) -> None:
        self.service, self.watch = service, _watch()
        self.watch.roots = [*ROOTS, str(folder / "cache")]
        os.environ["SGNB_CACHE"] = str(folder / "cache")
        (folder / SECRET_FILE).write_text('{"type": "null"}')
        (folder / "tokenizer_config.json").write_text("{}")
        host, port = service.url.removeprefix("http://").split(":")
        self.watch.allowed, self.watch.address = {(host, int(port))}, service.url

    def run(self, attack: Attack) -> Outcome:
        outcome = Outcome(attack.name)
        ticker, began = Ticker(), time.monotonic()
        self.watch.active = True
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._call(attack, outcome)
        except BaseException as error:
            outcome.error = error
        finally:
            self.watch.active = False
            outcome.seconds, outcome.gap = time.monotonic() - began, ticker.close()
        outcome.texts += [str(warning.message) for warning in caught]
        if (error := outcome.error) is not None:
            outcome.texts += [str(error), *getattr(error, "__notes__", ())]
            outcome.texts += [*traceback.format_exception(error), *_locals(error)]
        return outcome

    def _call(self, attack: Attack, outcome: Outcome) -> None:
        url = f"{self.service.url}/{attack.name}"
        if attack.backend == "bench":
            call = Call("Count.", SamplingParams(max_new_tokens=8), "run1", "0", "a")
            outcome.texts.append(str(HttpPeer(_NO_ENGINE, url).answer([call])))
            return
        model = _backend(attack, url)
        program = choose if attack.choices else ask
        try:
            options = json.loads(filled(json.dumps(attack.options), self.service.names))
            state = program.run(options, backend=model, stream=attack.stream, temperature=0)
            if attack.stream:
                outcome.texts.append("".join(state.text_iter("a")))
            state.sync()
            error = state.error()
            outcome.texts += [state.text(), repr(state), state.snapshot().to_json()]
            if error is None:
                outcome.texts.append(str(state.get_meta_info("a")))
        finally:
            records = model.log.read().records
            outcome.texts += [repr(model), repr(model.usage()), str(model.usage().rows())]
            outcome.texts += [str(record.event) for record in records]
            for run in {getattr(record.event, "run", None) for record in records} - {None}:
                view = RunState(run)
                for record in records:
                    view.apply(record)
                outcome.texts.append(run_text(view))
            model.close()
        if error is not None:
            raise error

    def hits(self) -> int:
        """Connections to the other host, as counted there."""
        import urllib.request

        with urllib.request.urlopen(f"{self.service.url}/hits") as answer:
            return int(json.load(answer)["hits"])


def _backend(attack: Attack, url: str) -> Any:
    options: dict[str, Any] = {"api_key": KEY, "format_tries": 1, "timeout": TIMEOUT}
    options["tries"] = attack.tries
    match attack.backend:
        case "chat" | "text":
            chat = attack.backend == "chat"
            return sgl.OpenAI("m", chat, base_url=f"{url}/v1", **options)
        case "sglang":
            return sgl.RuntimeEndpoint(url, chat_template=PLAIN, **options)
        case "sglang-info":
            return sgl.RuntimeEndpoint(url, **options)
        case "litellm":
            return sgl.LiteLLM("openai/m", base_url=f"{url}/v1", **options)
        case "claude":
            return sgl.Anthropic("claude-haiku-4-5", base_url=url, **options)
        case other:
            raise AssertionError(other)


def _locals(error: BaseException) -> Iterator[str]:
    """Yield the local variables of the package's frames, which verbose tracebacks print."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if "/sgnb/" in frame.f_code.co_filename:
            for value in frame.f_locals.values():
                with suppress(Exception):  # of an object that is not made yet
                    yield repr(value)


_NO_ENGINE: Any = SimpleNamespace(chat=PLAIN, special_tokens=None, engine=None)

_watches: list[Watch] = []


def _watch() -> Watch:
    if not _watches:
        _watches.append(Watch())
    return _watches[0]
