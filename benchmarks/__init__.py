"""Benchmarks: programs, not tests. `python -m benchmarks` runs them all; see RESULTS.md for figures
with their machine."""

import tests.torchvision_stand_in  # noqa: F401  before transformers, which asks once for torchvision
