"""Benchmarks: programs, not tests. `python -m benchmarks` runs them all; see RESULTS.md for figures
with their machine."""
