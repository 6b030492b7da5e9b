"""Selects on services without log-probabilities of prompts: the model picks the choice."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...grammar.schema.strict_json import InvalidAnswer, read_json
from ...lang.executor import ScoreCall
from ...sampling import SamplingParams
from .endpoint import Ask, Message


def question(call: ScoreCall, turns: Sequence[Message], enforces: frozenset[str]) -> Ask:
    """Build a request for a choice: enforced by a JSON schema if the service supports schemas,
    otherwise by instruction."""
    longest = max(len(choice.encode()) for choice in call.choices)
    schema = None
    if turns and "json_schema" in enforces:
        properties = {"choice": {"type": "string", "enum": list(call.choices)}}
        closed = {"required": ["choice"], "additionalProperties": False}
        schema = json.dumps({"type": "object", "properties": properties, **closed})
    elif turns:
        named = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in call.choices)
        told = f"{turns[-1]['content']}\n\nAnswer with one of these and nothing else: {named}"
        turns = [*turns[:-1], {**turns[-1], "content": told}]
    params = SamplingParams(max_new_tokens=longest + 16, temperature=0, json_schema=schema)
    return Ask(params, call.prompt if not turns else "", tuple(turns))


def chosen(text: str, choices: Sequence[str], params: SamplingParams) -> int | None:
    """Return the index of the choice in an answer: an exact JSON choice, or the longest choice at
    the beginning of a free text."""
    if params.json_schema is not None:
        try:
            text = str(read_json(text)["choice"])
        except (InvalidAnswer, TypeError, LookupError):
            return None
    exact = [i for i, choice in enumerate(choices) if choice == text]
    said = text.strip().strip("\"'").casefold()
    begun = [i for i, choice in enumerate(choices) if said.startswith(choice.strip().casefold())]
    return exact[0] if exact else max(begun, key=lambda i: len(choices[i]), default=None)
