"""Benchmarks in the notebook: a program over rows beside itself without a technique, and beside
other libraries, many times in turns, with what the times say and how sure that is.

A `Workload` (workload.py) is what is measured; `opponents.bench` makes a side of each opponent
(variants.py, peers.py, endpoint.py) and measures (runner.py) what is the same work (work.py);
`findings` and `plot` say and draw what was found (stats.py). Knows no notebook.

The room is not called as its public name, `sgnb.bench`, is: importing it would hide that.
"""

from .opponents import OPPONENTS, bench, check_opponents
from .runner import ROUNDS, Measured
from .variants import ABLATIONS as TECHNIQUES
from .workload import Workload

__all__ = ["OPPONENTS", "ROUNDS", "TECHNIQUES", "Measured", "Workload", "bench", "check_opponents"]
