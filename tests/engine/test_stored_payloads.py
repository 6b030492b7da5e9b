"""Prompts with images, and models with recurrent layers, on engines that share a disk cache."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.multimodal import as_media, template
from sgnb.engine import Engine
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.errors import MediaError, SgnbWarning
from sgnb.media import Image
from sgnb.segment import Segment

from ..hybrid_models import THREE, hybrid_model
from ..marks import some_are_slow
from ..multimodal_models import multimodal_model
from ..multimodal_models.items import clip, picture, sound

TEXT = "one 17 and two 4 make 21, see "
GREEDY: Any = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):  # a minute
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("nothing was stored")


def open_engine(source: Any, folder: Path | None, **options: Any) -> Engine:
    disk = False if folder is None else str(folder)
    return Engine(source, disk_cache=disk, device="cpu", max_total_tokens=4096, **options)


# Images


def image(seed: int, changed: int = 0) -> Image:
    """Return an image; nearly equal images differ in one value."""
    content: Any = as_media(picture(seed), "image")
    pixels = content.pixels.copy()
    pixels[-1, -1, -1] ^= changed
    return Image(pixels)


def prompt(*parts: Any) -> list[Segment]:
    return [Segment(p) if isinstance(p, str) else Segment("", "media", item=p) for p in parts]


def ask(engine: Engine, *parts: Any) -> tuple[list[int], int]:
    """Return the answer, and the number of cached tokens."""
    [ids] = engine.encode([prompt(*parts)])
    output: Any = engine.generate(ids, GREEDY)
    return list(output.token_ids), output.meta_info["cached_tokens"]


def multimodal(kind: str, folder: Path | None) -> Engine:
    model, processor = multimodal_model(kind)
    processor.chat_template = template(processor)
    return open_engine(model, folder, tokenizer=processor.tokenizer, processor=processor)


def store(engine: Engine, *parts: Any) -> list[int]:
    """Compute a prompt twice, so that the second use copies the prompt to the disk. A prompt with
    another end is first: models with recurrent layers keep states of prefixes that were used."""
    ask(engine, *parts[:-1], f"{parts[-1][:-9]}4 or 7")
    tokens, _ = ask(engine, *parts)
    assert ask(engine, *parts)[0] == tokens
    wait_for(lambda: engine.stats()["stored_blocks"] > 3)
    return tokens


@pytest.mark.parametrize(
    "kind", some_are_slow(["llava", "qwen2_5_vl", "gemma3", "qwen3_5"], ["llava"])
)
def test_a_new_engine_needs_neither_processor_nor_encoder(kind: str, tmp_path: Path) -> None:
    parts = TEXT * 9, image(1), " and ", image(2), TEXT * 9
    with multimodal(kind, tmp_path) as engine:
        exact = store(engine, *parts)
        wait_for(lambda: len(list(tmp_path.rglob("*.item"))) == 2)

    with multimodal(kind, tmp_path) as engine:
        assert engine.items is not None
        encoder: Any = engine.items.encoder
        process, calls = encoder.process, list[Any]()
        encoder.process = lambda content: (calls.append(content), process(content))[1]
        answer, cached = ask(engine, *parts)
        [ids] = engine.encode([prompt(*parts)])
        blocks = (len(ids) - 1) // 64
        if kind == "qwen3_5":  # with recurrent layers: 16 tokens or more before the end
            blocks = (len(ids) - 17) // 64
        assert answer == exact and cached == 64 * blocks
        assert calls == [] and engine.stats()["encoded_items"] == 0

        # Another prompt needs the rows, whose processor runs now.
        engine.flush_cache()
        other, _ = ask(engine, "see ", image(2), " what")
        assert len(calls) == 1 and engine.stats()["encoded_items"] == 1
    with multimodal(kind, None) as engine:
        assert ask(engine, "see ", image(2), " what")[0] == other


@pytest.mark.slow
def test_a_nearly_equal_image_ends_the_stored_prefix(tmp_path: Path) -> None:
    head, tail = TEXT * 12, TEXT * 9
    with multimodal("llava", tmp_path) as engine:
        exact = store(engine, head, image(1), tail)
        [ids] = engine.encode([prompt(head, image(1), tail)])
        begin = next(i for i, token in enumerate(ids) if token >= engine.vocab_size)
    with multimodal("llava", tmp_path) as engine:
        answer, cached = ask(engine, head, image(1, changed=1), tail)
        assert 0 < cached <= begin // 64 * 64
        assert ask(engine, head, image(1), tail) == (exact, (len(ids) - 1) // 64 * 64)
    with multimodal("llava", None) as engine:
        assert ask(engine, head, image(1, changed=1), tail)[0] == answer


@pytest.mark.slow
def test_a_lost_record_costs_the_encoder_only(tmp_path: Path) -> None:
    parts = TEXT * 9, image(1), TEXT * 9
    with multimodal("qwen2_5_vl", tmp_path) as engine:
        exact = store(engine, *parts)
        wait_for(lambda: len(list(tmp_path.rglob("*.item"))) == 1)
    [record] = tmp_path.rglob("*.item")
    good = record.read_bytes()
    for damaged in (good[:-3], good[:40], b"", good.replace(b"crc32", b"crc33"), b"\0" * 99):
        record.write_bytes(damaged)
        with multimodal("qwen2_5_vl", tmp_path) as engine:
            answer, cached = ask(engine, *parts)
            assert answer == exact and cached > 256
            assert engine.stats()["encoded_items"] == 1
            assert not record.exists() or record.read_bytes() == good


def test_a_record_of_another_processor_is_an_error(tmp_path: Path) -> None:
    with multimodal("llava", tmp_path) as engine:
        assert engine.items is not None
        item = engine.items.find(image(1))
        item.inputs, item.count = None, item.count + 1
        with pytest.raises(MediaError, match="in an earlier process"):
            engine.items.process_again(item, image(1)).result()


@pytest.mark.slow
def test_videos_and_sounds_are_found_again(tmp_path: Path) -> None:
    for kind, item in (
        ("qwen2_5_vl", as_media(clip(1), "video")),
        ("qwen2_audio", as_media(sound(1), "audio")),
    ):
        with multimodal(kind, tmp_path) as engine:
            exact = store(engine, TEXT * 9, item, TEXT * 9)
            wait_for(lambda: bool(list(tmp_path.rglob("*.item"))))
        with multimodal(kind, tmp_path) as engine:
            answer, cached = ask(engine, TEXT * 9, item, TEXT * 9)
            assert answer == exact and cached > 256 and engine.stats()["encoded_items"] == 0
        shutil.rmtree(tmp_path / "v1")


PARTS = st.lists(st.sampled_from([0, 1, 2, "text", "longer"]), min_size=1, max_size=5)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(prompts=st.lists(PARTS, min_size=2, max_size=4), restarts=st.integers(0, 2**32))
def test_random_prompts_answer_as_without_tiers(
    tmp_path_factory: pytest.TempPathFactory, prompts: Any, restarts: int
) -> None:
    folder, chance = tmp_path_factory.mktemp("kv"), random.Random(restarts)
    contents = {
        0: image(1), 1: image(1, changed=2), 2: image(3), "text": TEXT, "longer": TEXT * 8,
    }  # fmt: skip
    asked = [[contents[part] for part in parts] + ["tell"] for parts in prompts]
    with multimodal("gemma3", None) as engine:
        exact = [ask(engine, TEXT * 7, *parts)[0] for parts in asked]
    for _ in range(2):
        with multimodal("gemma3", folder) as engine:
            for _ in range(2 * len(asked)):
                number = chance.randrange(len(asked))
                assert ask(engine, TEXT * 7, *asked[number])[0] == exact[number]
                if chance.random() < 0.3:
                    time.sleep(0.7)  # idle: copies
                if chance.random() < 0.3:
                    engine.flush_cache()


# Recurrent layers


def hybrid(family: str, folder: Path | None, **options: Any) -> Engine:
    model = hybrid_model(family, max_position_embeddings=2048)
    return open_engine(model, folder, **options)


def tokens_of(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(3, 90, count).tolist()


def continued(engine: Engine, ids: list[int]) -> tuple[list[int], int]:
    output: Any = engine.generate(ids, GREEDY)
    return list(output.token_ids), output.meta_info["cached_tokens"]


def stored_hybrid(family: str, folder: Path, ids: list[int]) -> list[int]:
    with hybrid(family, folder) as engine:
        exact, _ = continued(engine, ids)
        continued(engine, [*ids[:-10], *tokens_of(7, 10)])  # the second use
        wait_for(lambda: bool(list(folder.rglob("*.state"))))
        wait_for(lambda: engine.stats()["stored_blocks"] >= len(ids) // 64)
    return exact


@pytest.mark.parametrize("family", some_are_slow(THREE, THREE[:1]))
def test_a_hybrid_continues_from_stored_states(family: str, tmp_path: Path) -> None:
    ids = tokens_of(1, 500)
    exact = stored_hybrid(family, tmp_path, ids)
    with hybrid(family, tmp_path) as engine:
        assert continued(engine, ids) == (exact, 448)
        stats = engine.stats()
        assert stats["loads"] == 1 and stats["loaded_tokens"] == 448
        assert stats["free"] + stats["cached"] + stats["in_flight"] == 4096

        other = [*ids[:470], *tokens_of(2, 40)]
        answer, cached = continued(engine, other)
        assert cached >= 448
    with hybrid(family, None, prefix_cache=False) as engine:
        assert continued(engine, ids)[0] == exact and continued(engine, other)[0] == answer


@pytest.mark.slow
def test_a_dropped_checkpoint_comes_back_from_host_memory() -> None:
    model = hybrid_model("qwen3_next", max_position_embeddings=2048)
    prompts = [tokens_of(seed, 400) for seed in range(8)]
    options: Any = {"device": "cpu", "max_total_tokens": 8192, "max_states": 8}
    with Engine(model, prefix_cache=False, **options) as engine:
        exact = [continued(engine, ids)[0] for ids in prompts]
    with Engine(model, host_cache=0.1, **options) as engine:
        for _ in range(3):
            assert [continued(engine, ids)[0] for ids in prompts] == exact
            wait_for(lambda: engine.stats()["stored_blocks"] > 6)
        assert engine.stats()["loads"] > 0


@pytest.mark.parametrize("suffix", [".state", ".safetensors"])
def test_damaged_files_of_a_hybrid_are_computed(suffix: str, tmp_path: Path) -> None:
    ids = tokens_of(1, 500)
    exact = stored_hybrid("qwen3_next", tmp_path, ids)
    for path in tmp_path.rglob(f"*{suffix}"):
        content = bytearray(path.read_bytes())
        content[-1 if suffix == ".safetensors" else 4096] ^= 1
        path.write_bytes(content)
    with pytest.warns(SgnbWarning, match="is damaged"), hybrid("qwen3_next", tmp_path) as engine:
        assert continued(engine, ids) == (exact, 0)
        stats = engine.stats()
        assert stats["loaded_tokens"] == 0
        assert stats["free"] + stats["cached"] + stats["in_flight"] == 4096


def test_a_payload_that_is_not_restored_refuses_the_tiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = SlotAllocator.restore

    def wrong(self: SlotAllocator, ids: Any, source: Any) -> None:
        restore(self, ids, source.roll(1, 1) if len(ids) == 1 else source)

    monkeypatch.setattr(SlotAllocator, "restore", wrong)
    message = "byte 0 of the recurrent layers' state is not restored; load without them"
    with pytest.warns(SgnbWarning, match=message), hybrid("qwen3_next", tmp_path) as engine:
        assert len(continued(engine, tokens_of(1, 300))[0]) == 8


@pytest.mark.slow
@pytest.mark.parametrize("family", THREE)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_random_requests_of_a_hybrid_answer_as_without_tiers(
    family: str, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Several requests at once, in little memory, with idle moments and restarts."""
    folder, chance = tmp_path_factory.mktemp("kv"), random.Random(seed)
    documents = [tokens_of(chance.randrange(2**32), chance.randrange(260, 600)) for _ in range(4)]
    prompts = []
    for _ in range(24):
        document = chance.choice(documents)
        end = chance.choice([len(document), chance.randrange(200, len(document))])
        prompts.append([*document[:end], *tokens_of(chance.randrange(9), chance.randrange(1, 90))])
    model = hybrid_model(family, max_position_embeddings=2048)
    with Engine(model, device="cpu", prefix_cache=False, max_total_tokens=8192) as engine:
        exact = [output.token_ids for output in engine.generate(prompts, GREEDY)]

    tight: Any = {"max_total_tokens": 1600, "max_states": 14, "host_cache": 0.01}
    for _ in range(2):
        disk = str(folder) if chance.random() < 0.7 else False
        with Engine(model, device="cpu", disk_cache=disk, **tight) as engine:
            for _ in range(4):
                chosen = [chance.randrange(len(prompts)) for _ in range(6)]
                outputs = engine.generate([prompts[i] for i in chosen], GREEDY)
                assert [output.token_ids for output in outputs] == [exact[i] for i in chosen]
                time.sleep(chance.choice([0, 0, 0.7]))
            stats = engine.stats()
            assert stats["free"] + stats["cached"] + stats["in_flight"] == 1600
            assert stats["in_flight"] == 0


CHILD = """
import sys, time
from tests.engine.test_stored_payloads import *
folder = Path(sys.argv[1])
if sys.argv[2] == "images":
    engine = multimodal("qwen2_5_vl", folder)
    run = lambda: ask(engine, TEXT * 9, image(1), TEXT * 9)[0]
else:
    engine = hybrid("qwen3_next", folder)
    run = lambda: continued(engine, tokens_of(1, 500))[0]
    continued(engine, tokens_of(1, 490) + tokens_of(7, 10))
print(run(), flush=True)
run()
print("twice", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["images", "recurrent"])
def test_killed_processes_leave_a_usable_folder(case: str, tmp_path: Path) -> None:
    """Killed at a random moment around the copies; the next process answers the same."""
    answers, chance = set(), random.Random(0)
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), case],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert child.stdout is not None
        answers.add(child.stdout.readline())
        child.stdout.readline()
        time.sleep(chance.choice([chance.uniform(0.45, 0.6), 2.0]))
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert len(answers) == 1
    assert list(tmp_path.rglob("*.state" if case == "recurrent" else "*.item"))
