"""Processes with `disk_cache` that are killed: prompts with images, and a model with recurrent
layers.

All processes share a folder. Each process answers prompts, which are loaded from the files of the
processes before, until the process is killed. Every answer must have the tokens of an engine
without tiers, and no process may fail. Three of four kills are at a random moment. Every fourth
process stops inside the write of a file, after a random part of the content, and tells its parent,
which then kills the process. Some files are deleted between the processes, so that each process
also writes: half of all files, but few blocks with recurrent layers, which load a prompt as a
whole.
"""

from __future__ import annotations

import io
import json
import os
import random
import select
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sgnb.engine import Engine
from sgnb.media import Image
from sgnb.segment import Segment

from .common import Report

KILLS = 250
"""Kills per model."""

WRITE_KILLS = KILLS // 4
"""Kills inside the write of a file."""

PROMPTS = 4
LONGEST_SECONDS = 0.7
"""Longest time from the first answer of a process to the kill."""

PATIENCE = 120
"""Seconds until a process must answer, or write a file."""

MOST_WRITES = 3
"""Most complete files of a process before the write with a kill."""

TEXT = "one 17 and two 4 make 21, see "
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}
CASES = {"images": "Prompts with images, bundled model", "recurrent": "Qwen3-Next, random weights"}

WRITING = "writing"
"""Message of a process inside the write of a file."""

Ask = Callable[[Engine, int], Any]


class Child:
    """A forked process with the read end of a pipe, and the messages so far.

    Attributes:
        answers: Number, tokens and loaded tokens of each answer.
        is_writing: The process waits inside the write of a file.
        ended: The process has closed its end.
    """

    def __init__(self, id: int, pipe: int) -> None:
        self._id, self._pipe, self._rest = id, pipe, b""
        self.answers: list[Any] = []
        self.is_writing = self.ended = False

    def wait(self, seconds: float, enough: Callable[[], object] = lambda: False) -> None:
        """Read messages for a time, until the end of the process, or until `enough`."""
        end = time.monotonic() + seconds
        while not self.ended and not enough() and (remaining := end - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], remaining)[0]:
                part = os.read(self._pipe, 1 << 16)
                self.ended = not part
                *lines, self._rest = (self._rest + part).split(b"\n")
                messages = [json.loads(line) for line in lines]
                self.is_writing |= WRITING in messages
                self.answers += [message for message in messages if message != WRITING]

    def kill(self) -> None:
        os.kill(self._id, signal.SIGKILL)
        os.waitpid(self._id, 0)
        os.close(self._pipe)


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


def stop_inside_write(seed: int, write: Callable[[Any], None]) -> None:
    """Let this process stop inside the write of a file, and write `WRITING`."""
    from sgnb.engine.cache.tiers import folder

    rng = random.Random(seed)
    num_complete = rng.randint(0, MOST_WRITES)

    class File(io.FileIO):
        def writelines(self, parts: Iterable[Any]) -> None:
            nonlocal num_complete
            content = b"".join(parts)
            if num_complete:
                num_complete -= 1
                self.write(content)
            else:
                self.write(content[: rng.randint(0, len(content))])
                write(WRITING)
                threading.Event().wait()  # until the kill

    folder.__dict__["open"] = File  # replaces the built-in function in this module


def start(
    source: dict[str, Any], ask: Ask, folder: str | None, seed: int, in_write: bool = False
) -> Child:
    """Fork a process that answers. in_write: the process stops inside a write."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return Child(child, reader)
    status = 1
    try:
        os.close(reader)

        def write(message: Any) -> None:
            os.write(writer, json.dumps(message).encode() + b"\n")

        if in_write:
            stop_inside_write(seed, write)
        serve(source, ask, folder, seed, write)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def measure(case: str) -> Report:
    import torch

    torch.set_num_threads(1)  # forked processes have no threads of the parent
    source, ask = images() if case == "images" else recurrent()
    exact = expected(source, ask)
    rng, drafts = random.Random(1), set[Path]()
    counts = dict.fromkeys(("answers", "wrong", "failed", "loads", "writes"), 0)
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "kv"
        for kill in range(KILLS):
            in_write = kill % 4 == 3
            for path in deleted(case, folder, rng, in_write):
                path.unlink()
            child = start(source, ask, str(folder), kill, in_write)
            try:
                if in_write:
                    child.wait(PATIENCE, lambda child=child: child.is_writing)
                else:
                    child.wait(PATIENCE, lambda child=child: child.answers)
                    child.wait(rng.uniform(0, LONGEST_SECONDS))
            finally:
                child.kill()
            counts["failed"] += child.ended or not (child.answers or in_write)
            counts["answers"] += len(child.answers)
            counts["wrong"] += sum(tokens != exact[number] for number, tokens, _ in child.answers)
            counts["loads"] += sum(loaded > 0 for *_, loaded in child.answers)
            new = set(folder.rglob("*.tmp")) - drafts
            counts["writes"] += bool(new)
            drafts |= new
    return table(case, counts)


def deleted(case: str, folder: Path, rng: random.Random, in_write: bool) -> list[Path]:
    """Return random files to delete. in_write: the next process must write more than a few."""
    blocks, states, items = (sorted(folder.rglob(f"*.{kind}")) for kind in KINDS)
    if case == "images":
        files = blocks + items
        return rng.sample(files, len(files) // 2)
    gone = states if in_write else rng.sample(states, len(states) // 2)
    return gone + rng.sample(blocks, len(blocks) // 8)


KINDS = ("safetensors", "state", "item")


def expected(source: dict[str, Any], ask: Ask) -> dict[int, list[int]]:
    """Return the answers of an engine without tiers, from a process of its own."""
    child = start(source, ask, None, 0)
    child.wait(PATIENCE)
    child.kill()
    return {number: tokens for number, tokens, _ in child.answers}


def table(case: str, counts: dict[str, int]) -> Report:
    report = Report(
        f"{CASES[case]}: {KILLS} kills of a process with disk_cache",
        ("", "measured", "bar"),
        bar="the last column",
    )
    report.rows = [
        ("answers", counts["answers"], ""),
        ("answers after a load", counts["loads"], "at least half of the kills"),
        ("kills inside the write of a file", counts["writes"], f"at least {WRITE_KILLS}"),
        ("wrong answers", counts["wrong"], 0),
        ("processes that failed", counts["failed"], 0),
    ]
    used = counts["loads"] >= KILLS / 2 and counts["writes"] >= WRITE_KILLS
    report.met = used and not counts["wrong"] and not counts["failed"]
    return report


def run() -> list[Report]:
    return [measure(case) for case in CASES]
