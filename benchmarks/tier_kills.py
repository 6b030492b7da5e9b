"""Processes with `disk_cache` that are killed at random moments: prompts with images, and a model
with recurrent layers.

All processes share a folder. Each process answers prompts, which are loaded from the files of the
processes before, until the process is killed. Every answer must have the tokens of an engine
without tiers, and no process may fail. Some files are deleted between the processes, so that each
process also writes: half of all files, but few blocks with recurrent layers, which load a prompt
as a whole.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sgnb.engine import Engine
from sgnb.media import Image
from sgnb.segment import Segment

from .common import Report

KILLS = 250
"""Kills per model."""

PROMPTS = 4
LONGEST_SECONDS = 0.7
"""Longest time from the first answer of a process to the kill."""

PATIENCE = 120
"""Seconds until a process must answer."""

TEXT = "one 17 and two 4 make 21, see "
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}
CASES = {"images": "Prompts with images, bundled model", "recurrent": "Qwen3-Next, random weights"}

Ask = Callable[[Engine, int], Any]


class Child(NamedTuple):
    """A forked process and its lines."""

    id: int
    lines: int  # file descriptor


def images() -> tuple[dict[str, Any], Ask]:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from sgnb import models

    path = models.path("tiny-vision")
    processor = AutoProcessor.from_pretrained(path)
    model = AutoModelForImageTextToText.from_pretrained(path)
    source = {"model": model, "tokenizer": processor.tokenizer, "processor": processor}
    rng = np.random.default_rng(0)
    pictures = [Image(rng.integers(0, 256, (64, 96, 3), np.uint8)) for _ in range(PROMPTS)]

    def ask(engine: Engine, number: int) -> Any:
        parts = [Segment(TEXT * 14), Segment("", "media", item=pictures[number])]
        [ids] = engine.encode([[*parts, Segment(TEXT * (6 + 4 * number))]])
        return engine.generate(ids, GREEDY)

    return source, ask


def recurrent() -> tuple[dict[str, Any], Ask]:
    from tests.hybrid_models import hybrid_model

    rng = np.random.default_rng(0)
    head = rng.integers(3, 90, 200).tolist()
    prompts = [head + rng.integers(3, 90, 200 + 64 * i).tolist() for i in range(PROMPTS)]

    def ask(engine: Engine, number: int) -> Any:
        return engine.generate(prompts[number], GREEDY)

    return {"model": hybrid_model("qwen3_next", max_position_embeddings=2048)}, ask


def serve(
    source: dict[str, Any], ask: Ask, folder: str | None, seed: int, write: Callable[[Any], None]
) -> None:
    """Answer prompts until the end of the process. Writes number, tokens and loaded tokens."""
    from sgnb.engine.cache.tiers import copies

    copies.DISK_SECONDS = copies.IDLE_SECONDS = 0.0  # all prefixes, at once
    rng, disk = random.Random(seed), False if folder is None else folder
    options: dict[str, Any] = {"device": "cpu", "disk_cache": disk, "max_total_tokens": 2048}
    with Engine(**source, **options) as engine:
        order = rng.sample(range(PROMPTS), PROMPTS) if folder else range(PROMPTS)
        while True:
            for number in order:
                before = engine.stats()["loaded_tokens"] if folder else 0
                output = ask(engine, number)
                loaded = engine.stats()["loaded_tokens"] - before if folder else 0
                write([number, list(output.token_ids), loaded])
            if folder is None:
                return
            time.sleep(rng.uniform(0, 0.05))
            engine.flush_cache()


def start(source: dict[str, Any], ask: Ask, folder: str | None, seed: int) -> Child:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return Child(child, reader)
    status = 1
    try:
        os.close(reader)

        def write(record: Any) -> None:
            os.write(writer, json.dumps(record).encode() + b"\n")

        serve(source, ask, folder, seed, write)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def read(child: Child, seconds: float, rest: bytes = b"") -> tuple[list[Any], bytes, bool]:
    """Return the records of a child within a time, an incomplete line, and whether the child has
    closed its end."""
    end, ended = time.monotonic() + seconds, False
    while not ended and (left := end - time.monotonic()) > 0:
        if select.select([child.lines], [], [], left)[0]:
            part = os.read(child.lines, 1 << 16)
            rest += part
            ended = not part
    *lines, rest = rest.split(b"\n")
    return [json.loads(line) for line in lines], rest, ended


def measure(case: str) -> Report:
    import torch

    torch.set_num_threads(1)  # forked processes have no threads of the parent
    source, ask = images() if case == "images" else recurrent()
    exact = expected(source, ask)
    rng, counts = (
        random.Random(1),
        dict.fromkeys(("answers", "wrong", "failed", "loads", "hits"), 0),
    )
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "kv"
        for kill in range(KILLS):
            child = start(source, ask, str(folder), kill)
            try:
                records, rest, ended = first_record(child)
                if not ended:
                    more, _, ended = read(child, rng.uniform(0, LONGEST_SECONDS), rest)
                    records += more
            finally:
                os.kill(child.id, signal.SIGKILL)
                os.waitpid(child.id, 0)
                os.close(child.lines)
            counts["failed"] += ended
            counts["answers"] += len(records)
            counts["wrong"] += sum(tokens != exact[number] for number, tokens, _ in records)
            counts["loads"] += sum(loaded > 0 for *_, loaded in records)
            drafts = list(folder.rglob("*.tmp"))
            counts["hits"] += bool(drafts)
            for path in drafts:
                path.unlink()
            for path in deleted(case, folder, rng):
                path.unlink(missing_ok=True)
    return table(case, counts)


def deleted(case: str, folder: Path, rng: random.Random) -> list[Path]:
    """Return random files to delete."""
    blocks, states, items = (list(folder.rglob(f"*.{kind}")) for kind in KINDS)
    if case == "images":
        files = blocks + items
        return rng.sample(files, len(files) // 2)
    return rng.sample(states, len(states) // 2) + rng.sample(blocks, len(blocks) // 8)


KINDS = ("safetensors", "state", "item")


def first_record(child: Child) -> tuple[list[Any], bytes, bool]:
    """Wait for the first answer; see `read`."""
    end, rest = time.monotonic() + PATIENCE, b""
    while time.monotonic() < end:
        records, rest, ended = read(child, 0.05, rest)
        if records or ended:
            return records, rest, ended
    return [], rest, True


def expected(source: dict[str, Any], ask: Ask) -> dict[int, list[int]]:
    """Return the answers of an engine without tiers, from a process of its own."""
    child = start(source, ask, None, 0)
    try:
        records, _, _ = read(child, PATIENCE)
    finally:
        os.waitpid(child.id, 0)
        os.close(child.lines)
    return {number: tokens for number, tokens, _ in records}


def table(case: str, counts: dict[str, int]) -> Report:
    report = Report(
        f"{CASES[case]}: {KILLS} kills of a process with disk_cache",
        ("", "measured", "bar"),
        bar="the last column",
    )
    report.rows = [
        ("answers", counts["answers"], ""),
        ("answers after a load", counts["loads"], "at least half of the kills"),
        ("kills during a write of a file", counts["hits"], "at least 1"),
        ("wrong answers", counts["wrong"], 0),
        ("processes that failed", counts["failed"], 0),
    ]
    used = counts["loads"] >= KILLS / 2 and counts["hits"] > 0
    report.met = used and not counts["wrong"] and not counts["failed"]
    return report


def run() -> list[Report]:
    return [measure(case) for case in CASES]
