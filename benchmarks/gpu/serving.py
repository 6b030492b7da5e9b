"""`python -m benchmarks.gpu.serving`: every workload on sgnb, and on peers that are at hand, beside limits and bars.

One process runs sgnb; peers run in processes of their own, after it. --measured takes figures of earlier runs, so that
sgnb and the peers can be measured in different commands.
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
from pathlib import Path
from typing import Any

from ..common import Report
from .limits import LLAMA_8B, TOY
from .more_workloads import WORKLOADS
from .naming import NAMES, ONLY_HELP, chosen_names
from .playing import REPETITIONS, measure
from .ready import READY, first_token
from .results import Results
from .table import make_table


def run() -> Report:
    """All workloads, with the peers that the variable PEERS names: "vllm=DIR sglang=DIR".

    Without a GPU, at toy sizes: that shows that they run, not how fast.
    """
    import torch

    gpu = torch.cuda.is_available()
    results, names = Results(), list(NAMES) if gpu else list(WORKLOADS)
    run_sgnb(results, names, toy=not gpu)
    for peer in os.environ.get("PEERS", "").split():
        run_peer(results, peer, names, toy=not gpu)
    return make_table(results, toy=not gpu, shape=LLAMA_8B if gpu else TOY)


def run_sgnb(
    results: Results,
    names: Sequence[str],
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
        _attempt(results, READY, first_token)
    chosen = [name for name in names if name != READY]
    if not chosen:
        return
    from .ours import no_compiled_grammars

    device = "cuda" if torch.cuda.is_available() else "cpu"
    constrained = [name for name in chosen if name.startswith("JSON")]
    plain = [name for name in chosen if name not in constrained]
    with no_compiled_grammars():
        for group, tokenizer in ((plain, None), (constrained, make_tokenizer(toy) if constrained else None)):
            if group:
                _run_group(results, group, device, tokenizer, toy, repetitions, wait, options)
                gc.collect()
                if device == "cuda":
                    torch.cuda.empty_cache()


def _run_group(
    results: Results,
    names: list[str],
    device: str,
    tokenizer: Any,
    toy: bool,
    repetitions: int,
    wait: bool,
    options: dict[str, Any],
) -> None:
    from .model import random_llama
    from .ours import SgnbServer, await_kernels, sgnb

    shape = TOY if toy else LLAMA_8B
    if tokenizer is not None and toy:
        shape = replace(shape, vocab=len(tokenizer))
    model = random_llama(shape, device, "bfloat16" if device == "cuda" else "float32")
    with sgnb.Engine(model, tokenizer=tokenizer, device=device, **options) as engine:
        if wait:
            await_kernels(engine)
        server = SgnbServer(engine)
        for name in names:
            _attempt(
                results,
                name,
                lambda name=name: measure(server, WORKLOADS[name], shape.vocab, toy=toy, repetitions=repetitions),
            )


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.serving", description=__doc__)
    parser.add_argument("--only", help=ONLY_HELP)
    parser.add_argument("--out", help="JSON file for the figures")
    parser.add_argument("--measured", nargs="*", default=[], help="JSON files of earlier runs")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR", help="run vllm or sglang from DIR")
    parser.add_argument("--toy", action="store_true", help="small sizes and a small model")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON object of options for sgnb's engine")
    parser.add_argument("--no-wait", action="store_true", help="measure with the kernels that are ready at once")
    parser.add_argument("--table", action="store_true", help="only print the table of --measured")
    arguments = parser.parse_args()
    if arguments.repetitions < 1:
        parser.error(f"--repetitions {arguments.repetitions}: it must be 1 or more")
    if missing := [path for path in arguments.measured if not Path(path).is_file()]:
        parser.error(f"no file {missing[0]!r}")
    names = chosen_names(arguments.only)
    results = Results(arguments.out)
    results.read(arguments.measured)
    if not arguments.table:
        import torch

        if not torch.cuda.is_available() and not arguments.toy:
            parser.error("this needs an NVIDIA GPU; --toy shows that it runs, on a CPU too")
        run_sgnb(
            results,
            names,
            toy=arguments.toy,
            repetitions=arguments.repetitions,
            wait=not arguments.no_wait,
            **arguments.options,
        )
        for peer in arguments.peer:
            run_peer(results, peer, names, toy=arguments.toy, repetitions=arguments.repetitions)
    print(make_table(results, toy=arguments.toy, shape=TOY if arguments.toy else LLAMA_8B).markdown(), flush=True)
    return 0


def run_peer(
    results: Results, peer: str, names: Sequence[str], *, toy: bool = False, repetitions: int = REPETITIONS
) -> None:
    """Add the figures of a peer, "NAME=DIR" or "NAME": what is plain, what is constrained, and the time to the first
    token, each in a fresh process."""
    name, _, site = peer.partition("=")
    plain = [n for n in names if n != READY and not n.startswith("JSON")]
    groups = [plain, [n for n in names if n.startswith("JSON")], [READY] if READY in names else []]
    with tempfile.TemporaryDirectory() as folder:
        for i, group in enumerate(filter(None, groups)):
            out = Path(folder) / f"{i}.json"
            command = [sys.executable, "-m", "benchmarks.gpu.peers", name, "--only", ";".join(group), "--out", str(out)]
            command += ["--repetitions", str(repetitions), *(["--site", site] if site else [])]
            subprocess.run([*command, *(["--toy"] if toy else [])], check=False)
            if out.exists():
                results.read([out])


if __name__ == "__main__":
    raise SystemExit(main())
