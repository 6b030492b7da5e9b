"""sgnb as a `Server`."""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import sgnb
from sgnb.engine.request.output import Output

from .playing import Asked
from .workloads import Call


class SgnbServer:
    """Runs calls on an engine through its public interface. `close` closes the engine."""

    name = "sgnb"
    version = getattr(sgnb, "__version__", "")

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._results: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
        self._ids: list[int] = []

    def submit(self, batch: Sequence[Asked], together: bool) -> None:
        params = [self.params(asked) for asked in batch]
        on_outputs = [partial(_put, self._results, asked.number) for asked in batch]
        self._ids += self.engine.submit([asked.prompt for asked in batch], params, on_outputs)

    def params(self, asked: Asked) -> sgnb.SamplingParams:
        return sampling(asked.call)

    def finished(self) -> list[tuple[int, list[int]]]:
        done = [self._results.get()]
        while not self._results.empty():
            done.append(self._results.get())
        for _, output in done:
            if output.error:
                raise output.error
        return [(number, output.token_ids) for number, output in done]

    def flush(self) -> None:
        self._ids.clear()
        self.engine.flush_cache()

    def reset(self) -> None:
        self.engine.abort(self._ids)
        self._ids.clear()
        self._results = queue.SimpleQueue()

    def close(self) -> None:
        self.engine.close()


def await_kernels(engine: sgnb.Engine) -> None:
    """Wait for the background compilation of kernels, with a message, because compilation can take
    minutes."""
    if not engine.stats()["compiling"]:
        return
    print("waiting for kernels that are compiled in the background ...", flush=True)
    began = time.perf_counter()
    while engine.stats()["compiling"]:
        engine.generate([16] * 32, temperature=0, max_new_tokens=2, ignore_eos=True)
        time.sleep(0.1)
    print(f"they serve after {time.perf_counter() - began:.0f} s", flush=True)


def _put(results: queue.SimpleQueue[tuple[int, Output]], number: int, output: Output) -> None:
    results.put((number, output))


def sampling(call: Call) -> sgnb.SamplingParams:
    return _sampling(call.new, call.schema, call.score_from)


@lru_cache
def _sampling(new: int, schema: str | None, score_from: int | None) -> sgnb.SamplingParams:
    options: dict[str, Any] = {"max_new_tokens": new, "temperature": 0}
    if schema is not None:
        return sgnb.SamplingParams(json_schema=schema, json_whitespace=0, **options)
    if score_from is not None:
        options |= {"return_logprob": True, "logprob_start_len": score_from}
    return sgnb.SamplingParams(ignore_eos=True, **options)


@contextmanager
def no_compiled_grammars() -> Iterator[None]:
    """Grammars that an earlier run compiled are on the disk; inside, they are not found."""
    before = os.environ.get("SGNB_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SGNB_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["SGNB_CACHE"]
            if before is not None:
                os.environ["SGNB_CACHE"] = before
