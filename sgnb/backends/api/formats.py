"""Formats of answers on services that do not enforce them: the grammar of a generation, and the
choices of a select."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...errors import GrammarError, ServiceError, shown
from ...grammar.compiler import TokenGrammar, compile_spec
from ...grammar.schema.strict_json import InvalidAnswer, read_json
from ...grammar.schema.validate import SECONDS, ThreadClock, validator
from ...grammar.spec import GrammarSpec
from ...grammar.vocabulary import Vocabulary
from ...lang.executor import ScoreCall
from ...sampling import SamplingParams
from .endpoint import CompletionRequest, Message, Sample
from .media_parts import with_text

_BYTES = Vocabulary(bytes([byte]) for byte in range(256))


class FormatMismatch(Exception):
    """A sample violates its format. `expected` describes the format."""

    def __init__(self, sample: Sample, expected: str) -> None:
        super().__init__(expected)
        self.text, self.expected = sample.text or sample.meta.get("refusal", ""), expected
        self.is_truncated = sample.finish == "length"  # may have begun correctly

    def error(self, tries: int) -> ServiceError:
        """Return the error after the last try."""
        message = f"the answer {shown(self.text)} is not {self.expected} ({tries} tries)"
        hint = "describe the format in the prompt, or use another model"
        return ServiceError(
            message,
            "the answer ended at max_tokens=: use a larger value" if self.is_truncated else hint,
        )


def match_format(sample: Sample, params: SamplingParams) -> str:
    """Return the formatted part of a text. Slow: compiles grammars.

    JSON loses surrounding whitespace. A regex or grammar yields the longest accepted prefix, with
    or without surrounding whitespace. Raises FormatMismatch if no prefix matches.
    """
    text, grammar = sample.text.strip(), params.grammar
    if grammar is None:
        return sample.text
    if grammar.kind == "json_schema":
        try:
            validator(grammar.text).check(text)
        except InvalidAnswer as error:
            raise FormatMismatch(sample, str(error)) from None
        return text

    value = replace(grammar, leading_blank=False)  # the blank is not part of the value
    prefixes = [_longest_match(value, candidate) for candidate in (sample.text, text)]
    matches = [prefix for prefix in prefixes if prefix is not None]
    if not matches:
        raise FormatMismatch(sample, f"a text that {grammar.kind}={shown(grammar.text)} matches")
    return max(matches, key=len)


def prepare(grammar: GrammarSpec) -> None:
    """Compile the check of a format before sending a paid request. Raises GrammarError."""
    if grammar.kind == "json_schema":
        validator(grammar.text)
    else:
        _byte_grammar(grammar)


def _longest_match(spec: GrammarSpec, text: str) -> str | None:
    """Return the longest prefix of `text` that the grammar accepts within `SECONDS`."""
    matcher, longest, data = _byte_grammar(spec).matcher(), None, text.encode()
    clock = ThreadClock(SECONDS)
    for position in range(len(data) + 1):
        if matcher.is_final:
            longest = position
        if clock.is_over:
            break
        try:
            if position < len(data):
                matcher.accept_token(data[position])
        except GrammarError:
            break
    return None if longest is None else data[:longest].decode(errors="ignore")


@lru_cache(maxsize=64)
def _byte_grammar(spec: GrammarSpec) -> TokenGrammar:
    return TokenGrammar(compile_spec(spec), _BYTES)


def choice_request(
    call: ScoreCall, turns: Sequence[Message], enforces: frozenset[str]
) -> CompletionRequest:
    """Build a request for one of the choices: enforced by a JSON schema if the service supports
    schemas, otherwise by instruction."""
    longest = max(len(choice.encode()) for choice in call.choices)
    schema = None
    if turns and "json_schema" in enforces:
        properties = {"choice": {"type": "string", "enum": list(call.choices)}}
        closed = {"required": ["choice"], "additionalProperties": False}
        schema = json.dumps({"type": "object", "properties": properties, **closed})
    elif turns:
        names = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in call.choices)
        question = f"Answer with one of these and nothing else: {names}"
        content = with_text(turns[-1]["content"], question)
        turns = [*turns[:-1], {**turns[-1], "content": content}]

    params = SamplingParams(max_new_tokens=longest + 16, temperature=0, json_schema=schema)
    return CompletionRequest(params, call.prompt if not turns else "", tuple(turns))


def selection(text: str, choices: Sequence[str], params: SamplingParams) -> int | None:
    """Return the index of the choice in an answer: an exact JSON choice, or the longest choice at
    the beginning of a free text."""
    if params.json_schema is not None:
        try:
            text = str(read_json(text)["choice"])
        except (InvalidAnswer, TypeError, LookupError):
            return None

    exact = [index for index, choice in enumerate(choices) if choice == text]
    answer = text.strip().strip("\"'").casefold()
    prefixes = [
        index
        for index, choice in enumerate(choices)
        if answer.startswith(choice.strip().casefold())
    ]
    return exact[0] if exact else max(prefixes, key=lambda index: len(choices[index]), default=None)
