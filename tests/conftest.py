"""What all tests share, in any number of workers: tests marked `gpu` skip where torch sees no
GPU, and those in a browser, which wait a lot, come first."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A shell ignores interrupts in what it starts in the background, and the tests of interrupts would
# wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported: other tests run beside this one, and the tensors of most are too small
# for more threads.
os.environ["OMP_NUM_THREADS"] = "1"

# Proofs and grammars of tests are not the user's: one folder for all workers, and what they start.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="sgnb-tests-")
    os.environ["SGNB_CACHE"] = _cache.name

# litellm fetches a table of prices as it is imported, and tries again for 7 s without a network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

# A busy machine is slow.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# jsonschema compiles 38 grammars of addresses with lark at its import, if this package is present.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Import before transformers: processors of images need torchvision or the stand-in.
importlib.import_module("tests.torchvision_stand_in")

# Tests take `Engine` from its module; programs find its executor through this package.
importlib.import_module("sgnb.backends")


_modules = 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Imports leave no garbage, and a collection visits each module and test: 3 s per worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Freeze the heap before the first engine, which otherwise unfreezes the heap at its end."""
    pytest_runtest_logfinish()


def pytest_runtest_logfinish() -> None:
    """Freeze imported modules: each engine collects garbage at its end."""
    global _modules
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()


LONGEST = (
    "/browser/", "/test_notebooks.", "benchmarks/test_models.", "/test_hybrids.",
    "_in_the_interpreter", "/test_rank_processes.", "/test_compile.", "/test_lifetime.",
    "/test_multimodal.", "/test_quantized_formats.", "/magics/test_kernel", "/test_parity.",
)  # fmt: skip
"""Slow tests that begin first: a long file at the end would leave the other workers idle."""


def _is_no_browser_test(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is None


def _place(item: pytest.Item) -> int:
    """Return the place of a slow test in `LONGEST`, or its length for other tests."""
    return next((i for i, part in enumerate(LONGEST) if part in item.nodeid), len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_place if config.option.markexpr == "slow" else _is_no_browser_test)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU that torch can use"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute the tests by file, because tests of a file share engines and models. All tests of
    the browser, of the Jupyter kernel and of Triton's interpreter each have one worker."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = "/browser/", "/magics/test_kernel", "in_the_interpreter"
            file = nodeid.partition("::")[0]
            return next((part for part in shared if part in nodeid), file)

        def _reschedule(self, node: Any) -> None:
            """Forget completed tests, which xdist counts again after each test."""
            units = self.assigned_work[node]
            for scope in [scope for scope, unit in units.items() if all(unit.values())]:
                del units[scope]
            super()._reschedule(node)

    config.option.loadscopereorder = False
    return Scheduling(config, log)
