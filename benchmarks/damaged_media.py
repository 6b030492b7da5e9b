"""Hostile images, videos and sounds: bombs, truncated files, wrong formats, devices.

Each file must end in a `MediaError` with the file's name and a remedy, or in an item for the few
valid files at a limit, in at most 6 seconds of processor time and 1.25 GB of additional memory. All
files are made here. `python -m benchmarks.damaged_media` runs them in a child process.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from sgnb.errors import MediaError
from sgnb.media import read_audio, read_image, read_video

from .common import Report
from .hostile_arrays import array_cases
from .hostile_images import image_cases
from .hostile_sounds import path_cases, sound_cases
from .hostile_videos import video_cases

SECONDS = 6.0
"""Processor time of a file at most. A valid image of 64 megapixels takes up to 5 s."""

MEMORY = 1250
"""Additional MB at most. A valid image of 64 megapixels needs 1,000."""

PATIENCE = 600.0
"""Seconds until the child process counts as hanging."""

READERS = {"image": read_image, "video": read_video, "audio": read_audio}


class Outcome(NamedTuple):
    """Result of a file."""

    group: str
    name: str
    problem: str  # "" if the file was refused, or is valid and was read
    is_item: bool
    seconds: float
    megabytes: float
    message: str


def run() -> list[Report]:
    """Read all files in a child process."""
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
        outcomes = pool.apply_async(outcomes_of, (folder,)).get(PATIENCE)
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.group].append(outcome)
    problems = [f"{o.name}: {o.problem}" for o in outcomes if o.problem]
    return [
        Report(
            "Hostile media files",
            ("kind", "files", "refused", "read", "longest, s", "most memory, MB"),
            [
                (group, len(all), sum(not o.is_item for o in all), sum(o.is_item for o in all),
                 f"{max(o.seconds for o in all):.1f}", f"{max(o.megabytes for o in all):.0f}")
                for group, all in groups.items()
            ],
            f"each error names file and remedy; at most {SECONDS:g} s of processor time and"
            f" {MEMORY} MB",
            not problems and len(outcomes) >= 60,
            "; ".join(problems[:5]),
        )
    ]  # fmt: skip


def outcomes_of(folder: str) -> list[Outcome]:
    """Read all files in this process."""
    return [outcome_of(*case) for case in cases(Path(folder))]


def cases(folder: Path) -> Iterator[tuple[str, str, Any, str, bool]]:
    """Yield group, name, source, expected name in the error, and whether the source is valid."""
    for group, made in (
        ("image", image_cases()),
        ("video", video_cases()),
        ("audio", sound_cases()),
    ):
        for name, data, is_valid in made:
            path = folder / f"{name}.bin"
            path.write_bytes(data)
            yield group, name, path, path.name, is_valid
    for name, source, mentioned in path_cases(folder):
        yield "image", f"path: {name}", source, mentioned, False
    for kind, name, source in array_cases():
        yield kind, f"array: {name}", source, "", False


def outcome_of(group: str, name: str, source: Any, mentioned: str, is_valid: bool) -> Outcome:
    begin, memory = time.process_time(), reset_memory()
    problem, message, is_item = "", "", False
    try:
        item = READERS[group](source)
        message, is_item = repr(item), True
        item.digest  # noqa: B018
        if not is_valid:
            problem = f"was read: {item.label}"
        del item
    except MediaError as error:
        message = str(error)
        problem = problem_of(error, mentioned, is_valid)
    except BaseException as error:
        problem = message = f"{type(error).__name__}: {error}"[:200]
    seconds, megabytes = time.process_time() - begin, peak_memory() - memory
    if seconds > SECONDS:
        problem = problem or f"{seconds:.1f} s"
    if megabytes > MEMORY:
        problem = problem or f"{megabytes:.0f} MB"
    return Outcome(group, name, problem, is_item, seconds, megabytes, message)


def problem_of(error: MediaError, mentioned: str, is_valid: bool) -> str:
    if is_valid:
        return f"valid, but refused: {error.message}"
    if mentioned not in error.message:
        return f"the error does not name {mentioned}: {error.message}"
    return "" if error.hint else f"no remedy: {error.message}"


def reset_memory() -> float:
    """Reset the peak of this process's memory, and return the memory in MB. Linux only; elsewhere
    the peak is never reset."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> float:
    """Return the peak of this process's memory in MB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    reports = run()
    print(*(report.markdown() for report in reports), sep="\n")
    raise SystemExit(any(report.met is False for report in reports))
