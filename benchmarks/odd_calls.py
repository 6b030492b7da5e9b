"""`python -m benchmarks.odd_calls --calls 10000 --jobs 1 --seed 0`: public methods of engine,
executor and session with arguments drawn from 80 odd values, next to 50 requests.

The 50 requests are asked again and again and must get the tokens of an engine of their own. Each
call returns, or raises an SgnbError; the engine lives. A job is an engine in a process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import multiprocessing
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count as numbers
from typing import Any, NamedTuple

import torch

from sgnb.backends import executor_of
from sgnb.backends.local import CallOverrides, LocalExecutor
from sgnb.engine.cache.sequence import SHARED, CacheScope
from sgnb.engine.engine import Engine
from sgnb.engine.request.request_state import NO_ORIGIN, Origin
from sgnb.errors import SgnbError
from sgnb.lang.executor import Call, ScoreCall
from sgnb.magics.session import Session
from sgnb.sampling import SamplingParams
from sgnb.segment import Segment

from . import odd_values
from .common import Report
from .fuzz_engine import ATTENTION, answers, drawn, engine, wait_until_whole

CALLS = 10_000
OTHERS = 50
"""Requests that are asked next to the calls."""

THREADS = 8
"""Threads that call."""

NATURAL = 0.4
"""Share of arguments with a natural value."""

SECONDS = 60.0
"""Time until a call without an end counts as hanging."""

FIRST_ID = 10**7
"""First request id, above every odd value: an odd `abort` ends no request."""

Arguments = dict[str, Any]


class Target(NamedTuple):
    """Objects with public methods."""

    engine: Engine
    executor: LocalExecutor
    session: Session


class Method(NamedTuple):
    """A public method, and natural arguments for it."""

    call: Callable[..., Any]
    natural: Arguments


def listener(*outputs: Any) -> None:
    """A listener that raises."""
    raise RuntimeError("in a listener")


PROMPT = [5, 6, 7]
PARAMS = SamplingParams(max_new_tokens=2, temperature=0)
CALL = Call("The", PARAMS, "run", "0", "name")
SCORE = ScoreCall("The", (" a", " b"), False, "run", "0", "name")


def generate(target: Target, **arguments: Any) -> Any:
    made = target.engine.generate(**arguments)
    return list(made) if arguments["stream"] is True else made


def agenerate(target: Target, **arguments: Any) -> Any:
    async def ask() -> Any:
        made = await target.engine.agenerate(**arguments)
        return [part async for part in made] if arguments["stream"] is True else made

    return asyncio.run(ask())


def with_option(target: Target, name: Any, value: Any) -> Any:
    return target.engine.generate(PROMPT, {"max_new_tokens": 2, name: value})


# `target` is positional-only below: methods may have a parameter of this name.
def of_engine(name: str, **natural: Any) -> Method:
    return Method(lambda target, /, **given: getattr(target.engine, name)(**given), natural)


def of_executor(name: str, **natural: Any) -> Method:
    return Method(lambda target, /, **given: getattr(target.executor, name)(**given), natural)


def of_session(name: str, **natural: Any) -> Method:
    return Method(lambda target, /, **given: getattr(target.session, name)(**given), natural)


def of_cache(name: str, **natural: Any) -> Method:
    return Method(lambda target, /, **given: getattr(target.session.cache, name)(**given), natural)


ASKED: Arguments = {"prompt": PROMPT, "sampling_params": PARAMS, "stream": False}
METHODS: dict[str, Method] = {
    "generate": Method(generate, ASKED),
    "generate of a text": Method(generate, ASKED | {"prompt": "The"}),
    "generate as a stream": Method(generate, ASKED | {"stream": True}),
    "generate with an option": Method(with_option, {"name": "top_k", "value": 3}),
    "agenerate": Method(agenerate, ASKED),
    "submit": of_engine(
        "submit", prompts=[PROMPT], params=[PARAMS], on_outputs=[listener], stream=False,
        origins=[NO_ORIGIN], cache_scopes=[SHARED],
    ),
    "encode": of_engine("encode", prompts=["The", [Segment("fox")]]),
    "abort": of_engine("abort", request=[1, 2]),
    "flush_cache": of_engine("flush_cache", namespace="mine"),
    "pin": of_engine("pin", what=PROMPT, owner="me", namespace=""),
    "unpin": of_engine("unpin", node=1, owner="me"),
    "evict": of_engine("evict", node=3),
    "switch": of_engine("switch", schedule_policy="fcfs", overlap=True),
    "check_weights": of_engine("check_weights", changed=False),
    "cached_length": of_engine("cached_length", prompt=PROMPT),
    "why_waiting": of_engine("why_waiting", run="run", branch="0"),
    "compiled_grammar": of_engine("compiled_grammar", number=1),
    "executor.generate": of_executor("generate", call=CALL, sink=listener),
    "executor.score": of_executor("score", call=SCORE, sink=listener),
    "executor.fill_cache": of_executor("fill_cache", prompts=[PROMPT]),
    "executor.encode": of_executor("encode", segments=[Segment("fox")]),
    "executor.cached_length": of_executor("cached_length", tokens=PROMPT),
    "executor.knows_unconditional": of_executor("knows_unconditional", tokens=(5, 6)),
    "executor.with_overrides": of_executor("with_overrides", overrides=CallOverrides()),
    "cache.pin": of_cache("pin", target=1),
    "cache.unpin": of_cache("unpin", target=1),
    "cache.evict": of_cache("evict", node=1),
    "sgnb.flush_cache": of_session("flush_cache", backend=None),
    "sgnb.get_server_info": of_session("get_server_info", backend=None),
    "sgnb.cancel": of_session("cancel", run="all"),
}  # fmt: skip


class Told(NamedTuple):
    """Result of a job."""

    outcomes: Counter[str]  # calls by outcome, and requests next to the calls
    raw: list[str]  # calls with another error than SgnbError, or without an end
    wrong: list[Any]  # requests with other tokens
    lives: bool


def inside(value: Any, rng: random.Random) -> Any:
    """An odd value, or a list or a record with an odd value in it."""
    odd = odd_values.odd(rng.randrange(odd_values.COUNT))
    if isinstance(value, list) and value and rng.random() < 0.4:
        return [*value[:-1], inside(value[-1], rng)]
    if isinstance(value, Origin | Segment | CacheScope) and rng.random() < 0.4:
        return value._replace(**{rng.choice(value._fields): odd})
    return odd


def drawn_arguments(method: Method, rng: random.Random) -> Arguments:
    """Arguments of a call: some natural, some odd. The name of an option is mostly a real name."""
    arguments = {
        name: value if rng.random() < NATURAL else inside(value, rng)
        for name, value in method.natural.items()
    }
    if method.call is with_option and (rng.random() < 0.9 or not _is_key(arguments["name"])):
        arguments["name"] = rng.choice(SamplingParams.names())
    return arguments


def _is_key(value: Any) -> bool:
    """Return whether the value can be a key."""
    try:
        return bool({value: True})
    except Exception:
        return False


class Campaign:
    """Calls of one job, on threads."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.outcomes = Counter[str]()
        self.raw: list[str] = []
        self._open: dict[int, tuple[str, float]] = {}  # by thread, its call and since when

    def work(self, count: int, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(count):
            name = rng.choice(list(METHODS))
            self._open[seed] = name, time.monotonic()
            self._call(name, drawn_arguments(METHODS[name], rng))
        self._open.pop(seed, None)

    def _call(self, name: str, arguments: Arguments) -> None:
        try:
            METHODS[name].call(self._target, **arguments)
            self.outcomes["returned"] += 1
        except SgnbError:
            self.outcomes["SgnbError"] += 1
        except BaseException as error:
            said = ", ".join(f"{key}={type(value).__name__}" for key, value in arguments.items())
            self.raw.append(f"{name}({said}): {type(error).__name__}: {error}")

    def hanging(self) -> list[str]:
        """Calls without an end for `SECONDS`."""
        now = time.monotonic()
        return [f"{n}: hangs" for n, since in self._open.values() if now - since > SECONDS]


def work(count: int, seed: int) -> Told:
    """`count` calls on an engine of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable()  # of listeners that raise
    rng = random.Random(seed)
    pool = drawn(ATTENTION, OTHERS * 2, seed)[:OTHERS]
    others, expected = [case for case, _ in pool], [answer for _, answer in pool]
    wrong: list[Any] = []
    with engine(ATTENTION, max_total_tokens=1500, max_step_tokens=64) as used:
        used._factory._ids = numbers(FIRST_ID)
        session = Session(lambda line: None)
        session.set_default_backend(used)
        campaign = Campaign(Target(used, executor_of(used), session))
        share = -(-count // THREADS)
        seeds = [rng.randrange(2**32) for _ in range(THREADS)]
        callers = [
            threading.Thread(target=campaign.work, args=(share, seed), daemon=True)
            for seed in seeds
        ]
        for caller in callers:
            caller.start()
        while any(caller.is_alive() for caller in callers) and not campaign.hanging():
            got = answers(used, others)
            campaign.outcomes["others"] += len(got)
            pairs = zip(others, expected, got, strict=True)
            wrong += [(case, right, one) for case, right, one in pairs if one != right]
        lives = False
        with contextlib.suppress(AssertionError):
            used.unpin()
            wait_until_whole(used)
            lives = not used.closed and answers(used, others[:1]) == expected[:1]
    return Told(campaign.outcomes, [*campaign.raw, *campaign.hanging()], wrong, lives)


def campaign(calls: int, jobs: int, seed: int) -> Report:
    counts, seeds = [-(-calls // jobs)] * jobs, [seed * 1000 + job for job in range(jobs)]
    if jobs == 1:
        told = [work(calls, seeds[0])]
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn) as processes:
            told = list(processes.map(work, counts, seeds))
    total = sum((one.outcomes for one in told), Counter[str]())
    raw, wrong = [each for one in told for each in one.raw], [w for one in told for w in one.wrong]
    for each in [*raw[:10], *wrong[:3]]:
        print(each, flush=True)
    lives = all(one.lives for one in told)
    return Report(
        f"Public methods with {odd_values.COUNT} odd values, next to {OTHERS} requests",
        ("calls", "returned", "SgnbError", "other errors, or none in time", "requests", "wrong"),
        [
            (
                f"{total['returned'] + total['SgnbError'] + len(raw):,}",
                f"{total['returned']:,}", f"{total['SgnbError']:,}", len(raw),
                f"{total['others']:,}", len(wrong),
            )
        ],
        bar="every other request gets its tokens, each error is an SgnbError, the engine lives",
        met=lives and not wrong and not raw,
        note=f"{jobs} engines, {len(METHODS)} methods, seed {seed}.",
    )  # fmt: skip


def run() -> Report:
    """All of it, on one engine."""
    return campaign(CALLS, 1, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.odd_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with an engine")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report = campaign(arguments.calls, arguments.jobs, arguments.seed)
    print(report.markdown(), flush=True)
    return int(not report.met)


if __name__ == "__main__":
    raise SystemExit(main())
