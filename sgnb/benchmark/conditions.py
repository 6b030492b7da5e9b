"""Measurement conditions of reports: model, machine, versions, date. Measures nothing."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine import Engine


def machine() -> str:
    """Return processor, cores, torch version and GPU as one line."""
    import torch

    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        if info.exists()
        else []
    )
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, torch {torch.__version__}{gpu}"


def conditions(engine: Engine) -> dict[str, str]:
    """Return the conditions of a measurement.

    Args:
        engine: Engine under test.

    Returns:
        Display text by label: model, machine, versions, date.
    """
    import torch

    from .. import __version__

    states = engine.stats().get("states")
    pool = f"KV pool {engine.pool_tokens:,} tokens" + (f", {states:,} states" if states else "")
    running = f"at most {engine.options.max_running_requests:,} requests at once"
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return {
        "model": f"{engine.model_name}, {engine.dtype} on {engine.device}, {engine.attention}"
        f" attention, {pool}, {running}",
        "machine": f"{machine()}, {torch.get_num_threads()} threads{load}",
        "versions": f"sgnb {__version__}, transformers {version('transformers')},"
        f" Python {platform.python_version()}",
        "date": datetime.now().astimezone().isoformat(" ", "minutes"),
    }
