"""Small versions of the workloads of arXiv 2312.07104 on the bundled model: each with and without
the technique. Measured in processor time, to reduce the effect of other processes."""

from __future__ import annotations

import sgnb
from sgnb.benchmark.paper import workloads

from .claims import claimed
from .common import Report


def run() -> Report:
    title = "Workloads of the paper, made small, bundled model (CPU)"
    return claimed(title, workloads(), lambda options: sgnb.Engine("tiny", **options))
