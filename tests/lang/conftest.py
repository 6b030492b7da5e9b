from __future__ import annotations

from collections.abc import Iterator

import pytest

from .fake import FakeExecutor


@pytest.fixture
def make() -> Iterator[type[FakeExecutor]]:
    """Makes fake executors, and closes them at the end of the test."""
    made: list[FakeExecutor] = []

    def build(*args: object, **kwargs: object) -> FakeExecutor:
        made.append(FakeExecutor(*args, **kwargs))  # type: ignore[arg-type]
        return made[-1]

    yield build  # type: ignore[misc]
    for executor in made:
        executor.close()


@pytest.fixture
def fake(make: type[FakeExecutor]) -> FakeExecutor:
    return make()
