"""KV-cache reservation of a program: computed by the language before the run, used by the engine
for admission.

Imports no other sgnb module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Upper bound on the KV slots of a single program. Compared by identity."""

    prefix: tuple[int, ...]  # token ids of the prompt prefix shared by all requests of the program
    own: int  # KV slots in addition to the prefix
    new: int = 0  # maximum number of generated tokens; their slots are part of `own`
