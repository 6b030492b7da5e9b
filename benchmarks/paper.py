"""The workloads of arXiv 2312.07104, made small, on the bundled model: each beside itself without
what it is to show. By processor time, so that other work on the machine shows less."""

from __future__ import annotations

import sgnb
from sgnb.benchmark.paper import workloads

from .claims import claimed
from .common import Report


def run() -> Report:
    title = "Workloads of the paper, made small, bundled model (CPU)"
    return claimed(title, workloads(), lambda options: sgnb.Engine("tiny", **options))
