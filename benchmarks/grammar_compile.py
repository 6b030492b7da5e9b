"""JSON schemas and masks, 131,072 tokens: sgnb beside xgrammar, llguidance and outlines-core.

The schemas are those of schemas.json. Nothing is compiled before it is measured: sgnb's folder of
grammars is empty, xgrammar's cache is off. What is made once for a vocabulary is measured apart. A
mask's time includes accepting the token that follows it, and everything that is computed when it is
first needed: the masks of a grammar are kept from one of its texts to the next, as in serving, and
each text has a matcher of its own. The texts are random walks through sgnb's grammars, so that of
what it allows the others' acceptance is counted, not the other way round. xgrammar compiles on all
cores. outlines-core, which takes seconds, gets a sample of the schemas, and a limit.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import mistral_common
import numpy as np
from jsonschema.validators import validator_for
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from sgnb.errors import GrammarError
from tests.large_vocabulary import FILE, pieces

from .common import Report, seconds
from .grammar_texts import Walker
from .grammar_tools import LLGuidance, OutlinesCore, Refused, Sgnb, Tokens, Tool, XGrammar

SCHEMAS = Path(__file__).with_name("schemas.json")
TEXTS = 5
SAMPLE = 11
LIMIT = 5.0


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        schemas = [
            (entry["name"], json.dumps(entry["schema"]))
            for entry in json.loads(SCHEMAS.read_text("utf-8"))
        ]
        with patch.dict(os.environ, {"SGNB_CACHE": f"{folder}/texts"}):
            texts, invalid = _texts(schemas)
        with patch.dict(os.environ, {"SGNB_CACHE": f"{folder}/measured"}):
            return _compare(schemas, texts, invalid)


def _texts(schemas: list[tuple[str, str]]) -> tuple[dict[str, list[Tokens]], int]:
    """The tokens of each schema's texts, and how many of the texts do not validate."""
    walker, tokenizer = (
        Walker(pieces()),
        Tekkenizer.from_file(Path(mistral_common.__file__).parent / "data" / FILE),
    )
    found: dict[str, list[Tokens]] = {}
    invalid = 0
    for name, schema in schemas:
        try:
            texts = walker.texts(schema, TEXTS)
        except GrammarError:
            texts = []
        parsed = json.loads(schema)
        validator = validator_for(parsed)(parsed)
        invalid += sum(not validator.is_valid(json.loads(text)) for text in texts)
        found[name] = [tokenizer.encode(text, bos=False, eos=False) for text in texts]
    return found, invalid


class _Measured:
    """Seconds of a tool per schema and per mask, number of accepted texts, and refusals."""

    def __init__(self, make: Callable[[], Tool]) -> None:
        made: list[Tool] = []
        self.once = seconds(lambda: made.append(make()))
        self.tool = made[0]
        self.compiling: list[float] = []
        self.masks: list[float] = []
        self.accepted = self.texts = 0
        self.refused: list[str] = []

    def take(self, name: str, schema: str, texts: list[Tokens]) -> None:
        try:
            took, times = self.tool.run(schema, texts)
        except Refused:
            self.refused.append(name)
            return
        self.compiling.append(took)
        self.texts += len(times)
        for text in times:
            if text is not None:
                self.accepted += 1
                self.masks += text

    def compile_ms(self) -> list[float]:
        """Median, 95th percentile and maximum."""
        return [float(np.percentile(self.compiling, q)) * 1e3 for q in (50, 95, 100)]

    def mask_us(self) -> list[float]:
        """Mean, median and 99th percentile."""
        return [x * 1e6 for x in (np.mean(self.masks), *np.percentile(self.masks, (50, 99)))]

    def row(self) -> tuple[str, ...]:
        schemas = f"{len(self.compiling)} of {len(self.compiling) + len(self.refused)}"
        times = [f"{x:.1f}" for x in self.compile_ms()]
        return (
            self.tool.name,
            f"{self.once:.2f}",
            schemas,
            *times,
            f"{self.accepted} of {self.texts}",
            *(f"{x:.1f}" for x in self.mask_us()),
        )


def _compare(
    schemas: list[tuple[str, str]], texts: dict[str, list[Tokens]], invalid: int
) -> Report:
    ours, *others = [
        _Measured(lambda kind=kind: kind(pieces())) for kind in (Sgnb, XGrammar, LLGuidance)
    ]
    slow = OutlinesCore(pieces(), LIMIT)
    sampled = _Measured(slow.start)
    for number, (name, schema) in enumerate(schemas):
        for measured in (ours, *others, *((sampled,) if number % SAMPLE == 0 else ())):
            measured.take(name, schema, texts[name])
    slow.close()
    report = Report(
        f"JSON schemas and masks for {len(pieces()):,} tokens",
        (
            "tool",
            "vocabulary, s",
            "schemas",
            "compile, ms: median",
            "95 %",
            "max",
            "texts accepted",
            "mask and token, μs: mean",
            "median",
            "99 %",
        ),
        bar="compile under 30 ms (median) and 300 ms (95 %), masks under 100 μs (mean)",
    )
    everyone = (ours, *others, sampled)
    report.rows = [measured.row() for measured in everyone]
    (median, high, _), (mean, *_) = ours.compile_ms(), ours.mask_us()
    report.met = median < 30 and high < 300 and mean < 100
    refused = "; ".join(f"{m.tool.name}: {', '.join(m.refused)}" for m in everyone if m.refused)
    report.note = (
        f"{sum(map(len, texts.values()))} texts of {len(ours.masks):,} tokens, "
        f"{invalid} not valid under their schema. "
        f"outlines-core: every {SAMPLE}th schema, at most {LIMIT:g} s each. Refused: {refused}."
    )
    return report
