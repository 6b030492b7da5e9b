"""Tensor parallelism: several processes, the ranks, compute one model.

Rank 0 is the engine's thread, with the only scheduler, cache and sampler. `team.py` starts the
followers, all further ranks. A follower has a part of the model and of the KV pool, and runs the
steps announced by rank 0 (`step_messages.py`) through shared memory (`ring.py`). Between the steps,
a follower copies a part of cached blocks (`cache/tiers/rank_copies.py`), and confirms
(`confirmations.py`). `group.py` adds the parts of a sum.
"""

from .follower import CommandPort, FollowerParts, follow
from .group import RankGroup
from .team import Team

__all__ = ["CommandPort", "FollowerParts", "RankGroup", "Team", "follow"]
