"""Which workloads a command line asks for."""

from __future__ import annotations

from .more_workloads import WORKLOADS
from .ready import READY

NAMES = (READY, *WORKLOADS)
ONLY_HELP = "workloads, or parts of their names, with semicolons between: " + "; ".join(NAMES)


def chosen_names(only: str | None) -> list[str]:
    """Return the workloads named by --only, by default all. A part of a name is valid if unique.

    Raises SystemExit for an unknown or ambiguous name.
    """
    if not only:
        return list(NAMES)
    names = []
    for word in (word.strip() for word in only.split(";")):
        found = (
            [word] if word in NAMES else [name for name in NAMES if word.lower() in name.lower()]
        )
        if len(found) != 1:
            raise SystemExit(
                f"{word!r} names {len(found)} workloads; there are: {'; '.join(NAMES)}"
            )
        names += found
    return names
