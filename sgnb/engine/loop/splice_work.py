"""Approximate requests: reuse of keys and values of a similar cached text, at other positions.

A request with a splice runs in three parts. The tokens up to a window behind the edit are computed;
`copy` copies the keys and values of the repeated text, with rotated keys; the end of the prompt is
computed. The copies belong to the request alone. `AnswerVerifier` compares the answer with an exact
run later.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ...errors import ModelError, OptionError, first_line
from ...events import AnswerSpliced
from ..cache.radix import Ints
from ..cache.splice import Splice, find_splice
from ..cache.tiers.stored_prefixes import guarded
from ..cache.tiers.tier_costs import TierCosts
from ..device.faults import is_out_of_memory
from ..model.key_rotation import KeyRotation
from ..request.approximation import Approximation, KeySample
from ..request.request import Request, RequestFault
from ..request.request_state import RequestState
from ..runner import ModelRunner
from ..scheduler import Scheduler
from .verification import Answer, AnswerVerifier

PIECE = 1024
"""Tokens that are copied at once."""

SAMPLE = 16
"""Reused tokens whose keys are compared with the keys of the exact run."""


class SpliceWork:
    """Work for approximate requests on the engine's thread.

    Args:
        scheduler: Scheduler; starts the requests.
        runner: Runner of the model.
        submit: Queues requests.
        abort: Ends requests at the next step.
        emit: Receives the events.

    Attributes:
        verifier: Comparisons of the answers.
        costs: Estimated times of prefills; the owner reports the steps.
        min_seconds: Estimated time of the exact prefill from which a request is approximate.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        submit: Callable[[list[RequestState]], None],
        abort: Callable[[list[int]], None],
        emit: Callable[[Any], None],
    ) -> None:
        self.verifier = AnswerVerifier(scheduler, submit, abort, emit)
        self.verifier.is_current = self._is_current
        self.verifier.key_errors = self._key_errors
        self.min_seconds = 0.0
        # A proxy, because the loop alone holds the device's memory.
        self._scheduler, self._runner, self._emit = scheduler, weakref.proxy(runner), emit
        self._rotation: KeyRotation | None = None
        self._refusal: str | None = None
        self.costs = TierCosts()
        self._starting: list[Request] = []  # with a splice that is not copied yet

    def check(self) -> None:
        """Raise OptionError if the model does not support approximate requests."""
        if self._rotation is None and self._refusal is None:
            try:
                self._rotation = self._runner.find_rotation()
            except ValueError as error:
                self._refusal = first_line(error)
        if self._refusal is not None:
            message = f"approximate=True is not possible with this model: {self._refusal}"
            raise OptionError(message, "run without approximate=True")

    def copy(self) -> None:
        """Copy the reused keys and values of requests that computed all tokens before. Without
        memory for the copy, a request computes all tokens, and its comparison finds no difference.
        Raises RequestFault."""
        self.verifier.make_way()
        for request in tuple(self._starting):
            splice = request.splice
            if splice is not None and request.num_computed < splice.begin:
                continue
            self._starting.remove(request)
            if splice is None:  # retracted or ended
                continue
            try:
                self._copy(request, splice)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise RequestFault(request, error) from error
                self._scheduler.cache.drop_splice(request)

    def close(self) -> None:
        """End all work and release the device memory."""
        self.verifier.give_up("the engine was closed")
        self._rotation = None
        self._starting.clear()

    def begin(self, request: Request) -> None:
        """Give a started request a splice, if possible and if exact computing takes long enough."""
        guarded(partial(self._begin, request))

    def _begin(self, request: Request) -> None:
        node, namespace = request.node, request.cache_scope.namespace
        state: RequestState = request.state
        if node is None or namespace is None or request.items or state.approximation is not None:
            return
        prompt = request.tokens[: request.num_prompt_tokens]
        if request.limit == 0 or request.reusable + 1 < len(prompt):
            return  # no answer, or scores of the prompt
        if self.costs.compute_seconds(node.end, len(prompt)) < self.min_seconds:
            return

        splice = find_splice(prompt, namespace, node, self._runner.vocab_size)
        if splice is None:
            return
        self._scheduler.cache.start_splice(request, splice)
        self._starting.append(request)
        reused = splice.end - splice.begin
        counts = len(prompt), len(prompt) - node.end - reused, reused, splice.donor.id
        state.approximate(Approximation(*counts), self.verifier.add)
        self._emit(AnswerSpliced(request.id, *counts, splice.begin))

    def _copy(self, request: Request, splice: Splice) -> None:
        """Copy the donor's keys and values to the request's slots, with rotated keys. Changes
        nothing but the slots after an error."""
        assert self._rotation is not None
        slots = request.slots[splice.begin : splice.end]
        for begin in range(0, len(slots), PIECE):
            source, target = (part[begin : begin + PIECE] for part in (splice.slots, slots))
            content = self._content(source)
            self._rotation.rotate(content, splice.shift)
            self._scheduler.cache.slots.restore(target, content)
        count = min(SAMPLE, len(slots))
        positions = np.linspace(splice.begin, splice.end - 1, count).astype(np.int32)
        sample = KeySample(positions, self._content(request.slots[positions]))

        self._scheduler.cache.finish_splice(request)
        request.state.key_sample = sample

    def _content(self, slots: Ints) -> torch.Tensor:
        """Return the content of slots, uint8[len(slots), bytes of a slot]."""
        allocator = self._scheduler.cache.slots
        shape = len(slots), allocator.unit_bytes
        content = torch.empty(shape, dtype=torch.uint8, device=self._runner.device)
        allocator.copy(slots, content)
        return content

    def _key_errors(self, answer: Answer) -> tuple[float, float] | None:
        """Compare the sampled keys with the keys of the exact run. None if the cache has no keys of
        the exact run any more."""
        sample = answer.sample
        if sample is None or self._rotation is None:  # the request started again without a splice
            return 0.0, 0.0
        tree, namespace = self._scheduler.cache.tree, answer.scope.namespace or ""
        prefix = tree.peek(answer.prompt, namespace)
        if prefix.length <= sample.positions[-1]:
            return None
        slots = prefix.node.path_slots()
        if prefix.child is not None:
            slots = np.concatenate([slots, prefix.child.slots])
        content = self._content(slots[sample.positions]).cpu()
        return self._rotation.errors(sample.content, content)

    def _is_current(self) -> bool:
        weights = self._runner.weights
        try:
            return weights is None or weights.find_change() is None
        except ModelError:  # the next request raises the error
            return False
