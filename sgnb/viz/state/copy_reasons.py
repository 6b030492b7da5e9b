"""Reasons why stored copies of a prompt were not used, from recorded events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from ...events import PrefixNotLoaded
from .copied_blocks import PLACES, START, WHERE, CopiedBlock
from .metrics import duration
from .tree import TreeState

CopyKind = Literal[
    "dropped",
    "disk full",
    "not copied",
    "damaged",
    "other weights",
    "compute",
    "cancelled",
    "short",
    "never copied",
]


class CopyReason(NamedTuple):
    """Reason for the tokens up to a position of a prompt."""

    end: int
    kind: CopyKind
    text: str


OF_STATES: dict[str, tuple[CopyKind, str]] = {
    "damaged": (
        "damaged",
        "had a damaged copy {where}, which is deleted; the next copy replaces it",
    ),
    "full": (
        "disk full",
        "was not copied to {place}: {message}; free some space, or name another folder in {option}",
    ),
    "room": (
        "dropped",
        "was copied to {place} and dropped for lack of room; a larger {option} keeps more",
    ),
    "memory": (
        "dropped",
        "was dropped from {place}, because the machine had too little free memory; disk_cache keeps"
        " files",
    ),
    "gone": (
        "dropped",
        "was copied to {place} and deleted by another process; a folder of its own keeps the files",
    ),
    "flush": ("dropped", "was dropped from {place} by flush_cache(); disk_cache keeps files"),
    "bound": (
        "not copied",
        "was not copied to {place}: no room (bound {bound}, or too little free space); a larger"
        " {option} or more free space keeps more",
    ),
    "busy": (
        "not copied",
        "was not copied to {place}: earlier copies were still waiting; pin the prompt to copy it in"
        " idle time",
    ),
    "not finite": (
        "never copied",
        "was not copied to {place}: keys or values are not finite; load the model in a dtype with a"
        " larger range",
    ),
    "weights": ("other weights", "was computed by earlier weights; load these weights again"),
}
"""Kind and text by state of a copy, the most specific first."""

OF_LOADS: dict[str, tuple[CopyKind, str]] = {
    "compute": (
        "compute",
        "{tokens:,} tokens are {where}, but computing was faster: about {compute} instead of about"
        " {load}{hint}",
    ),
    "head": (
        "compute",
        "{tokens:,} tokens are {where}, but were computed while the tokens behind were loaded",
    ),
    "memory": (
        "cancelled",
        "{tokens:,} tokens are {where}, but had no free slots; a larger max_total_tokens has room",
    ),
    "pool": (
        "cancelled",
        "{tokens:,} tokens are {where}, but a load takes at most half of the pool; a larger"
        " max_total_tokens loads more",
    ),
    "cancelled": (
        "cancelled",
        "the load of {tokens:,} tokens was cancelled, because running requests needed the memory; a"
        " larger max_total_tokens has room",
    ),
    "flush": (
        "cancelled",
        "the load of {tokens:,} tokens was cancelled by flush_cache(); run the prompt again",
    ),
    "weights": (
        "cancelled",
        "the load of {tokens:,} tokens was cancelled, because the weights changed; load the earlier"
        " weights again",
    ),
    "other weights": (
        "other weights",
        "{tokens:,} tokens are {where} for other weights, model {fingerprint}; load these weights,"
        " or delete the files with %sglang cache forget {fingerprint}",
    ),
}
"""Kind and text by reason of `PrefixNotLoaded`."""

OPTIONS = {"host": "host_cache", "disk": "disk_cache"}


def copy_reasons(
    tree: TreeState,
    prompt: Sequence[int],
    namespace: str,
    cached: int,
    evicted: int,
    not_loaded: Sequence[PrefixNotLoaded],
) -> Iterator[CopyReason]:
    """Yield the reasons of a lookup, in order of precedence.

    Args:
        tree: Tree and copies at the lookup.
        prompt: Token ids of the prompt.
        namespace: Namespace of the request.
        cached: Leading tokens that were cached.
        evicted: Leading tokens that were cached earlier and evicted.
        not_loaded: Events of the request.
    """
    if tree.tiers is None:
        return

    block = tree.tiers.block
    for event in not_loaded:
        begin = 0 if event.reason == "other weights" else cached // block * block
        if event.reason in OF_LOADS:
            kind, text = OF_LOADS[event.reason]
            yield CopyReason(begin + event.tokens, kind, _of_load(text, event))

    path = list(_path(tree, prompt)) if not namespace else []
    beyond = path[cached // block :]
    missing = next((each for each in beyond if not each.stores), None)
    if missing is not None:
        yield from _of_block(tree, missing, len(path) * block)

    if evicted > cached:
        yield from _of_rules(tree, prompt, namespace, evicted, len(path) * block)


def text_of_head(store: str, tokens: int) -> str:
    """Return the reason for stored tokens that were computed while the tokens behind were
    loaded."""
    return OF_LOADS["head"][1].format(tokens=tokens, where=WHERE.get(store, "stored"))


def _path(tree: TreeState, prompt: Sequence[int]) -> Iterator[CopiedBlock]:
    """Yield the known blocks of a prompt, from the start."""
    number, at = START, 0
    while (following := tree.copies.find(number, prompt, at)) is not None:
        number = following
        yield tree.copies.blocks[number]
        at += len(tree.copies.blocks[number].tokens)


def _of_load(text: str, event: PrefixNotLoaded) -> str:
    return text.format(
        tokens=event.tokens,
        where=WHERE.get(event.store, "stored"),
        compute=duration(event.compute_seconds),
        load=duration(event.seconds),
        hint="; host_cache loads faster" if event.store == "disk" else "",
        fingerprint=event.fingerprint,
    )


def _of_block(tree: TreeState, block: CopiedBlock, end: int) -> Iterator[CopyReason]:
    """Yield the most specific reason of a block without copies."""
    assert tree.tiers is not None
    bounds = {"host": tree.tiers.host_bytes, "disk": tree.tiers.disk_bytes}
    for state, (kind, text) in OF_STATES.items():
        for store, (present, message) in block.states.items():
            if present == state and store in PLACES:
                words = text.format(
                    place=PLACES[store],
                    where=WHERE[store],
                    option=OPTIONS[store],
                    bound=f"{bounds[store] / 2**30:.3g} GiB",
                    message=message,
                )
                yield CopyReason(end, kind, words)
                return


def _of_rules(
    tree: TreeState, prompt: Sequence[int], namespace: str, evicted: int, copied: int
) -> Iterator[CopyReason]:
    """Yield the rules that leave an evicted prefix without copies. copied: tokens of known
    blocks."""
    tiers = tree.tiers
    assert tiers is not None
    if namespace:
        text = "was evicted, and private namespaces are never copied; pin the prompt to keep it"
        yield CopyReason(evicted, "never copied", text)
        return

    if evicted < tiers.min_tokens:
        text = f"was evicted, and prefixes below {tiers.min_tokens} tokens are not copied"
        yield CopyReason(evicted, "short", f"{text}; pin the prompt to keep it")
        return

    if copied >= evicted // tiers.block * tiers.block:
        text = f"was evicted, and the rest of a prefix after full blocks of {tiers.block} tokens"
        yield CopyReason(evicted, "short", f"{text} is not copied; pin the prompt to keep it")
    elif not copied:
        hint = "a larger host_cache" if tiers.host_bytes else "host_cache"
        text = f"was evicted without a copy; {hint} copies each evicted prefix"
        yield CopyReason(evicted, "not copied", text)
