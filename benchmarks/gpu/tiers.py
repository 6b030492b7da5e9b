"""`python -m benchmarks.gpu.tiers`: stored prefixes on a GPU. Compares loads of a long prompt, from
host memory and in a new engine from files in the page cache, with computing the prompt; and chats
that exceed the KV pool, with copies in host memory, without, and with a pool for everything.

The model has the shape of Llama-8B and random weights. `--toy` runs a small one, also on a CPU. The
same chats on peers, with as many tokens in GPU memory and 64 GB of host memory:

    python -m benchmarks.gpu.peers vllm --site DIR --only "chat, 8 turns"
        --options '{"num_gpu_blocks_override": 12500, "kv_offloading_size": 64}'
    python -m benchmarks.gpu.peers sglang --site DIR --only "chat, 8 turns"
        --options '{"max_total_tokens": 200000, "enable_hierarchical_cache": true,
        "hicache_size": 64}'
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import replace
from typing import Any

import torch

from sgnb.engine.cache.tiers.host import ARENA_BYTES
from sgnb.engine.cache.tiers.host_memory import allocate_pinned
from sgnb.engine.engine import Engine
from sgnb.events import PrefixLoaded

from ..common import Report, tokens
from .model import random_model
from .more_workloads import WORKLOADS
from .ours import SgnbServer, await_kernels
from .playing import WARM_UP_SEED, play
from .shapes import LLAMA_8B, TOY
from .workloads import Kind

READY_MS = 65
"""Longest load of the prompt from host memory, in milliseconds."""

MOST_OF_PREFILL = 0.4
"""Longest first token from the page cache, as a part of the time to compute it."""

LEAST_OF_LIMIT = 0.85
"""Least speed of chats beyond the pool, as a part of the speed with a pool for everything."""

CHATS = WORKLOADS["chat, 8 turns"]

GREEDY = {"temperature": 0, "ignore_eos": True}
WAIT_SECONDS = 30.0
COUNTS = "computed_tokens", "loaded_tokens", "dropped_blocks"


def ask(engine: Engine, prompt: list[int]) -> tuple[float, list[int]]:
    """Return the seconds to the first token of a prompt, and the token."""
    began = time.perf_counter()
    output: Any = engine.generate(prompt, max_new_tokens=1, **GREEDY)
    return time.perf_counter() - began, output.token_ids


def loads(engine: Engine) -> list[PrefixLoaded]:
    events = (record.event for record in engine.log.read(0).records)
    return [event for event in events if isinstance(event, PrefixLoaded)]


def await_copies(engine: Engine, blocks: int) -> float:
    """Return the seconds until `blocks` blocks are stored, or until `WAIT_SECONDS` passed."""
    began = time.perf_counter()
    while engine.stats()["stored_blocks"] < blocks and time.perf_counter() < began + WAIT_SECONDS:
        time.sleep(0.01)
    return time.perf_counter() - began


def measure_pinning(device: str) -> list[tuple[Any, ...]]:
    """Time the allocation of pinned memory, an arena of a store at a time."""
    if device != "cuda":
        return []
    count, arenas = 8, []
    began = time.perf_counter()
    for _ in range(count):
        arenas.append(allocate_pinned(torch.device(device), ARENA_BYTES))
    seconds = (time.perf_counter() - began) / (count * ARENA_BYTES / 2**30)
    return [("pinned memory, s per GiB", round(seconds, 3), "", "")]


def measure_loads(model: Any, device: str, length: int) -> list[tuple[Any, ...]]:
    """Time a prompt of `length` tokens computed, from host memory, and from files."""
    rng, vocab = random.Random(3), model.config.vocab_size
    prompts = [tokens(rng, length, vocab) for _ in range(4)]
    rows: list[tuple[Any, ...]] = []

    with tempfile.TemporaryDirectory() as folder:
        pool = 2 * length + 1024
        with Engine(model, device=device, max_total_tokens=pool, host_cache=16) as engine:
            warm(engine, rng, vocab, length)
            computed, token = ask(engine, prompts[0])
            await_copies(engine, length // 64)
            for prompt in prompts[1:]:  # evict the first one
                ask(engine, prompt)
            before = len(loads(engine))
            from_host, again = ask(engine, prompts[0])
            found = loads(engine)[before:]
            rows.append(("computed: first token, ms", round(1e3 * computed, 1), "", ""))
            rows.append(row("from host memory", from_host, found, token == again))
            if found:
                ready = round(1e3 * found[-1].seconds, 1)
                rows.append(("host memory: load, ms", ready, READY_MS, ready <= READY_MS))

        with Engine(model, device=device, max_total_tokens=pool, disk_cache=folder) as engine:
            warm(engine, rng, vocab, length)
            ask(engine, prompts[0])
            engine.pin(prompts[0])
            waited = await_copies(engine, length // 64)
            rows.append(("copies to files, s", round(waited, 1), "", ""))
        with Engine(model, device=device, max_total_tokens=pool, disk_cache=folder) as engine:
            warm(engine, rng, vocab, length // 4)
            from_disk, again = ask(engine, prompts[0])
            rows.append(row("from the page cache", from_disk, loads(engine), token == again))
            part = from_disk / computed
            met = part <= MOST_OF_PREFILL
            rows.append(("page cache: part of computing", round(part, 2), MOST_OF_PREFILL, met))
    return rows


def row(name: str, seconds: float, found: list[PrefixLoaded], same: bool) -> tuple[Any, ...]:
    loaded = sum(event.tokens for event in found)
    detail = f"{loaded:,} tokens loaded, the same token: {'yes' if same else 'no'}"
    return f"{name}: first token, ms", round(1e3 * seconds, 1), detail, same and bool(found)


def warm(engine: Engine, rng: random.Random, vocab: int, length: int) -> None:
    """Compile kernels, and let the engine learn the costs of its steps."""
    await_kernels(engine)
    for part in (16, 8, 4, 2, 1):
        ask(engine, tokens(rng, length // part, vocab))


def measure_chat(
    model: Any, device: str, chats: Kind, toy: bool, pool: int, host: float
) -> list[tuple[Any, ...]]:
    """Time chats with a pool for everything, and with a smaller pool with and without copies.

    In each turn all sessions ask, and the next turn begins behind the last answer.
    """
    vocab, workload = model.config.vocab_size, chats.make(0, model.config.vocab_size, toy)
    few = replace(chats, full=chats.full | {"sessions": 8, "turns": 2})
    everything = 2 * sum(len(call.tokens) + call.new for call in workload.calls)
    settings: dict[str, dict[str, Any]] = {
        "pool for everything": {"max_total_tokens": everything},
        "pool and host memory": {"max_total_tokens": pool, "host_cache": host},
        "pool alone": {"max_total_tokens": pool},
    }
    times, rows = dict[str, float](), list[tuple[Any, ...]]()
    for name, options in settings.items():
        with Engine(model, device=device, **options) as engine:
            await_kernels(engine)
            server = SgnbServer(engine)
            play(server, few.make(WARM_UP_SEED, vocab, toy), levels=True)
            server.flush()
            before, began = engine.stats(), time.perf_counter()
            play(server, workload, levels=True)
            times[name] = round(time.perf_counter() - began, 2)
            after = engine.stats()
        counts = ", ".join(f"{key} {after[key] - before[key]:,}" for key in COUNTS if key in after)
        rows.append((f"chats, {name}, s", times[name], counts, ""))
        print(*rows[-1], sep=" | ", flush=True)
    part = times["pool for everything"] / times["pool and host memory"]
    rows.append(
        ("chats: part of the limit", round(part, 2), LEAST_OF_LIMIT, part >= LEAST_OF_LIMIT)
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tiers", description=__doc__)
    parser.add_argument("--length", type=int, default=20_000, help="tokens of the long prompt")
    parser.add_argument("--sessions", type=int, default=CHATS.full["sessions"])
    parser.add_argument("--turns", type=int, default=CHATS.full["turns"])
    parser.add_argument("--pool", type=int, default=200_000, help="tokens of the small pool")
    parser.add_argument("--host", type=float, default=64.0, help="GiB of host memory for chats")
    parser.add_argument("--toy", action="store_true", help="small model and small sizes")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.toy:
        given.length, given.pool = 2000, 1200
    model = random_model(
        TOY if given.toy else LLAMA_8B, device, "bfloat16" if device == "cuda" else "float32"
    )
    report = Report(
        f"Stored prefixes, {TOY.title if given.toy else LLAMA_8B.title}",
        ("", "measured", "bar, or counts", "met"),
    )
    report.rows = measure_pinning(device) + measure_loads(model, device, given.length)
    for each in report.rows:
        print(*each, sep=" | ", flush=True)
    chats = replace(CHATS, full=CHATS.full | {"sessions": given.sessions, "turns": given.turns})
    report.rows += measure_chat(model, device, chats, given.toy, given.pool, given.host)
    print(report.markdown())


if __name__ == "__main__":
    main()
