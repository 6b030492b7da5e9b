"""KV-cache reservation of a program: computed by the language before the run, used by the engine
for admission. Imports errors only."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

from .errors import OptionError, shown


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Upper bound on the KV slots of a single program. Compared by identity."""

    prefix: tuple[int, ...]  # token ids of the prompt prefix shared by all requests of the program
    own: int  # KV slots in addition to the prefix
    new: int = 0  # maximum number of generated tokens; their slots are part of `own`

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "prefix", tuple(map(index, self.prefix)))
            object.__setattr__(self, "own", index(self.own))
            object.__setattr__(self, "new", index(self.new))
        except Exception:
            hint = "give a tuple of token ids, and numbers of slots"
            raise OptionError(f"{shown(self)} is not allowed", hint) from None
