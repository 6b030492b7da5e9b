"""Engines over small random models. One torch thread: these tensors are too small for more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sgnb.engine.engine import Engine

from ..random_models import random_model


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def on_the_cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is a GPU: what runs there has a marker."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Makes engines over `random_model` of a family, and closes them at the end of the test."""
    made: list[Engine] = []

    def make(family: str = "llama", config: dict[str, Any] | None = None, **options: Any) -> Engine:
        made.append(Engine(random_model(family, **(config or {})), **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
