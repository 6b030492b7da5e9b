"""Order of the parts of `unordered` on a branch: ask the executor, then append the parts.

The executor may have the method `order(call, sink)`, which returns at once and calls `sink` with a
`PartOrder`, and `find_order(call)` for dry runs, which waits and leaves no trace. For other
executors the order is that of an earlier prompt with the same parts, if there is one: services
cache the prefixes of earlier prompts, too. An error of the search never ends a program.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...errors import SgnbError
from ...events import EventLog, PartsOrdered
from ...part_order import NoCache, OrderMemory, PartOrder, find_order, given_order
from ...segment import Kind, Segment
from ..executor import Executor, OrderCall
from ..ir import Part, PartSet, Text, media_segment

if TYPE_CHECKING:
    from .branch import Branch
    from .ops import Op
    from .program import Program

_log = logging.getLogger(__name__)


def start_order(branch: Branch, op: PartSet) -> bool:
    """Append fewer than two parts, or queue the search for the order of the parts."""
    if op.media and branch.lookahead is not None:
        branch.lookahead.unused = None  # the model wrote without knowing the items
    if len(op.parts) < 2:
        return take_order(branch, op, given_order(len(op.parts)))
    call = OrderCall(
        segments=branch.prompt()[1],
        parts=tuple(tuple(_segment(branch, node) for node in part) for part in op.parts),
        separator=_segment(branch, op.separator),
        branch=branch.id,
        location=op.location,
    )
    branch.program.outbox.append((branch, op, call))
    return False


def take_order(branch: Branch, op: PartSet, answer: PartOrder) -> bool:
    """Append the parts in order, and set the variable of the order."""
    branch.orders.append(answer)
    segments: list[Segment] = []
    for place, index in enumerate(answer.order):
        segments += [_segment(branch, op.separator)] if place else []
        segments += [_segment(branch, node) for node in op.parts[index]]
    run = branch.program.run.id
    branch.emit(PartsOrdered(run, branch.id, answer.order, answer.gained, answer.follows))
    branch.add(*segments)
    if op.name is not None:
        branch.set(op.name, list(answer.order))
    return True


def ask_order(program: Program, branch: Branch, op: Op, call: OrderCall) -> None:
    """Send the search to the executor, except for a recorded order. The lock is not held."""

    def receive(order: PartOrder) -> None:
        program.deliver(branch, op, order)

    edit = program.run.edit
    recorded = None if edit is None else edit.earlier_order(branch)
    if recorded is not None and len(recorded.order) == len(call.parts):
        receive(recorded)
        return
    order: Callable[..., Any] = getattr(program.executor, "order", None) or _remembering(
        program.executor
    )
    try:
        order(call, receive)
    except Exception as error:
        if not isinstance(error, SgnbError):  # the next call reports its own error
            _log.exception("the search for an order of parts failed")
        receive(given_order(len(call.parts)))


_memories: WeakKeyDictionary[EventLog, OrderMemory] = WeakKeyDictionary()
_lock = threading.Lock()
"""Guards the memories."""


def _remembering(executor: Executor) -> Callable[[OrderCall, Callable[[PartOrder], None]], None]:
    """Return the search for an executor without a readable cache."""

    def order(call: OrderCall, sink: Callable[[PartOrder], None]) -> None:
        with _lock:
            memory = _memories.setdefault(executor.log, OrderMemory())
            answer = remembered_order(call, memory)
        sink(answer)

    return order


def remembered_order(call: OrderCall, memory: OrderMemory) -> PartOrder:
    """Return the order of an earlier prompt, or the given order."""
    sizes = [sum(max(1, len(segment.text)) for segment in part) for part in call.parts]
    return find_order(call.part_keys, call.head_key, NoCache(sizes), memory)


def _segment(branch: Branch, node: Part) -> Segment:
    if isinstance(node, Text):
        kind: Kind = "raw" if branch.program.run.special_tokens else node.kind or "raw"
        return Segment(node.text, kind)
    return media_segment(node.item)  # type: ignore[union-attr]
