"""`python -m benchmarks.gpu.serving`: every workload on sgnb, and on peers that are at hand, beside limits and bars.

One process runs sgnb; peers run in processes of their own, after it. --measured takes figures of earlier runs, so that
sgnb and the peers can be measured in different commands. --shape chooses the model; each has its
own table.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..common import Report
from .more_workloads import WORKLOADS
from .naming import NAMES, ONLY_HELP, chosen_names
from .playing import REPETITIONS, measure
from .ready import READY, first_token
from .results import Results
from .shapes import LLAMA_8B, SHAPES, TOYS, Shape
from .table import make_table


def run() -> list[Report]:
    """All workloads at every shape, with the peers that the variable PEERS names:
    "vllm=DIR sglang=DIR".

    Without a GPU, at toy sizes: that shows that they run, not how fast.
    """
    import torch

    gpu = torch.cuda.is_available()
    names = list(NAMES) if gpu else list(WORKLOADS)
    return [_run_shape(shape, names, toy=not gpu) for shape in (SHAPES if gpu else TOYS).values()]


def _run_shape(shape: Shape, names: Sequence[str], toy: bool) -> Report:
    results = Results(model=shape.name)
    run_sgnb(results, names, shape, toy=toy)
    for peer in os.environ.get("PEERS", "").split():
        run_peer(results, peer, names, shape, toy=toy)
    return make_table(results, toy=toy, shape=shape)


def run_sgnb(
    results: Results,
    names: Sequence[str],
    shape: Shape,
    *,
    toy: bool = False,
    repetitions: int = REPETITIONS,
    wait: bool = True,
    **options: Any,
) -> None:
    """Add sgnb's figures. A workload that fails is said, and the others go on.

    wait: for kernels that are compiled in the background, before anything is measured. options: of the engine.
    """
    import torch

    if READY in names:
        _attempt(results, READY, partial(first_token, shape))
    from .ours import no_compiled_grammars

    constrained = [name for name in names if name.startswith("JSON")]
    plain = [name for name in names if name not in (READY, *constrained)]
    with no_compiled_grammars():
        for group, tokenizer in ((plain, None), (constrained, make_tokenizer(toy) if constrained else None)):
            if group:
                _run_group(results, group, shape, tokenizer, toy, repetitions, wait, options)
                gc.collect()
                torch.cuda.empty_cache()  # does nothing without a GPU


def _run_group(
    results: Results,
    names: list[str],
    shape: Shape,
    tokenizer: Any,
    toy: bool,
    repetitions: int,
    wait: bool,
    options: dict[str, Any],
) -> None:
    """The workloads on one engine."""
    import torch

    from .model import random_model
    from .ours import SgnbServer, await_kernels, sgnb

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if tokenizer is not None and toy:
        shape = replace(shape, vocab=len(tokenizer))
    model = random_model(shape, device, "bfloat16" if device == "cuda" else "float32")
    with sgnb.Engine(model, tokenizer=tokenizer, device=device, **options) as engine:
        if wait:
            await_kernels(engine)
        server = SgnbServer(engine)
        for name in names:
            kind, sizes = WORKLOADS[name], {"toy": toy, "repetitions": repetitions}
            _attempt(results, name, partial(measure, server, kind, shape.token_ids, **sizes))


def make_tokenizer(toy: bool) -> Any:
    """The large one, or the bundled model's."""
    from transformers import AutoTokenizer

    from sgnb import models

    if toy:
        return AutoTokenizer.from_pretrained(models.path("tiny"))
    from .vocabulary import write_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(Path(folder))
        return AutoTokenizer.from_pretrained(folder)


def _attempt(results: Results, name: str, function: Any) -> None:
    from sgnb import __version__

    try:
        result = function()
    except Exception as error:
        traceback.print_exc()
        print(f"sgnb: {name}: failed: {type(error).__name__}: {error}", flush=True)
        return
    results.add("sgnb", __version__, name, result)
    print(f"sgnb: {name}: {result['figure']:,.2f} {result['unit']}, runs {result['seconds']} s", flush=True)


def main() -> int:
    parser = _make_parser()
    arguments = parser.parse_args()
    if arguments.repetitions < 1:
        parser.error(f"--repetitions {arguments.repetitions}: it must be 1 or more")
    if missing := [path for path in arguments.measured if not Path(path).is_file()]:
        parser.error(f"no file {missing[0]!r}")
    names = chosen_names(arguments.only)
    shape = (TOYS if arguments.toy else SHAPES)[arguments.shape]
    results = Results(arguments.out, shape.name)
    try:
        results.read(arguments.measured)
    except ValueError as error:
        parser.error(str(error))
    if not arguments.table:
        import torch

        if not torch.cuda.is_available() and not arguments.toy:
            parser.error("this needs an NVIDIA GPU; --toy shows that it runs, on a CPU too")
        sizes: dict[str, Any] = {"toy": arguments.toy, "repetitions": arguments.repetitions}
        wait = not arguments.no_wait
        run_sgnb(results, names, shape, wait=wait, **sizes, **arguments.options)
        for peer in arguments.peer:
            run_peer(results, peer, names, shape, **sizes)
    print(make_table(results, toy=arguments.toy, shape=shape).markdown(), flush=True)
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.serving", description=__doc__)
    add = parser.add_argument
    add("--shape", choices=list(SHAPES), default=LLAMA_8B.name, help="the model's family and sizes")
    add("--only", help=ONLY_HELP)
    add("--out", help="JSON file for the figures")
    add("--measured", nargs="*", default=[], help="JSON files of earlier runs at the same shape")
    peer_help = "run vllm or sglang from DIR"
    add("--peer", action="append", default=[], metavar="NAME=DIR", help=peer_help)
    add("--toy", action="store_true", help="small sizes and a small model of the family")
    add("--repetitions", type=int, default=REPETITIONS)
    add("--options", type=json.loads, default={}, help="JSON object of options for sgnb's engine")
    add("--no-wait", action="store_true", help="measure with the kernels that are ready at once")
    add("--table", action="store_true", help="only print the table of --measured")
    return parser


def run_peer(
    results: Results,
    peer: str,
    names: Sequence[str],
    shape: Shape,
    *,
    toy: bool = False,
    repetitions: int = REPETITIONS,
) -> None:
    """Add the figures of a peer, "NAME=DIR" or "NAME": what is plain, what is constrained, and the time to the first
    token, each in a fresh process."""
    name, _, site = peer.partition("=")
    plain = [n for n in names if n != READY and not n.startswith("JSON")]
    groups = [plain, [n for n in names if n.startswith("JSON")], [READY] if READY in names else []]
    with tempfile.TemporaryDirectory() as folder:
        for i, group in enumerate(filter(None, groups)):
            out = Path(folder) / f"{i}.json"
            command = [sys.executable, "-m", "benchmarks.gpu.peers", name, "--shape", shape.name]
            command += ["--only", ";".join(group), "--out", str(out)]
            command += ["--repetitions", str(repetitions), *(["--site", site] if site else [])]
            subprocess.run([*command, *(["--toy"] if toy else [])], check=False)
            if out.exists():
                results.read([out])


if __name__ == "__main__":
    raise SystemExit(main())
