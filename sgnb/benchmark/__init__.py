"""Benchmarks in the notebook: a program over rows, compared with ablations, other libraries and
servers in paired rounds. Knows no notebook.

A `Workload` (workload.py) defines the work. `opponents.bench` builds a side per opponent
(variants.py, peers.py, endpoint.py), verifies equal work (work.py) and measures (runner.py).
`findings` and `plot` present the statistics (stats.py).

The package is not named after the public function `sgnb.bench`, because importing the package would
hide the function.
"""

from .measurement import ROUNDS, Measurements
from .opponents import OPPONENTS, bench, check_opponents
from .variants import ABLATIONS as TECHNIQUES
from .workload import Workload

__all__ = [
    "OPPONENTS",
    "ROUNDS",
    "TECHNIQUES",
    "Measurements",
    "Workload",
    "bench",
    "check_opponents",
]
