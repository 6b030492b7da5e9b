"""What a program holds of the KV cache at most: shared by the language, which knows it before the
program runs, and the engine, which admits programs by it. Imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Of one program, by identity."""

    prefix: tuple[int, ...]  # tokens that all of its requests begin with
    own: int  # slots beside those
    new: int = 0  # tokens that its generations may write, which some of those slots are for
