"""Hostile images, videos and sounds: bombs, truncated files, wrong formats, devices.

Each file must end in a `MediaError` with the file's name and a remedy, or in an item for the few
valid files at a limit, in at most 6 seconds of processor time and 1.25 GB of additional memory. All
files are made here. A second table changes bytes of valid files: each is an item or a `MediaError`.
Both run in a child process.
"""

from __future__ import annotations

import random
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
from .hostile_images import encoded, image_cases, photo
from .hostile_sounds import path_cases, sound_cases
from .hostile_videos import video_cases

SECONDS = 6.0
"""Processor time of a file at most. A valid image of 64 megapixels takes up to 5 s."""

MEMORY = 1250
"""Additional MB at most. A valid image of 64 megapixels needs 1,000."""

MAX_CHANGED = 40_000
"""Bytes of a file that is changed."""

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


def run(changes: int = 4_000, seed: int = 0) -> list[Report]:
    """Read all files, and changed valid files, in a child process."""
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
        outcomes = pool.apply_async(outcomes_of, (folder,)).get(PATIENCE)
        changed = pool.apply_async(changed_outcomes, (changes, seed)).get(PATIENCE)
    return [hostile_report(outcomes), changed_report(changed)]


def hostile_report(outcomes: list[Outcome]) -> Report:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.group].append(outcome)
    problems = [f"{o.name}: {o.problem}" for o in outcomes if o.problem]
    return Report(
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
    )  # fmt: skip


def changed_report(outcomes: list[Outcome]) -> Report:
    refused = sum(not outcome.is_item for outcome in outcomes)
    problems = [f"{outcome.name}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    longest = max(outcome.seconds for outcome in outcomes)
    return Report(
        "Changed bytes in valid media files",
        ("changes", "refused", "read", "raw errors", "longest, s"),
        [(len(outcomes), refused, len(outcomes) - refused, len(problems), f"{longest:.1f}")],
        f"an item or a MediaError, at most {SECONDS:g} s of processor time",
        not problems,
        "; ".join(problems[:5]),
    )


def changed_outcomes(changes: int, seed: int) -> list[Outcome]:
    """Read valid files with a few changed bytes each."""
    rng, files = random.Random(seed), valid_files()
    outcomes = []
    for number in range(changes):
        group, name, data = files[number % len(files)]
        source = changed_bytes(data, rng)
        outcome = outcome_of(group, name, source, "in bytes", True)
        if outcome.problem.startswith("valid, but refused"):
            outcome = outcome._replace(problem="")
        outcomes.append(outcome)
    return outcomes


def valid_files() -> list[tuple[str, str, bytes]]:
    """Group, name and content of small valid files in all formats."""
    made = (("image", image_cases()), ("video", video_cases()), ("audio", sound_cases()))
    files = [
        (group, name, data) for group, all in made for name, data, valid in all
        if valid and len(data) < MAX_CHANGED and "megapixels" not in name
    ]  # fmt: skip
    for form in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        files.append(("image", form, encoded(photo(), form)))
    for form in ("tiff_lzw", "tiff_deflate", "jpeg"):
        files.append(("image", f"TIFF {form}", encoded(photo(), "TIFF", compression=form)))
    files.append(("image", "progressive JPEG", encoded(photo(), "JPEG", progressive=True)))
    return files


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return `data` with flipped bits, extreme numbers or missing bytes; often in the header."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(min(len(changed), 200) if rng.random() < 0.5 else len(changed))
        match rng.randrange(4):
            case 0:
                changed[at : at + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff")
                )
            case 1 if len(changed) > 20:
                del changed[at : at + rng.randrange(1, 9)]
            case _:
                changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


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
