"""Several engines as one executor. `router`, `cost`, `fairness` and `index` are pure code: time is
an argument, and nothing waits, so the simulator of `benchmarks/routing` runs the same code."""
