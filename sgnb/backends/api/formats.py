"""Checks of answers by the format of their call."""

from __future__ import annotations

from functools import lru_cache

from ...errors import GrammarError, ServiceError, shown
from ...grammar.automaton.limits import ThreadClock
from ...grammar.compiler import TokenGrammar, compile_spec
from ...grammar.schema.strict_json import InvalidAnswer
from ...grammar.schema.validate import SECONDS, validator
from ...grammar.spec import GrammarSpec
from ...grammar.vocabulary import Vocabulary
from ...sampling import SamplingParams
from .endpoint import Sample


class Mismatch(Exception):
    """A sample violates its format. `wanted` describes the format."""

    def __init__(self, sample: Sample, wanted: str) -> None:
        super().__init__(wanted)
        self.text, self.wanted = sample.text or sample.meta.get("refusal", ""), wanted
        self.cut = sample.finish == "length"  # truncated, may have begun correctly

    def error(self, tries: int) -> ServiceError:
        what = f"the answer {shown(self.text)} is not {self.wanted} ({tries} tries)"
        hint = "say in the prompt what is wanted, or ask a model that obeys it"
        return ServiceError(what, "max_tokens= ended it: give it room" if self.cut else hint)


def fitting(sample: Sample, params: SamplingParams) -> str:
    """Return the formatted part of a text. Slow: compiles grammars.

    JSON loses surrounding whitespace. A regex or grammar yields the longest accepted prefix, with
    or without surrounding whitespace. Raises Mismatch if no prefix matches.
    """
    text, grammar = sample.text.strip(), params.grammar
    if grammar is None:
        return sample.text
    if grammar.kind == "json_schema":
        try:
            validator(grammar.text).check(text)
        except InvalidAnswer as error:
            raise Mismatch(sample, str(error)) from None
        return text
    found = [_longest_match(grammar, candidate) for candidate in (sample.text, text)]
    fits = [one for one in found if one is not None]
    if not fits:
        raise Mismatch(sample, f"what {grammar.kind}={shown(grammar.text)} takes")
    return max(fits, key=len)


def prepare(grammar: GrammarSpec) -> None:
    """Compile the check of a format before sending a paid request. Raises GrammarError."""
    if grammar.kind == "json_schema":
        validator(grammar.text)
    else:
        _grammar(grammar)


def _longest_match(spec: GrammarSpec, text: str) -> str | None:
    """Return the longest prefix of `text` that the grammar accepts within `SECONDS`."""
    matcher, longest, data = _grammar(spec).matcher(), None, text.encode()
    clock = ThreadClock(SECONDS)
    for at in range(len(data) + 1):
        if matcher.is_final:
            longest = at
        if clock.is_over:
            break
        try:
            if at < len(data):
                matcher.accept_token(data[at])
        except GrammarError:
            break
    return None if longest is None else data[:longest].decode(errors="ignore")


_BYTES = Vocabulary(bytes([byte]) for byte in range(256))


@lru_cache(maxsize=64)
def _grammar(spec: GrammarSpec) -> TokenGrammar:
    return TokenGrammar(compile_spec(spec), _BYTES)
