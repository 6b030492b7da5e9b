"""Tokens with KV slots: the cache manager's view of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .checkpoints import RecurrentStates
from .radix import Ints, Prefix, RadixNode
from .splice import Splice


class CacheScope(NamedTuple):
    """Relation of a request to other requests."""

    # Requests of one namespace share tokens in the cache. None: the request shares no tokens.
    namespace: str | None = ""
    reads: bool = True  # fork attention: read a prefix once for several requests of a step
    # Tokens before a fork of the program; models with recurrent layers keep a checkpoint there.
    forked: int = 0
    client: int = 0  # requests of several clients start in a fair order


SHARED = CacheScope()


class CachedSequence:
    """Token ids with KV slots for a prefix, in a buffer of fixed size.

    The first `num_slots` tokens have a slot in `slots`; the slots of the first `num_computed`
    tokens hold keys and values. The first `node.end` slots belong to the radix tree, the remaining
    slots to the sequence.

    Args:
        tokens: Token ids of the prompt.
        max_len: Maximum number of tokens.
        cache_scope: Relation to other requests.

    Attributes:
        id: Id of the request; 0 for tokens without a request.
        num_given_tokens: Number of prompt tokens, and of output tokens given with the request.
        node: Locked node of the radix tree; None without slots.
        states: States of recurrent layers; None without slots or without such layers.
        split: A step that computes tokens before this position ends there.
        prefix_hint: Result of the last look-up in the tree.
        rewrites: The last tokens may be rewritten.
        splice: Tokens with approximate keys and values; a sequence with a splice shares no tokens.
    """

    # Hot loops over the requests of a step read and write these fields. More than 30 fields in an
    # instance dictionary cost 5 times the memory and, per step of 1,024 rows, a tenth of the time.
    __slots__ = (
        "__weakref__",
        "_tokens",
        "cache_scope",
        "id",
        "max_len",
        "node",
        "num_computed",
        "num_given_tokens",
        "num_prompt_tokens",
        "num_slots",
        "num_tokens",
        "prefix_hint",
        "rewrites",
        "slots",
        "splice",
        "split",
        "states",
    )

    def __init__(self, tokens: Sequence[int] | Ints, max_len: int, cache_scope: CacheScope) -> None:
        self.id = 0
        self.cache_scope = cache_scope
        self.max_len = max_len
        self.num_prompt_tokens = self.num_given_tokens = self.num_tokens = len(tokens)
        self._tokens: Ints = np.empty(max_len, np.int32)
        self._tokens[: self.num_tokens] = tokens

        self.slots: Ints = np.empty(max_len, np.int32)
        self.num_slots = self.num_computed = self.split = 0
        self.node: RadixNode | None = None
        self.states: RecurrentStates | None = None
        self.prefix_hint: Prefix | None = None
        self.rewrites = False
        self.splice: Splice | None = None

    @property
    def tokens(self) -> Ints:
        """All token ids, int32[num_tokens]."""
        return self._tokens[: self.num_tokens]

    @property
    def reusable(self) -> int:
        """Number of leading tokens that may come from the cache. The last token must be computed,
        for its logits."""
        return self.num_tokens - 1
