"""Options of `%sglang load`, and of commands that run a program over rows. Knows no engine."""

from __future__ import annotations

from ..benchmark import OPPONENTS, ROUNDS
from .line import disk, identifier, integer, number, on_off, option, replicas, text

TEMPERATURE = option("--temperature", "0 is greedy", "F", number)
MAX_TOKENS = option(
    "--max-tokens",
    "maximum number of new tokens per generation",
    "N",
    integer,
    dest="max_new_tokens",
)
SEED = option("--seed", "seed for reproducible samples", "N", integer)
"""Sampling options of cells and commands."""

LOAD_OPTIONS = (
    option(
        "--as", "the engine's name (default: the last part of the path)", "NAME", text, dest="name"
    ),
    option(
        "--replicas",
        "engines of the model as one backend, or bounds such as 1..4 (default: 1)",
        "N",
        replicas,
    ),
    option("--on", "processes, threads, ray or ray://HOST:PORT: where replicas run", "W", text),
    option("--shared", "load in a process that other notebooks attach to; survives this kernel"),
    option("--device", "cpu, cuda, cuda:1, ... (default: the GPU if available)", "D", text),
    option("--dtype", "float32, bfloat16, ... (default: by device and checkpoint)", "T", text),
    option("--quantize", "fp8 or int4: quantize the weights while reading", "Q", text),
    option("--kv-dtype", "auto or fp8: keys and values in half of the memory", "T", text),
    option("--attention", "auto, torch, triton, flashinfer (default: auto)", "A", text),
    option(
        "--memory-limit",
        "GPU memory for weights, pool and work (default: most of the free memory)",
        "GIB",
        number,
    ),
    option("--max-total-tokens", "size of the KV pool (default: as large as fits)", "N", integer),
    option("--max-states", "recurrent states in the pool (default: as many as fit)", "N", integer),
    option(
        "--checkpoint-every", "tokens between two checkpoints of recurrent states", "N", integer
    ),
    option("--max-step-tokens", "maximum number of tokens per forward pass", "N", integer),
    option("--max-running-requests", "maximum number of requests per forward pass", "N", integer),
    option(
        "--tp-size --tensor-parallel",
        "number of GPUs that share the model (default: 1)",
        "N",
        integer,
    ),
    option("--context-length", "maximum number of positions per request", "N", integer),
    option("--cuda-graphs", "replay decode steps as graphs", "on|off", on_off),
    option("--overlap", "launch a step before the previous step is read", "on|off", on_off),
    option(
        "--precompile", "compile kernels while loading instead of at first use", "on|off", on_off
    ),
    option("--fuse", "fused equivalents of the model's modules", "on|off", on_off),
    option("--compile", "run the model's layers through torch.compile", "on|off", on_off),
    option("--fork-attention", "read a shared prefix once per step", "on|off", on_off),
    option(
        "--deterministic",
        "tokens never depend on the cache and on other requests",
        "on|off",
        on_off,
    ),
    option(
        "--approximate-seconds",
        "estimated prefill from which --approximate has an effect (default: 1)",
        "S",
        number,
    ),
    option(
        "--host-cache", "host memory for copies of evicted prefixes (default: none)", "GIB", number
    ),
    option(
        "--disk-cache",
        "copies of expensive prefixes on the disk, found again after a restart: on, off, GiB, or a"
        " folder",
        "WHERE",
        disk,
    ),
)

BATCH_OPTIONS = (
    option("--over", "the rows: dicts, tuples, scalars, columns or a data frame", "ITERABLE", text),
    TEMPERATURE,
    MAX_TOKENS,
    SEED,
    option("-o --out", "variable for the report", "VAR", identifier),
)
"""Options of each command that runs a program over rows."""

BENCH_OPTIONS = (
    option(
        "--vs",
        f"comma-separated opponents: {', '.join(OPPONENTS)}, an address, a program"
        " (default: without each technique)",
        "NAMES",
        text,
        former="--against",
    ),
    option("--paper", "the SGLang paper's workloads (all, or by name) instead of a program"),
    option("--repeats", f"measured rounds (default: {ROUNDS})", "N", integer),
    option("--same", "equality of all runs: text (default) or tokens", "WHAT", text),
    option("--clock", "wall (default), or cpu on a shared machine", "CLOCK", text),
    *BATCH_OPTIONS,
)

CHECK_OPTIONS = (
    option("--expect", "the answers: a column, or a function of state and row", "NAME", identifier),
    *BATCH_OPTIONS,
)

LAB_OPTIONS = (
    option("--over", "rows of arguments (default: from the controls)", "ITERABLE", text),
    option("--grid", "dict of lists of settings (default: from the controls)", "DICT", text),
    option("-o --out", "variable for the lab", "VAR", identifier),
)
