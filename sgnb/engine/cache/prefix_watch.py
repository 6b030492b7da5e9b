"""Detection of changed cached prefixes, without a comparison of all sequences."""

from __future__ import annotations

from typing import Any


class PrefixWatch:
    """Ids of watched sequences by the place in the tree that determines the cached length.

    The length changes if the node at the end of the prefix is removed, or if the entry of the
    node's children for the next token changes (`Prefix.holds`).
    """

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, Any]] = {}  # node and next token of each sequence
        self._watched: dict[int, dict[Any, set[int]]] = {}  # sequences by node and next token
        self._changed: set[int] = set()

    def watch(self, sequence: int, node: int, key: Any) -> None:
        """Report the next change of a sequence's prefix.

        Args:
            sequence: Id of the sequence.
            node: Id of the node at the end of the prefix.
            key: Key of the next token in the node's children.
        """
        self.forget(sequence)
        self._places[sequence] = node, key
        self._watched.setdefault(node, {}).setdefault(key, set()).add(sequence)

    def forget(self, sequence: int) -> None:
        """Stop watching a sequence. Unknown sequences are ignored."""
        self._changed.discard(sequence)
        node, key = self._places.pop(sequence, (0, None))
        if sequences := self._watched.get(node, {}).get(key):
            sequences.discard(sequence)
            if not sequences:
                self._drop(node, key)

    def take_changed(self) -> set[int]:
        """Return the sequences with a changed prefix since the last call, and stop watching these
        sequences."""
        changed, self._changed = self._changed, set()
        return changed

    def child_changed(self, node: int, key: Any) -> None:
        """Record that the entry of a node's children at `key` changed."""
        if key in self._watched.get(node, ()):
            self._report(self._watched[node][key])
            self._drop(node, key)

    def node_removed(self, parent: int, key: Any, node: int) -> None:
        """Record the removal of a node at `key` of the parent's children."""
        self.child_changed(parent, key)
        for sequences in self._watched.pop(node, {}).values():
            self._report(sequences)

    def _report(self, sequences: set[int]) -> None:
        self._changed |= sequences
        for sequence in sequences:
            del self._places[sequence]

    def _drop(self, node: int, key: Any) -> None:
        del self._watched[node][key]
        if not self._watched[node]:
            del self._watched[node]
