"""First runs of programs on many threads: the source of each program is read and parsed."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from sgnb import Engine
from sgnb.backends import LocalExecutor

from .common import Report, seconds

PROGRAMS, THREADS, ROUNDS = 1000, 20, 100
PROGRAM = """
@sgnb.function
def program{i}(s, n):
    parts = [f"Question {{n}} of {i}: ", ("a", "b")]
    s += parts[0] + parts[1][n % 2]
    if n < 0:
        s += sgnb.gen("answer", max_tokens=4) + ("." if n else ",")
    return {{"n": n, "list": [1, 2, (3, 4)]}}
"""


def run() -> Report:
    with Engine("tiny") as engine:
        executor = LocalExecutor(engine)
        report = first_runs(executor, PROGRAMS, THREADS, ROUNDS)
        executor.close()
    return report


def first_runs(executor: Any, programs: int, threads: int, rounds: int) -> Report:
    """Run new programs once each, in each round from a new file."""
    errors: Counter[str] = Counter()
    taken = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            made = new_programs(Path(folder) / f"programs{number}.py", programs)
            taken += seconds(lambda made=made: run_on_threads(made, threads, executor, errors))
    return Report(
        f"{programs:,} first runs on {threads} threads, {rounds} times",
        ("runs", "errors", "seconds of a round"),
        [(f"{programs * rounds:,}", errors.total(), f"{taken / rounds:.2f}")],
        bar="no error",
        met=not errors,
        note="".join(f"{count} x {text}. " for text, count in errors.most_common(3)),
    )


def new_programs(path: Path, count: int) -> list[Any]:
    """Import programs from a new file at `path`."""
    path.write_text("import sgnb\n" + "".join(PROGRAM.format(i=i) for i in range(count)))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, f"program{i}") for i in range(count)]


def run_on_threads(programs: list[Any], count: int, executor: Any, errors: Counter[str]) -> None:
    start = threading.Barrier(count)

    def work(place: int) -> None:
        start.wait()
        for program in programs[place::count]:
            try:
                program.run(place, backend=executor).sync()
            except BaseException as error:
                errors[repr(error)] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
