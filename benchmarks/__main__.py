"""`python -m benchmarks [NAME ...] [--write]`: run all, or those named; --write puts the tables into RESULTS.md."""

from __future__ import annotations

import argparse
import datetime
from importlib import import_module
from pathlib import Path

from .common import Report, machine

NAMES = (
    "first_token",
    "single_stream",
    "shared_prefix",
    "hit_rate",
    "programs",
    "grammar_compile",
    "json_speed",
    "json_peers",
)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS.name}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    reports: list[Report] = []
    for name in arguments.names or NAMES:
        print(f"running {name} ...", flush=True)
        reports.append(import_module(f".{name}", __package__).run())
        print(reports[-1].markdown(), flush=True)
    if arguments.write:
        head = f"# Results\n\n`python -m benchmarks --write` on {machine()}; {datetime.date.today()}.\n\n"
        RESULTS.write_text(head + "\n".join(report.markdown() for report in reports), encoding="utf-8")
    return int(any(report.met is False for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
