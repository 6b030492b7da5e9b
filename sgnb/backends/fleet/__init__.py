"""Several engines as one executor. `router`, `cost`, `fairness` and `block_index` are pure code:
time is an argument. The simulator of `benchmarks/routing` runs the same code."""
