"""A client sends each image once. Tokens equal the tokens of an engine in the kernel."""

from __future__ import annotations

import gc
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sgnb as sgl
from sgnb.backends.remote.engine_host import EngineHost
from sgnb.backends.remote.registry import tokenizer_source
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine
from sgnb.errors import MediaError, RequestError
from sgnb.media import Image

from .conftest import TOKEN, dial, wait_until


def picture(seed: int) -> Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8)
    return Image(pixels)


@sgl.function
def describe(s: Any, first: Image, second: Image) -> None:
    s += "A: " + sgl.image(first) + " B: " + sgl.image(second) + " What differs? "
    s += sgl.gen("answer", max_tokens=6, temperature=0)


def test_images_are_identical_and_sent_once(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    with Engine("tiny-vision", device="cpu", dtype="float32", max_total_tokens=4096) as engine:
        assert engine.tokenizer is not None
        host = EngineHost(engine, listener, TOKEN, tokenizer_source("tiny-vision"))
        remote = RemoteEngine(dial(str(tmp_path / "s")), TOKEN, "images", engine.tokenizer.hf)
        first, second = picture(1), picture(2)
        rows = [{"first": first, "second": second}, {"first": second, "second": first}]
        answers = []
        for backend in (engine, remote):
            engine.flush_cache()
            states = describe.run_batch(rows, backend=backend)
            answers.append([state["answer"] for state in states])
        assert answers[0] == answers[1]
        assert remote.modalities == engine.modalities
        assert len(remote.items._items) == 2

        (session,) = host._sessions
        assert len(session._items) == 2
        names = remote.items.names([remote.vocab_size])
        assert [name.media for name in names] == ["image"]
        with pytest.raises(RequestError):  # a part of an image
            remote.generate([5, remote.vocab_size, 6], max_new_tokens=1)
        with pytest.raises((RequestError, MediaError)):
            remote.generate([5, 10**8], max_new_tokens=1)

        third, digest = picture(3), picture(3).digest
        assert remote.items.find(third) == remote.items.find(picture(3))
        assert digest in session._items
        del third
        gc.collect()
        wait_until(lambda: digest not in session._items)  # no client holds the content
        remote.close()
        host.close()
