"""Speculative text of a model beyond the end of a call, and its use as an answer to later calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...grammar.schema.strict_json import InvalidAnswer, read_prefix
from ...sampling import SamplingParams
from .endpoint import Sample
from .formats import Mismatch, fitting


class Miss(Exception):
    """Speculative text cannot answer a call. `reason` is the two-word label in the usage table."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Written:
    """Text of a model after `prompt`, written ahead of the program.

    Services count tokens for whole prompts and answers. Token counts of parts are estimated from
    the answer's average token length.
    """

    model: Any  # endpoint that wrote the text
    id: str  # id of the answer
    prompt: str
    text: str
    prompt_tokens: int
    text_tokens: int
    settings: SamplingParams  # sampling settings of the request; see `settings_of`
    stops: tuple[str, ...]  # stop strings of the request, absent from the text
    finish: str  # finish reason as in `Sample`; "stop" is an end token or a string of `stops`
    limit: int  # token limit of the request; 0 after partial use

    def at(self, prompt: str) -> Written:
        """Return the unused text after `prompt`. Raises Miss if the model's text differs from
        `prompt`."""
        since = prompt[len(self.prompt) :]
        if not (prompt.startswith(self.prompt) and self.text.startswith(since)):
            raise Miss("other text")
        return self._after(len(since)) if since else self

    def answer(self, params: SamplingParams, max_tokens: int | None) -> Taken:
        """Return the answer to a call with this prompt.

        Raises Miss if the answer is missing, has no known end or may exceed `max_tokens`. Slow if
        `params` contain a format.
        """
        if settings_of(params) != self.settings:
            raise Miss("other settings")
        ended = self.finish == "stop" and set(self.stops) <= set(params.stop)
        if not self.text and not (ended and (self.limit or max_tokens is None)):
            raise Miss("too short")
        if params.grammar is not None:
            taken = self._in_format(params, ended)
        else:
            taken = self._up_to_stop(params, ended, max_tokens)
        if max_tokens is not None and not self._fits(taken, max_tokens):
            raise Miss("too long")
        return taken

    def _fits(self, taken: Taken, max_tokens: int) -> bool:
        """Check the byte length, including the final stop, against `max_tokens`: a token has at
        least one byte."""
        if 0 < self.limit <= max_tokens:
            return True
        text = taken.sample.text + (taken.sample.matched or "")
        return min(self._tokens(text), len(text.encode())) <= max_tokens

    def choice(self, choices: Sequence[str]) -> tuple[int, Taken]:
        """Return the longest of `choices` at the beginning of the text. Raises Miss without a
        match."""
        found = [i for i, choice in enumerate(choices) if self._begins_with(choice)]
        if not found:
            raise Miss("no choice")
        index = max(found, key=lambda i: len(choices[i]))
        return index, self._take(0, len(choices[index]))

    def _begins_with(self, choice: str) -> bool:
        after = self.text[len(choice) : len(choice) + 1]
        whole = after and not (choice[-1].isalnum() and after.isalnum())
        ended = not after and self.finish == "stop"
        return self.text.startswith(choice) and bool(whole or ended)

    def _up_to_stop(self, params: SamplingParams, ended: bool, max_tokens: int | None) -> Taken:
        if stopped := first_stop(self.text, params.stop):
            return self._take(0, *stopped)
        if ended:
            return self._take(0, len(self.text))
        if max_tokens in (self.limit, None):  # equal to a separate request, or unbounded
            return self._take(0, len(self.text), finish=self.finish)
        raise Miss("too short")

    def _in_format(self, params: SamplingParams, ended: bool) -> Taken:
        """Match the format as in a separate answer; leading whitespace is optional."""
        text, blanks = self.text, len(self.text) - len(self.text.lstrip())
        if stopped := first_stop(text, [stop for stop in params.stop if stop.strip()]):
            text, ended = text[: stopped[0]], True
        try:
            if params.json_schema is not None:
                text = text[: read_prefix(text)[1]]
            found = fitting(Sample(text, "stop"), params)
        except (Mismatch, InvalidAnswer):
            raise Miss("format") from None
        begin = 0 if text.startswith(found) else blanks
        if not ended and begin + len(found) == len(self.text):
            raise Miss("too short")
        end, matched = first_stop(found, params.stop) or (len(found), None)
        return self._take(begin, begin + end, matched)

    def _take(
        self, begin: int, end: int, matched: str | None = None, finish: str = "stop"
    ) -> Taken:
        at_begin = replace(self._after(begin), prompt=self.prompt)
        rest = at_begin._after(end - begin)
        text, tokens = self.text[begin:end], at_begin.text_tokens - rest.text_tokens
        return Taken(Sample(text, finish, matched), tokens, rest)

    def _after(self, end: int) -> Written:
        tokens = self._tokens(self.text[:end])
        return replace(
            self,
            prompt=self.prompt + self.text[:end],
            text=self.text[end:],
            prompt_tokens=self.prompt_tokens + tokens,
            text_tokens=self.text_tokens - tokens,
            limit=0,
        )

    def _tokens(self, part: str) -> int:
        return round(self.text_tokens * len(part.encode()) / max(1, len(self.text.encode())))


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a call and the unused text after the answer."""

    sample: Sample
    tokens: int
    rest: Written

    @property
    def text(self) -> str:
        return self.sample.text


def settings_of(params: SamplingParams) -> SamplingParams:
    """Return the parameters that affect sampling, without the parameters that end a call's text."""
    plain = SamplingParams()
    return replace(
        params,
        stop=plain.stop,
        max_new_tokens=plain.max_new_tokens,
        regex=None,
        json_schema=None,
        ebnf=None,
        json_whitespace=None,
        json_strict=plain.json_strict,
    )


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Return the position and the string of the first stop in `text`."""
    return min(((at, stop) for stop in stops if (at := text.find(stop)) >= 0), default=None)
