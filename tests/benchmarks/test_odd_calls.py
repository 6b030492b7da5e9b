"""A few calls with odd arguments next to other requests: a small part of the campaign."""

from __future__ import annotations

import logging
import warnings

import pytest

from benchmarks import odd_values
from benchmarks.odd_calls import work


@pytest.fixture(autouse=True)
def logs_again() -> object:
    """A job silences logs and warnings of its process."""
    with warnings.catch_warnings():
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_no_call_harms_another_request() -> None:
    told = work(160, seed=3)
    assert told.raw == [] and told.wrong == [] and told.lives
    assert told.outcomes["SgnbError"] > 20 and told.outcomes["returned"] > 20
    assert told.outcomes["others"] >= 50


def test_there_are_eighty_values_and_each_is_made() -> None:
    assert odd_values.COUNT == 80
    assert len([odd_values.odd(number) for number in range(80)]) == 80
