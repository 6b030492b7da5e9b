"""The row of `%sglang doctor` about kernels of packed weights, on pretended machines."""

from __future__ import annotations

import importlib.util
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from sgnb.engine.fusion import scaled_products
from sgnb.magics import doctor


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretends a GPU, Triton, and the answer of the check of FP8 inputs."""

    def pretend(gpu: bool, triton: bool, answer: bool | Exception = True) -> Mock:
        asked = Mock(side_effect=[answer])
        monkeypatch.setattr(doctor, "_version", lambda package: "1.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: name != "triton" or triton or None
        )
        monkeypatch.setattr(scaled_products, "is_supported", asked)
        return asked

    return pretend


@pytest.mark.parametrize(
    ("gpu", "triton", "words"),
    [(False, True, "a CPU decodes"), (True, False, "without triton: the GPU decodes")],
)
def test_without_kernels(gpu: bool, triton: bool, words: str, machine: Any) -> None:
    asked = machine(gpu, triton)
    row = doctor._packed_kernels()
    assert row["ok"] == "yes" and words in row["found"]
    assert not asked.called


@pytest.mark.parametrize(("answer", "words"), [(True, "on tensor cores"), (False, "not supported")])
def test_fp8_inputs_are_checked(answer: bool, words: str, machine: Any) -> None:
    asked = machine(True, True, answer)
    row = doctor._packed_kernels()
    asked.assert_called_once_with(torch.device("cuda"))
    assert row["ok"] == "yes" and words in row["found"]


def test_a_check_that_fails(machine: Any) -> None:
    machine(True, True, torch.OutOfMemoryError("out of memory\nof 80 GiB"))
    row = doctor._packed_kernels()
    assert row["ok"] == "no" and row["found"].endswith("unknown: out of memory") and row["cure"]
