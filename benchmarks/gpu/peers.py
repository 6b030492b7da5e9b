"""`python -m benchmarks.gpu.peers vllm|sglang --site DIR`: the workloads on a peer, in a process of
its own.

DIR is a folder with the peer's packages, put before all others; without it the installed ones are
used. Prints a line for each workload as it is done, and writes the figures to --out. The time to
the first token is measured by `--only ready`, alone. --format packs the matrices of all layers:
their content is random, and --out names the system "FORMAT, PEER".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from .model import FORMATS, write_folder
from .more_workloads import WORKLOADS
from .naming import ONLY_HELP, chosen_names
from .peer_servers import PEERS
from .playing import REPETITIONS, measure, play
from .ready import READY, cold_environment
from .results import Results
from .shapes import LLAMA_8B, SHAPES, TOYS, Shape
from .workloads import Call, Workload

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.peers", description=__doc__)
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("--site", help="folder with the peer's packages")
    parser.add_argument("--only", help=ONLY_HELP)
    parser.add_argument("--shape", choices=list(SHAPES), default=LLAMA_8B.name)
    parser.add_argument("--out", help="JSON file for the figures")
    parser.add_argument("--toy", action="store_true", help="small sizes and a small model")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument(
        "--options",
        type=json.loads,
        default={},
        help="JSON object of options for the peer's engine",
    )
    parser.add_argument("--format", choices=list(FORMATS), help="of packed weights")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return (
        _inside(arguments)
        if arguments.inside
        else run_peer(sys.argv[1:], arguments.site, arguments.only == READY)
    )


def run_peer(arguments: list[str], site: str | None, cold: bool) -> int:
    """This module once more, in an environment for the peer. cold: nothing that was compiled before
    can be found."""
    environment = peer_environment(site)
    command = [sys.executable, "-m", "benchmarks.gpu.peers", *arguments, "--inside"]
    with tempfile.TemporaryDirectory() as folder:
        if cold:
            environment |= cold_environment(folder)
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


def peer_environment(site: str | None) -> dict[str, str]:
    """Return variables of a process that imports the packages of a folder first, and downloads
    nothing."""
    paths = [path for path in (site, str(ROOT), os.environ.get("PYTHONPATH")) if path]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


def _inside(arguments: argparse.Namespace) -> int:
    names = chosen_names(arguments.only)
    shape = (TOYS if arguments.toy else SHAPES)[arguments.shape]
    results = Results(arguments.out, shape.name)
    constrained = any(name.startswith("JSON") for name in names)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), shape, constrained, arguments.format)
        began = time.perf_counter()
        try:
            server = PEERS[arguments.peer](Path(folder), constrained, **arguments.options)
        except ModuleNotFoundError as error:
            raise SystemExit(
                f"{arguments.peer} is not here ({error}); --site DIR names a folder with it"
            ) from None
        if names == [READY]:
            _report(results, server, READY, _first_token(server, began), arguments.format)
        for name in names:
            if name != READY:
                _attempt(results, server, name, shape, arguments)
        server.close()
    return 0


def _attempt(
    results: Results, server: Any, name: str, shape: Shape, arguments: argparse.Namespace
) -> None:
    """Add a workload's figure. A failure is said, and no error."""
    kind, toy = WORKLOADS[name], arguments.toy
    # Where no call needs another, there is one way: all together.
    styles = (False, True) if kind.make(0, shape.token_ids, toy).has_levels else (True,)
    sizes = {"toy": toy, "repetitions": arguments.repetitions}
    try:
        result = measure(server, kind, shape.token_ids, styles=styles, **sizes)
    except Exception as error:
        traceback.print_exc()
        print(f"{server.name}: {name}: failed: {error}", flush=True)
        return
    _report(results, server, name, result, arguments.format)


def _first_token(server: Any, began: float) -> dict[str, Any]:
    play(server, Workload([Call(list(range(16, 32)), 1)], "s"))
    seconds = time.perf_counter() - began
    return {"figure": seconds, "unit": "s", "seconds": [seconds]}


def _report(
    results: Results, server: Any, name: str, result: dict[str, Any], format: str | None
) -> None:
    system = f"{format}, {server.name}" if format else server.name
    results.add(system, server.version, name, result)
    print(
        f"{system} {server.version}: {name}: {result['figure']:,.2f} {result['unit']} {result}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
