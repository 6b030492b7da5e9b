"""Benchmarks for a GPU: the same workloads on sgnb, vLLM and SGLang, ablations, where the time
goes, a soak, images.

`python -m benchmarks.gpu.serving`, `.ablations`, `.overhead`, `.soak`, `.memory_cycle`, `.ready`,
`.models`, `.vision` and `.peers` each run alone; `--help` of each says how.
"""
