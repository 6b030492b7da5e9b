"""Orders of a prompt's parts on an engine: tokens of the parts, and the search in the cache."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..engine.cache.part_extents import PartsPrompt, PartTokens
from ..errors import SgnbError
from ..lang.executor import OrderCall
from ..part_order import OrderMemory, OrderSearch, PartOrder, given_order
from ..segment import Segment
from ..sequences import common_length
from .any_engine import AnyEngine
from .mail import Mail

SEAM = 64
"""Characters before a part that decide how the beginning of the part becomes tokens."""

ENDINGS = 4
"""Maximum number of endings of parts with tokens of their own."""

_AFTER_TOKENS = Segment("", "output")
"""Beginning of a text that is not the beginning of the prompt."""


class PartOrders:
    """Orders of parts for the programs of an engine.

    Args:
        engine: The engine.
        mail: Thread of the programs.
        namespace: Cache namespace of the calls; None if the calls share no tokens.
    """

    def __init__(self, engine: AnyEngine, mail: Mail, namespace: str | None) -> None:
        self._engine, self._mail = engine, mail
        self._namespace = namespace if engine.options.prefix_cache else None
        self.forget()

    def forget(self) -> None:
        """Forget the orders of earlier prompts."""
        self.memory = OrderMemory()  # read and written on the engine's thread

    def send(self, call: OrderCall, sink: Callable[[PartOrder], None]) -> None:
        """Search the order without waiting. `sink` receives the order on the executor's thread; the
        given order after an error, which the call of the model reports."""
        contents = [segment.item for segment in call.all_segments if segment.kind == "media"]
        items = self._engine.items

        def search(error: Exception | None = None) -> None:
            self._mail.put(partial(self._search, call, sink))

        if not (contents and items and items.prepare_soon(contents, search)):
            search()

    def find(self, call: OrderCall, memory: OrderMemory) -> PartOrder:
        """Return the order with a separate memory, for a dry run."""
        results: queue.SimpleQueue[PartOrder] = queue.SimpleQueue()
        self._ask(call, memory, results.put)
        return results.get()

    def _search(self, call: OrderCall, sink: Callable[[PartOrder], None]) -> None:
        mail = self._mail
        try:
            self._ask(call, self.memory, lambda order: mail.put_result(partial(sink, order)))
        except Exception as error:
            sink(given_order(len(call.parts)))
            if not isinstance(error, SgnbError):  # the next call reports its own error
                raise

    def _ask(
        self, call: OrderCall, memory: OrderMemory, then: Callable[[PartOrder], object]
    ) -> None:
        prompt = parts_prompt(self._engine.encode, call, self._namespace)
        start = hash((self._namespace, call.head_key))
        keys = call.part_keys
        search = OrderSearch(keys, start, memory)
        self._engine.find_part_order(search, prompt, given_order(len(keys)), then)


def parts_prompt(
    encode: Callable[[Sequence[Sequence[Segment]]], list[list[int]]],
    call: OrderCall,
    namespace: str | None,
) -> PartsPrompt:
    """Return the tokens of a prompt with parts.

    Each part is tokenized once after the text before the parts and once between separators, instead
    of once per place: for ordinary separators the tokens are the same. Spaces at the end of a part
    change the tokens of the separator, therefore each part is tokenized after each such ending.
    """
    separator = (call.separator,)
    context = _last_text(call.segments)
    anchor = (_AFTER_TOKENS,) if call.segments else ()
    ends = [_last_spaces(part) for part in call.parts]
    endings = list(dict.fromkeys(ends))[:ENDINGS]
    seams = [(_AFTER_TOKENS, *ending, *separator) for ending in endings]
    [start, context_ids, separator_ids, anchor_ids, head, *encoded] = encode(
        [
            (_AFTER_TOKENS,),
            [*anchor, *context],
            [_AFTER_TOKENS, *separator],
            [*anchor],
            call.segments,
            *seams,
            *([*anchor, *context, *part, *separator] for part in call.parts),
            *([*seam, *part, *separator] for seam in seams for part in call.parts),
        ]
    )
    begins = len(anchor_ids) if call.segments else 0
    context_ids = context_ids[begins:] if call.segments else []
    separator_ids = separator_ids[len(start) :]
    seam_ids = [tokens[len(start) :] for tokens in encoded[: len(seams)]]

    count = len(call.parts)
    rows = [encoded[at : at + count] for at in range(len(seams), len(encoded), count)]
    return PartsPrompt(
        head=np.array(head if call.segments else [], np.int32),
        first=[_piece(context_ids, tokens[begins:]) for tokens in rows[0]],
        later=[
            [_piece(seam, tokens[len(start) :]) for tokens in row]
            for seam, row in zip(seam_ids, rows[1:], strict=True)
        ],
        endings=[endings.index(end) if end in endings else 0 for end in ends],
        separator=len(separator_ids) + 1,  # the end of a part may merge with the separator
        namespace=namespace,
    )


def _piece(context: list[int], tokens: list[int]) -> PartTokens:
    common = common_length(context, tokens)
    return PartTokens(len(context) - common, np.array(tokens[common:], np.int32))


def _last_spaces(part: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the white space at the end of a part."""
    if not part or part[-1].kind not in ("raw", "data"):
        return ()
    text = part[-1].text
    spaces = text[len(text.rstrip()) :][-SEAM:]
    return (part[-1]._replace(text=spaces),) if spaces else ()


def _last_text(segments: Sequence[Segment]) -> list[Segment]:
    """Return the end of the text before the parts, after the last generated token or image."""
    texts: list[Segment] = []
    missing = SEAM
    for segment in reversed(segments):
        if segment.kind not in ("raw", "data") or missing <= 0:
            break
        texts.append(segment._replace(text=segment.text[-missing:]))
        missing -= len(segment.text)
    return texts[::-1]
