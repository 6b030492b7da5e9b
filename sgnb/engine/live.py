"""A request with its listener: turns sampled tokens into text, decides when it ends. Knows no scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .output import Output
from .request import Request
from .text import Detokenizer, StopStrings, Tokenizer

Sink = Callable[[Output], None]


class Ending(NamedTuple):
    """Why a request ended: an `Output`'s finish_reason, stopped_by and error."""

    reason: str | None
    by: str | int | None = None
    error: Exception | None = None


class Live:
    """`sink` gets an `Output` for each piece of text when `stream` is set, and in any case the final one.

    It is called on the engine's thread and must return at once.
    """

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer | None,
        eos: frozenset[int],
        sink: Sink,
        *,
        stream: bool = False,
        run: str = "",
        branch: str = "",
        name: str = "",
        purpose: str = "generate",
    ) -> None:
        self.request = request
        self.run, self.branch, self.name, self.purpose = run, branch, name, purpose
        params = request.params
        self.stop_tokens = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else eos)
        self._sink = sink
        self._stream = stream
        self._detokenizer = None
        if tokenizer is not None:
            self._detokenizer = Detokenizer(tokenizer, request.tokens.tolist(), params.skip_special_tokens)
        self._stops = StopStrings(params.stop) if params.stop else None
        self._text = ""
        self._shown = 0
        self._pushed = request.size

    @property
    def banned(self) -> frozenset[int]:
        """Tokens that may not be chosen yet."""
        early = self.request.output_length < self.request.params.min_new_tokens
        return self.stop_tokens if early else frozenset()

    def advance(self, token: int) -> Ending | None:
        """Take the sampled token; how the request ended, if it did."""
        request = self.request
        request.append(token)
        if token in self.stop_tokens:
            return Ending("stop", token)
        if self._stream or self._stops:
            self._read()
        if self._stops and (found := self._find_stop()) is not None:
            return Ending("stop", found)
        if request.remaining == 0:
            return Ending("length")
        if self._stream:
            self._show()
        return None

    def finish(self, ending: Ending, read: bool = True) -> None:
        """Hand the final output to the sink; without `read`, with the text that was decoded so far."""
        if read and not isinstance(ending.by, str):
            self._read(skip_last=ending.by is not None)
            if self._detokenizer is not None:
                self._text += self._detokenizer.finish()
        self._sink(self._output(ending))

    def _read(self, skip_last: bool = False) -> None:
        """Decode the tokens not decoded yet. A stop token is no text."""
        request = self.request
        new = request.tokens[self._pushed : request.size - skip_last].tolist()
        self._pushed += len(new)
        if self._detokenizer is not None and new:
            self._text += self._detokenizer.push(new)

    def _find_stop(self) -> str | None:
        assert self._stops is not None
        if self.request.output_length < self.request.params.min_new_tokens:
            self._stops.ignore(self._text)
            return None
        place = self._stops.find(self._text)
        if place is None:
            return None
        stop = next(
            s for s in sorted(self.request.params.stop, key=len, reverse=True) if self._text.startswith(s, place)
        )
        self._text = self._text[:place]
        return stop

    def _show(self) -> None:
        safe = self._stops.safe_length(self._text) if self._stops else len(self._text)
        if safe > self._shown:
            self._sink(self._output(Ending(None), safe))

    def _output(self, ending: Ending, length: int | None = None) -> Output:
        request = self.request
        text = self._text[:length]
        delta, self._shown = text[self._shown :], len(text)
        return Output(
            text,
            request.output,
            request.prompt_length,
            request.cached_tokens or 0,
            ending.reason,
            ending.by,
            ending.error,
            delta,
            list(request.logprobs),
            list(request.prompt_logprobs),
            list(request.top_logprobs),
            list(request.prompt_top_logprobs),
        )
