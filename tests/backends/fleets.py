"""Helpers for tests of fleets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sgnb.backends.fleet.fleet_executor import FleetExecutor


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute with one thread of torch: the tensors of the bundled model are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def events(fleet: FleetExecutor, kind: type) -> list[Any]:
    """Return the events of a kind in the log of a fleet."""
    return [record.event for record in fleet.log.read().records if isinstance(record.event, kind)]
