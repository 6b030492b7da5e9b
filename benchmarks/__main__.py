"""`python -m benchmarks [NAME ...] [--write]`: run all benchmarks, or benchmarks by name; --write
puts the tables into RESULTS.md. `grammar_wild FOLDER` and others of OF_SUITES need public
suites, and have further options: `python -m benchmarks grammar_wild --help`.

By default all benchmarks for this machine run; GPU benchmarks need a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from importlib import import_module
from pathlib import Path

from .common import Report, machine

NAMES = (
    "first_token",
    "single_stream",
    "shared_prefix",
    "hit_rate",
    "eviction",
    "programs",
    "nested_batches",
    "first_runs",
    "schema_runs",
    "grammar_compile",
    "gbnf_terminals",
    "grammar_beside",
    "grammar_neighbours",
    "json_speed",
    "jump_forward",
    "json_answers",
    "sums",
    "json_peers",
    "scheduler",
    "loop",
    "claims",
    "bench_itself",
    "turns",
    "weight_check",
    "kv_fp8",
    "remote",
    "ray_fleet",
    "views",
    "steps_shown",
    "restart",
    "tier_choices",
    "tier_chats",
    "tier_kills",
    "tier_waits",
    "tier_overhead",
    "approximate",
    "quantized",
    "compile",
    "compiler",
    "compiled_check",
    "models",
    "damaged_files",
    "damaged_media",
    "hybrid",
    "planning",
    "tensor_parallel",
    "lost_ranks",
    "bounds",
    "row_order",
    "unordered",
    "api_speculation",
    "hostile_service",
    "soak_cpu",
    "odd_calls",
    "fuzz_engine",
    "routing",
    "routing.engines",
    "routing.scaling",
    "prefill_decode",
    "paper",
    "multimodal",
    "multimodal_survey",
    "fuzz_images",
    "gpu.ablations",
)
GPU_NAMES = (
    "attention_gpu",
    "gpu.kernels",
    "gpu.quantized",
    "gpu.sustained",
    "gpu.forks",
    "gpu.serving",
    "gpu.programs",
    "gpu.profile",
    "gpu.overhead",
    "gpu.memory_cycle",
    "gpu.ranks",
    "gpu.soak",
    "gpu.models",
    "gpu.published",
    "gpu.paper",
    "gpu.hybrid",
)
"""Those that need a GPU to mean anything."""

OF_SUITES = ("grammar_wild", "grammar_walks", "grammar_verdicts")
"""Those that need a folder with public suites."""

ALL_NAMES = NAMES + GPU_NAMES
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> int:
    if sys.argv[1:] and sys.argv[1] in OF_SUITES:
        return int(import_module(f".{sys.argv[1]}", __package__).main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(ALL_NAMES)}")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS.name}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in ALL_NAMES:
            parser.error(f"no benchmark {name!r}; there are {', '.join(ALL_NAMES)}")
    reports: list[Report] = []
    for name in arguments.names or runnable():
        print(f"running {name} ...", flush=True)
        made = import_module(f".{name}", __package__).run()
        tables = made if isinstance(made, list) else [made]
        reports += tables
        for table in tables:
            print(table.markdown(), flush=True)
        if arguments.write:
            _write(name, tables)
    return int(any(report.met is False for report in reports))


def runnable() -> tuple[str, ...]:
    """What means something on this machine."""
    import torch

    return ALL_NAMES if torch.cuda.is_available() else NAMES


def _write(name: str, reports: list[Report]) -> None:
    """Replace the tables of a benchmark. Tables with their own command stay, behind the others."""
    head, *sections = RESULTS.read_text(encoding="utf-8").split("\n## ")
    tables = {section.partition("\n")[0]: section for section in sections}
    where = f"`python -m benchmarks {name} --write` on {machine()}; {datetime.date.today()}"
    tables[name] = "\n".join([f"{name}\n\n{where}\n", *(report.markdown() for report in reports)])
    names = dict.fromkeys((*ALL_NAMES, *OF_SUITES, *tables))
    ordered = [tables[name] for name in names if name in tables]
    RESULTS.write_text("\n## ".join([head, *ordered]), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
