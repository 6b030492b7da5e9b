"""A request's grammar while it runs: what may come next, what must, and how the text still ends in
time.

Decides and keeps count; the engine masks, the request holds the tokens. Knows no model and no
scheduler.

Jump-forward (Zheng et al., arXiv 2312.07104, section 4): text that the grammar forces is appended
without asking the model. The last tokens are retokenized together with it, because the model knows
the tokens that its tokenizer makes; the longest common beginning stays, and what follows goes
through the model in one pass. But for the last one, no more tokens are retokenized than the jump
brings in: to mend how the model tokenized its own text is not worth computing it again.

The end of a jump is healed: while an allowed longer token begins with its last tokens, those are
the model's to choose, which else would go on from a border between tokens that it never saw (after
the blank of `"age": ` it writes no `true`, but ` true`). Nothing needs to be kept for that: where
the jump stops early, the grammar's mask allows just what agrees with the forced bytes. To save the
pass, such a tail is drafted as in speculative decoding: it goes through the model with the rest of
the jump, and what the model would have chosen in its place is found in the same pass.

The text ends before the tokens do: at each place the shortest way to an end must fit into what is
left of max_new_tokens. A token after which it would not is taken back, and the shortest way is
written instead. A JSON schema of the library has a short way only after a search of milliseconds:
that is done now and then, each token when it gets close. Where none is known, the text ends early
in the last part of its tokens, which means that it closes the JSON strings, arrays and objects that
it can close, and ends as soon as it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import GrammarError, RequestError
from ...events import Jumped
from ...grammar.matcher import Matcher
from .output import TokenRecord
from .request import Request
from .tokenizer import Tokenizer, common_tokens, unfinished_bytes

RETOKENIZED = 8
"""Of the last tokens, how many are at most retokenized with the text that a jump appends."""

END_SHARE = 0.25
"""The share of max_new_tokens that is kept for ending early."""

SEARCH_SHARE = 0.25
"""The share of the tokens that are left beyond an end that is found, after which the next is looked
for: what is open seldom grows by three tokens with each token."""

SEARCH_ALWAYS = 32
"""With so many tokens left beyond twice those of the end that was found, or fewer, an end is looked
for at each: one token may open an object with much that is required."""

SEARCH_AGAIN = 16
"""Tokens until the next search, after one that found nothing."""


class OpenToken(NamedTuple):
    """A token at the end of a jump with whose bytes an allowed longer one begins."""

    token: int
    mask: NDArray[np.uint32]  # what may stand in its place, see `Matcher.next_token_bitmask`
    may_end: bool  # whether the text may end before it
    before: int  # the grammar's state, and that after it
    after: int
    labels: tuple[str, ...]  # as in `Jumped`


class Constraint:
    """A matcher with the request that it binds, and what it wrote and kept of that."""

    def __init__(
        self,
        matcher: Matcher,
        request: Request,
        tokenizer: Tokenizer,
        *,
        thinking_end: str = "",
        jump: bool = True,
        draft: bool = False,
    ) -> None:
        """draft: write the tails of jumps as guesses, which `verify` settles; else the model is
        asked for them, token by token."""
        self._matcher, self._request, self._tokenizer = matcher, request, tokenizer
        self._vocabulary = tokenizer.vocabulary
        self._pieces = self._vocabulary.pieces
        self._mark = thinking_end.encode()
        self._mark_tokens = tokenizer.encode_alone(thinking_end) if thinking_end else []
        self._jumps, self._drafts = jump, draft
        self._first = request.num_prompt_tokens
        self._seen = b""
        self._search_at = request.limit  # with so few tokens left, or fewer, an end is looked for
        self._end_unknown = False
        self.binds = not thinking_end
        self.sealed = False  # the constraint ended the text
        self.data = bytearray()  # the text that the grammar binds, so far
        self.reasoning = bytearray()  # what came before it in a thinking section
        self.records: list[TokenRecord] = []  # one for each output token
        self.jumps: list[Jumped] = []  # those that nobody has collected yet
        # Of the request's last tokens those not verified yet: in no text, record and event so far.
        self.tail: list[OpenToken] = []

    @property
    def state(self) -> int:
        """The automaton's state; -1 for a grammar without numbered states."""
        return self._matcher.state

    @property
    def may_end(self) -> bool:
        """Whether an end of sequence is allowed here."""
        return self.binds and self._matcher.is_final

    @property
    def finished(self) -> bool:
        """Whether nothing can follow."""
        return self.binds and self._matcher.finished

    def begin(self) -> None:
        """Write what the grammar forces at once. RequestError if no text of the grammar fits into
        max_new_tokens."""
        limit, thinking = self._request.limit, not self.binds
        if not self._fits(self._matcher, limit - thinking):
            need = len(self._mark_tokens) + self._needs(self._matcher) + thinking
            raise RequestError(
                f"the grammar's shortest text needs {need} token{'s' * (need != 1)}, and only "
                f"{limit} may be generated",
                "raise max_tokens (max_new_tokens in Engine.generate); if the context is full, "
                "shorten the prompt",
            )
        if self.binds:
            self._jump()

    def allowed_tokens(self) -> NDArray[np.bool_]:
        """Which tokens of the vocabulary may follow, bool [size]; no end of sequence. Only where
        the grammar binds.

        GrammarError when the vocabulary has no token for what must follow.
        """
        words = self._matcher.next_token_bitmask()
        if not words.any() and not self._matcher.is_final:
            raise GrammarError(
                f"no token of the vocabulary can follow after {bytes(self.data[-40:])!r}",
                "the grammar needs bytes that this tokenizer does not have",
            )
        allowed = self._vocabulary.unpacked(words)
        return self._closing(allowed) if self._ends_early else allowed

    def allowed_in_tail(self, index: int) -> NDArray[np.bool_]:
        """Which tokens may stand in place of one of the tail, bool [size]; no end of sequence."""
        return self._vocabulary.unpacked(self.tail[index].mask)

    def accept_token(
        self, token: int, ends: bool, allowed: int, logprob: float, masked_logprob: float
    ) -> TokenRecord:
        """Move on by a sampled token, and keep what the mask did to it. `ends`: it ends the text
        and is no part."""
        before, text = self._matcher.state, self._tokenizer.text(token)
        if not self.binds:
            self._think(token)
            record = TokenRecord("free", text, -1, -1, allowed, logprob, masked_logprob)
        else:
            if not ends:
                self._matcher.accept_token(token)
                self.data += self._pieces[token]
            record = TokenRecord(
                "sampled", text, before, self._matcher.state, allowed, logprob, masked_logprob
            )
        self.records.append(record)
        return record

    def is_idle(self) -> bool:
        """Whether the token taken last, which is appended to the request, leaves nothing to
        settle."""
        remaining = self._request.remaining
        return self.binds and remaining > 0 and self._matcher.is_idle(remaining)

    def jump_forward(self) -> None:
        """The token taken last is appended to the request: end the text if it would not fit any
        more, else jump."""
        remaining = self._request.remaining
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
    def _ends_early(self) -> bool:
        """Whether it is time to end a text whose shortest way to an end is not known."""
        if not self._end_unknown:
            return False
        request, data = self._request, self.data
        depth = sum(map(data.count, (b"{", b"["))) - sum(map(data.count, (b"}", b"]")))
        return request.remaining <= max(END_SHARE * request.limit, 2 * depth + 8)

    def _closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of the allowed tokens those that close a JSON text: where letters may follow, it is in a
        string."""
        quotes, brackets, letters = self._tokenizer.closing
        in_string = (allowed & letters).sum() > len(b"tfn")
        for group in (quotes, brackets) if in_string else (brackets, quotes):
            if (allowed & group).any():
                return allowed & group
        return allowed

    def _think(self, token: int) -> None:
        self._seen = (self._seen + self._tokenizer.piece(token))[-4 * len(self._mark) - 256 :]
        self.reasoning += self._pieces[token]
        if self._mark in self._seen:
            self.binds = True
            self._first = self._request.num_tokens + 1
            if (place := self.reasoning.rfind(self._mark)) >= 0:
                del self.reasoning[place:]

    def _fits(self, matcher: Matcher, tokens: int) -> bool:
        """Whether `tokens` tokens are enough for the shortest way to an end; where that is not
        known, any are."""
        tokens -= 0 if self.binds else len(self._mark_tokens)
        if tokens < 0 or (matcher.searches and tokens > self._search_at):
            return tokens >= 0
        distance = matcher.distance()
        if distance is None:
            self._end_unknown, self._search_at = True, tokens - SEARCH_AGAIN
            return True
        if distance <= tokens and not matcher.searches:
            return True
        needed = self._needs(matcher)
        self._end_unknown = False
        later = tokens - max(1, int(SEARCH_SHARE * (tokens - needed)))
        self._search_at = max(later, 2 * needed + SEARCH_ALWAYS)
        return needed <= tokens

    def _needs(self, matcher: Matcher) -> int:
        """The tokens of the shortest way to an end; of one that is known."""
        return len(self._tokenizer.write(matcher.completion() or b""))

    def _fitted_before(self, tokens: int) -> bool:
        """Whether `tokens` tokens were enough for a way to an end before the last one."""
        before = self._matcher.fork()
        before.rollback(1)
        return before.completion() is not None and self._needs(before) <= tokens

    def _undo(self) -> None:
        """Take the last sampled token back."""
        request, before = self._request, self._matcher.state
        self._matcher.rollback(1)
        self.records.pop()
        self.jumps.append(Jumped(request.id, "limit", 1, (), "", before, self._matcher.state, ()))
        token = int(request.tokens[-1])
        del self.data[len(self.data) - len(self._pieces[token]) :]
        request.rewrite(request.num_tokens - 1, ())

    def _force_end(self) -> None:
        """End a thinking section, and write the shortest way to an end if it is known."""
        if not self.binds:
            self._request.rewrite(self._request.num_tokens, self._mark_tokens)
            self.records += [
                TokenRecord("jumped", self._tokenizer.text(token), -1, -1)
                for token in self._mark_tokens
            ]
            mark, state = self._mark.decode("latin-1"), self._matcher.state
            self.jumps.append(
                Jumped(self._request.id, "limit", 0, tuple(self._mark_tokens), mark, -1, state, ())
            )
            self.binds, self._first = True, self._request.num_tokens
        if self._matcher.distance() is None:
            return
        end, trial = self._matcher.completion() or b"", self._matcher.fork()
        tokens = self._tokenizer.write(end)
        if len(tokens) > self._request.remaining:  # of a search, which may find no short one
            return
        self._write("limit", end, 0, tokens, trial, self._accept(trial, tokens))
        self.sealed = True

    def _jump(self) -> None:
        """Append what the grammar forces, if it does and a text that ends still fits after it."""
        data = self._whole(self._matcher.find_jump_forward_string()) if self._jumps else b""
        if not data:
            return
        dropped, tokens = self._retokenize(data)
        tail = self._find_tail(dropped, tokens, len(data))
        tokens = tokens[: len(tokens) - len(tail)]
        data = data[: len(data) - sum(len(self._pieces[open.token]) for open in tail)]
        if data and not self._append(data, dropped, tokens):
            if self._matcher.distance() is not None:
                self._force_end()
        elif tail and self._drafts:
            self._draft(tail)

    def _append(self, data: bytes, dropped: int, tokens: Sequence[int]) -> bool:
        """Write the forced `tokens`, unless no text that ends fits after them; whether it did."""
        trial = self._matcher.fork()
        trial.rollback(dropped)
        records = self._accept(trial, tokens)
        room = self._request.remaining + dropped - len(tokens)
        if room < 0 or not self._fits(trial, room):
            return False
        self._write("forced", data, dropped, tokens, trial, records)
        return True

    def _find_tail(self, dropped: int, tokens: Sequence[int], forced: int) -> list[OpenToken]:
        """The last of `tokens`, as far as an allowed longer token begins with their bytes: the
        model has to choose there. At most `forced` bytes: those before are its own choice."""
        matcher = self._matcher.fork()
        matcher.rollback(dropped)
        self._accept(matcher, tokens)
        tail: list[OpenToken] = []
        length, after = 0, matcher.state
        for token in reversed(tokens):
            length += len(self._pieces[token])
            if length > forced:
                break
            matcher.rollback(1)
            mask = matcher.next_token_bitmask()
            if not (mask & self._vocabulary.longer_than(length)).any():
                break
            labels = matcher.labels(self._pieces[token])
            tail.append(OpenToken(token, mask, matcher.is_final, matcher.state, after, labels))
            after = matcher.state
        return tail[::-1]

    def _draft(self, tail: list[OpenToken]) -> None:
        """Write a jump's tail as a guess, which `verify` settles, if the text cannot end with it
        and has room to go on."""
        tokens, trial = [open.token for open in tail], self._matcher.fork()
        self._accept(trial, tokens)
        room = self._request.remaining - len(tokens)
        if room > 0 and self._fits(trial, room) and not (trial.is_final or self._ends_early):
            self._matcher, self.tail = trial, tail
            self._request.draft(tokens)

    def verify(self, chosen: Sequence[int]) -> int:
        """The model would have written `chosen` for the first tokens of the tail: those that agree
        are settled, from the first that does not the tail is taken back. How many agree."""
        agree = common_tokens(chosen, [open.token for open in self.tail])
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
        """Drop what is not verified."""
        if self.tail:
            self._matcher.rollback(len(self.tail))
            self._request.take_back(len(self.tail))
            self.tail = []

    def _retokenize(self, data: bytes) -> tuple[int, Sequence[int]]:
        """How many of the last tokens give way, and the tokens for their bytes and `data`.

        Where the model writes its tokenizer's tokens, only the last one can change, and two are
        enough to see that. Else the last `RETOKENIZED` are looked at. A token that is put aside
        costs a row of a step, and one that the jump brings in wins one: so no more may give way
        than are brought in, and never more than the bytes of `data`. The first of them must stay:
        else others before it would change too. Where that fails, only the last token is
        retokenized, for the sake of the boundary.
        """
        request, pieces = self._request, self._pieces
        for count in (2, RETOKENIZED, 1):
            old = request.tokens[max(self._first, request.num_tokens - count) :].tolist()
            new = self._tokenizer.write(b"".join([pieces[token] for token in old]) + data)
            common = common_tokens(old, new)
            dropped = len(old) - common
            if dropped <= 1 or (common and dropped <= min(len(new) - len(old), len(data))):
                break
        return dropped, new[common:]

    def _whole(self, data: bytes) -> bytes:
        """`data` without the beginning of a character at its end: the rest of that one is not
        forced."""
        return data[: max(0, len(data) - unfinished_bytes(bytes(self.data[-3:]) + data))]

    def _write(
        self,
        reason: str,
        data: bytes,
        dropped: int,
        tokens: Sequence[int],
        matcher: Matcher,
        new: list[TokenRecord],
    ) -> None:
        """Put `tokens` in place of the `dropped` last ones; `matcher` and the `new` records have
        them already."""
        before, labels = self._matcher.state, self._matcher.labels(data) if data else ()
        self._request.rewrite(self._request.num_tokens - dropped, tokens)
        del self.records[len(self.records) - dropped :]
        self.records += new
        self._matcher = matcher
        self.data += data
        text = data.decode("latin-1")
        self.jumps.append(
            Jumped(
                self._request.id,
                reason,
                dropped,
                tuple(tokens),
                text,
                before,
                matcher.state,
                labels,
            )
        )

    def _accept(self, matcher: Matcher, tokens: Sequence[int]) -> list[TokenRecord]:
        """Move `matcher` on by all of `tokens`."""
        records, text, after = [], self._tokenizer.text, matcher.state
        for token in tokens:
            before = after
            matcher.accept_token(token)
            after = matcher.state
            records.append(TokenRecord("jumped", text(token), before, after))
        return records
