"""Grammar state of a running request: masks, jump-forward, endings. Knows no model or scheduler.

Jump-forward (Zheng et al., arXiv 2312.07104, section 4) appends text forced by the grammar without
sampling. The last tokens are retokenized together with the forced text, because the model was
trained on tokens of its tokenizer. The longest common prefix stays; the new tokens are computed in
one pass. Except for the last token, a jump never retokenizes more tokens than the jump adds:
repairing the model's own tokenization is not worth a recomputation.

Token healing at the end of a jump: while an allowed longer token begins with the last forced
tokens, the model chooses in their place. Otherwise the model would continue from an unseen token
border (after the blank of `"age": ` the model writes ` true`, not `true`). The grammar's mask
enforces the remaining forced bytes. To save a pass, the tail is drafted as in speculative decoding:
the pass over the jump also verifies the tail.

Timely endings: the shortest completion must always fit into the remaining max_new_tokens. A token
that violates this rule is undone, and the shortest completion is written instead. For a JSON schema
of the library, finding a completion takes a search of milliseconds; the search runs occasionally,
and at every token near the limit. Without a known completion, the last part of the budget closes
open JSON strings, arrays and objects, and ends the text at the first chance.

Threads: matchers of llguidance may take seconds for a mask. `begin`, `jump_forward` and `prepare`
then run on another thread. These methods change only the matcher and `_output`; changes of the
request, texts and records are `_edits`, which `commit` applies on the engine's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...errors import GrammarError
from ...events import Jumped
from ...grammar.matcher import Matcher
from ...sequences import common_length
from .constraint_errors import forbidden, no_room, no_token, too_short
from .jump_writer import RETOKENIZED, JumpWriter, OpenToken
from .output import Logprob, TokenRecord
from .request import Request
from .search_schedule import SearchSchedule
from .tokenizer import Tokenizer, unfinished_bytes

END_SHARE = 0.25
"""Share of max_new_tokens reserved for ending early."""


class Constraint:
    """Matcher bound to a request, with the records of the constrained text."""

    def __init__(
        self,
        matcher: Matcher,
        request: Request,
        tokenizer: Tokenizer,
        *,
        thinking_end: str = "",
        jump: bool = True,
        draft: bool = False,
        background: bool = False,
        least: int = 0,
    ) -> None:
        """draft: write the tails of jumps as drafts for `verify`; otherwise the model samples the
        tails. background: `prepare` follows each change, on a thread for slow matchers. least:
        lower bound of the bytes of every text."""
        self._matcher, self._request, self._tokenizer = matcher, request, tokenizer
        self._vocabulary = tokenizer.vocabulary
        self._pieces = self._vocabulary.pieces
        self._writer = JumpWriter(tokenizer)
        self._mark = thinking_end.encode()
        self._mark_tokens = tokenizer.encode_alone(thinking_end) if thinking_end else []
        self._jumps, self._drafts = jump, draft
        self._background, self._least = background, least
        self._output: list[int] = []  # the request's output tokens after `_edits`
        self._edits: list[Callable[[], object]] = []  # not committed yet
        self._matcher_calls: list[Callable[[], object]] = []  # left to the next `jump_forward`
        self._first = 0  # index in the output of the first token that may be retokenized
        self._seen = b""
        self._searches = SearchSchedule(request.limit)
        self._end_unknown = False
        self.binds = not thinking_end
        self.sealed = False  # the constraint ended the text
        self.data = bytearray()  # constrained text
        self.reasoning = bytearray()  # thinking section before the constrained text
        self.records: list[TokenRecord] = []  # one per output token
        self.jumps: list[Jumped] = []  # jumps not collected yet
        # Unverified last tokens of the request, not yet in texts, records and events.
        self.tail: list[OpenToken] = []

    @property
    def state(self) -> int:
        """State of the automaton; -1 for a grammar without numbered states."""
        return self._matcher.state

    @property
    def may_end(self) -> bool:
        """True if the grammar allows an end of sequence here."""
        return self.binds and self._matcher.is_final

    @property
    def finished(self) -> bool:
        """True if nothing can follow."""
        return self.binds and self._matcher.finished

    def begin(self, output: Sequence[int] = (), stop_tokens: Container[int] = ()) -> None:
        """Accept given output tokens, and write the text forced afterwards. Raises RequestError if
        no text of the grammar fits into max_new_tokens, GrammarError for a forbidden token."""
        limit, thinking = self._remaining, not self.binds
        bound = -(-self._least // max(1, self._vocabulary.longest))
        if bound > limit or not self._fits(self._matcher, limit - thinking):
            need = len(self._mark_tokens) + thinking
            need += bound if bound > limit else self._needs(self._matcher)
            raise too_short(need, limit, is_bound=bound > limit)
        ends = self._accept_given(output, stop_tokens)
        if self.binds and not ends:
            self._first = len(self._output)  # given tokens stay
            self._jump()

    def _accept_given(self, output: Sequence[int], stop_tokens: Container[int]) -> bool:
        """Advance by given output tokens. Returns whether the last token ends the text."""
        ends = False
        for token in output:
            ends = token in stop_tokens
            try:
                if ends and not self.may_end:
                    raise GrammarError("the text may not end here")
                self.accept_token(token, ends, 0, None, None)
                self._call_matcher()
            except GrammarError as error:
                raise forbidden(self._tokenizer, self._matcher, self.records, token) from error
        room = self._remaining - (not self.binds)
        if output and not (ends or self._fits(self._matcher, room)):
            raise no_room(room)
        return ends

    def allowed_tokens(self) -> NDArray[np.bool_]:
        """Return the allowed next tokens without end of sequence, bool[size]. Call only while the
        grammar binds. Raises GrammarError if the vocabulary has no allowed token."""
        words = self._matcher.next_token_bitmask()
        if not words.any() and not self._matcher.is_final:
            raise no_token(bytes(self.data))
        allowed = self._vocabulary.unpacked(words)
        return self._tokenizer.closing_among(allowed) if self._ends_early else allowed

    def allowed_in_tail(self, index: int) -> NDArray[np.bool_]:
        """Return the tokens allowed instead of a tail token, without end tokens, bool[size]."""
        return self._vocabulary.unpacked(self.tail[index].mask)

    def accept_token(
        self, token: int, ends: bool, allowed: int, logprob: Logprob, masked_logprob: Logprob
    ) -> TokenRecord:
        """Advance by a sampled token and record the effect of the mask. `ends`: the token ends the
        text and is not part of the text."""
        self._output.append(token)
        before, text = self._matcher.state, self._tokenizer.text(token)
        if not self.binds:
            self._think(token)
            record = TokenRecord("free", text, -1, -1, allowed, logprob, masked_logprob)
        else:
            if not ends:
                if self._background:
                    self._matcher_calls.append(partial(self._matcher.accept_token, token))
                else:  # without `partial`: one call per request and step
                    self._matcher.accept_token(token)
                self.data += self._pieces[token]
            record = TokenRecord(
                "sampled", text, before, self._matcher.state, allowed, logprob, masked_logprob
            )
        self.records.append(record)
        return record

    @property
    def _remaining(self) -> int:
        """Number of new tokens still allowed after `_edits`."""
        return self._request.limit - len(self._output)

    def _edit(self, edit: Callable[[], object]) -> None:
        """Change the request, texts or records now, or at `commit` if the matcher is slow."""
        if self._background:
            self._edits.append(edit)
        else:
            edit()

    def is_idle(self) -> bool:
        """True if the last accepted token, appended to the request, needs no further work."""
        remaining = self._request.remaining
        return self.binds and remaining > 0 and self._matcher.is_idle(remaining)

    def prepare(self) -> None:
        """Compute the answers for the next token, for later calls to read."""
        if self.binds:
            self._matcher.prepare()

    def commit(self) -> None:
        """Apply the changes of `begin` and `jump_forward` to the request, texts and records."""
        while self._edits:
            self._edits.pop(0)()

    def _call_matcher(self) -> None:
        while self._matcher_calls:
            self._matcher_calls.pop(0)()

    def jump_forward(self) -> None:
        """After the last accepted token is appended: end the text if no completion fits, otherwise
        jump."""
        self._call_matcher()
        remaining = self._remaining
        if self._opens:
            self._searches.opened(remaining)
        if not self.binds:
            if self._ends_early or not self._fits(self._matcher, remaining - 1):
                self._force_end()
        elif self._fits(self._matcher, remaining):
            self._jump()
            self.sealed = self.sealed or (self._ends_early and self._matcher.is_final)
        elif not self._matcher.searches or self._fitted_before(remaining + 1):
            self._undo()
            self._force_end()
        else:
            self._end_unknown = True

    @property
    def _opens(self) -> bool:
        """True if the last token, or the text forced afterwards, opens an object or array."""
        if not self._matcher.searches or not self._output:
            return False
        text = self._pieces[self._output[-1]] + self._matcher.find_jump_forward_string()
        return b"{" in text or b"[" in text

    @property
    def _ends_early(self) -> bool:
        """True if a text without a known completion should end early."""
        if not self._end_unknown:
            return False
        data = self.data
        depth = sum(map(data.count, (b"{", b"["))) - sum(map(data.count, (b"}", b"]")))
        return self._remaining <= max(END_SHARE * self._request.limit, 2 * depth + 8)

    def _think(self, token: int) -> None:
        self._seen = (self._seen + self._tokenizer.piece(token))[-4 * len(self._mark) - 256 :]
        self.reasoning += self._pieces[token]
        if self._mark in self._seen:
            self.binds = True
            self._first = len(self._output)
            if (place := self.reasoning.rfind(self._mark)) >= 0:
                del self.reasoning[place:]

    def _fits(self, matcher: Matcher, tokens: int) -> bool:
        """True if the shortest completion fits into `tokens` tokens or is unknown."""
        tokens -= 0 if self.binds else len(self._mark_tokens)
        if tokens < 0 or (matcher.searches and not self._searches.is_due(tokens)):
            return tokens >= 0
        distance = matcher.distance()
        if distance is None:
            self._end_unknown = True
            self._searches.failed(tokens, at_start=not self._output)
            return True
        if distance <= tokens and not matcher.searches:
            return True

        needed = self._needs(matcher)
        self._end_unknown = False
        self._searches.found(tokens, needed)
        return needed <= tokens

    def _needs(self, matcher: Matcher) -> int:
        """Length in tokens of the shortest completion, if known."""
        return len(self._tokenizer.write(matcher.completion() or b""))

    def _fitted_before(self, tokens: int) -> bool:
        """True if a completion before the last token fitted into `tokens` tokens."""
        before = self._matcher.fork()
        before.rollback(1)
        return before.completion() is not None and self._needs(before) <= tokens

    def _undo(self) -> None:
        """Undo the last sampled token."""
        before = self._matcher.state
        self._matcher.rollback(1)
        removed = len(self._pieces[self._output[-1]])
        jump = Jumped(self._request.id, "limit", 1, (), "", before, self._matcher.state, ())
        self._rewrite(1, (), [], jump, removed)

    def _force_end(self) -> None:
        """End a thinking section and write the shortest completion if known."""
        if not self.binds:
            records = [
                TokenRecord("jumped", self._tokenizer.text(token), -1, -1)
                for token in self._mark_tokens
            ]
            mark, state = self._mark.decode("latin-1"), self._matcher.state
            tokens = tuple(self._mark_tokens)
            jump = Jumped(self._request.id, "limit", 0, tokens, mark, -1, state, ())
            self._rewrite(0, tokens, records, jump)
            self.binds, self._first = True, len(self._output)

        if self._matcher.distance() is None:
            return
        end, trial = self._matcher.completion() or b"", self._matcher.fork()
        tokens = self._tokenizer.write(end)
        if len(tokens) > self._remaining:  # from a search, possibly not the shortest
            return
        self._write("limit", end, 0, tokens, trial, self._writer.accept(trial, tokens))
        self.sealed = True

    def _jump(self) -> None:
        """Append the text forced by the grammar if a completion still fits afterwards."""
        data = self._matcher.find_jump_forward_string() if self._jumps else b""
        data = data[: len(data) - min(len(data), unfinished_bytes(bytes(self.data[-3:]) + data))]
        if not data:
            return
        start = max(self._first, len(self._output) - RETOKENIZED)
        dropped, tokens = self._writer.retokenize(self._output[start:], data)
        tail = self._writer.find_tail(self._matcher, dropped, tokens, len(data))
        tokens = tokens[: len(tokens) - len(tail)]
        data = data[: len(data) - sum(len(self._pieces[open.token]) for open in tail)]
        if data and not self._append(data, dropped, tokens):
            if self._matcher.distance() is not None:
                self._force_end()
        elif tail and self._drafts:
            self._draft(tail)

    def _append(self, data: bytes, dropped: int, tokens: Sequence[int]) -> bool:
        """Write the forced `tokens`; return False if no completion would fit."""
        trial = self._matcher.fork()
        trial.rollback(dropped)
        records = self._writer.accept(trial, tokens)
        room = self._remaining + dropped - len(tokens)
        if room < 0 or not self._fits(trial, room):
            return False
        self._write("forced", data, dropped, tokens, trial, records)
        return True

    def _draft(self, tail: list[OpenToken]) -> None:
        """Draft a jump's tail if the text cannot end with the tail and has room to continue."""
        tokens, trial = [open.token for open in tail], self._matcher.fork()
        self._writer.accept(trial, tokens)
        room = self._remaining - len(tokens)
        if room > 0 and self._fits(trial, room) and not (trial.is_final or self._ends_early):
            self._matcher = trial
            self._output += tokens
            self._edit(partial(self._start_draft, tail))

    def _start_draft(self, tail: list[OpenToken]) -> None:
        self.tail = tail
        self._request.draft([open.token for open in tail])

    def verify(self, chosen: Sequence[int]) -> int:
        """Compare the tail with `chosen`, the model's tokens. Accepts the agreeing prefix, drops
        the tail from the first mismatch on, and returns the number of accepted tokens."""
        agree = common_length(chosen, [open.token for open in self.tail])
        for token, _, _, before, after, labels in self.tail[:agree]:
            piece = self._pieces[token]
            self.data += piece
            self.records.append(TokenRecord("jumped", self._tokenizer.text(token), before, after))
            text = piece.decode("latin-1")
            self.jumps.append(
                Jumped(self._request.id, "forced", 0, (token,), text, before, after, labels)
            )

        del self.tail[:agree]
        self._request.verified(agree)
        if agree < len(chosen):
            self.take_back_tail()
        return agree

    def take_back_tail(self) -> None:
        """Drop the unverified tail."""
        if self.tail:
            count = len(self.tail)
            rollback = partial(self._matcher.rollback, count)
            if self._background:
                self._matcher_calls.append(rollback)
            else:
                rollback()
            del self._output[len(self._output) - count :]
            self._request.take_back(count)
            self.tail = []

    def _write(
        self,
        reason: str,
        data: bytes,
        dropped: int,
        tokens: Sequence[int],
        matcher: Matcher,
        new: list[TokenRecord],
    ) -> None:
        """Replace the `dropped` last tokens by `tokens`; `matcher` and the `new` records include
        them."""
        before, labels = self._matcher.state, self._matcher.labels(data) if data else ()
        self._matcher = matcher
        text, after = data.decode("latin-1"), matcher.state
        jump = Jumped(self._request.id, reason, dropped, tuple(tokens), text, before, after, labels)
        self._rewrite(dropped, tokens, new, jump)
        self._edit(partial(self.data.extend, data))

    def _rewrite(
        self,
        dropped: int,
        tokens: Sequence[int],
        records: list[TokenRecord],
        jump: Jumped,
        removed: int = 0,
    ) -> None:
        """Replace the `dropped` last tokens by `tokens` with their records, and remove the last
        `removed` bytes of the text."""
        del self._output[len(self._output) - dropped :]
        position = self._request.num_prompt_tokens + len(self._output)
        self._output += tokens

        def edit() -> None:
            self._request.rewrite(position, tokens)
            self.records[len(self.records) - dropped :] = records
            self.jumps.append(jump)
            del self.data[len(self.data) - removed :]

        self._edit(edit)
