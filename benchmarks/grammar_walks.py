"""`python -m benchmarks grammar_walks FOLDER [--schemas N] [--walks N] [--seed N]`: random texts of
public schemas, over vocabularies that try to break them, judged by the package jsonschema.

FOLDER holds `maskbench/data/*.json` of https://github.com/guidance-ai/jsonschemabench. Each schema
compiles in one of the two readings of `json_strict`; each of its walks takes tokens at random out
of the masks of one vocabulary, and after some of them the ending that the grammar knows. A walk
that has none is `cut`. Schemas that jsonschema itself cannot use are left out.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary
from tests.large_vocabulary import pieces

from .common import Report
from .schema_suites import maskbench

FEWEST, MOST = 1, 60  # tokens before a walk takes its ending
JUDGING = 5  # seconds that jsonschema has for a text

BYTES = [bytes([value]) for value in range(256)]
ESCAPES = rb'\u \u0 \u00 u00 \u000 \ud8 \ud83d\ude00 \n \\ \" \\" n" \", \/ /\ "\ a\ \t":'
VALUES = (
    b'true|false|null|true,|null]|"}|"]}|"]}}]}|": |": "|", "|": [{"|{"|{}|[]|[]}|0.|-0|1e9|1.0|00'
)


def vocabularies(schemas: Iterable[str], rng: random.Random) -> dict[str, Vocabulary]:
    """Walks with all bytes, except "ASCII only"; see the names."""
    marks = [mark.encode() for mark in '{}[]":, \n\\0-']
    text = "".join(schemas)
    cuts = [(rng.randrange(len(text)), rng.randint(2, 12)) for _ in range(8000)]
    large = pieces()
    made: dict[str, list[bytes]] = {
        "bytes": BYTES,
        "131,072 tokens": list(large),
        "8,000 of those": BYTES + rng.sample(large[1000:], 8000),
        "parts of schemas": BYTES + [text[at : at + size].encode() for at, size in cuts],
        "pairs and triples of marks": BYTES
        + [a + b for a in marks for b in marks]
        + [a + b + c for a in marks for b in marks for c in marks],
        "halves of characters": BYTES
        + [
            part
            for letter in "é€😀ß中"
            for half in (letter.encode()[:1], letter.encode()[1:], letter.encode()[:2])
            for part in (half, b'"' + half, half + b'"', half + b'": ', half + half)
        ],
        "runs": BYTES
        + [mark * size for mark in (*marks, b"a", b"9") for size in (2, 3, 8, 31, 64)],
        "escapes": BYTES + ESCAPES.split(b" "),
        "ASCII only": BYTES[:128],
        "each byte five times": BYTES * 5,
        "values": BYTES + VALUES.split(b"|"),
    }
    return {name: Vocabulary(tokens) for name, tokens in made.items()}


def walk(grammar: TokenGrammar, vocabulary: Vocabulary, rng: random.Random) -> bytes | None:
    """A random text with an ending, None where no ending is known. Raises GrammarError."""
    matcher, text = grammar.matcher(), b""
    for _ in range(rng.randint(FEWEST, MOST)):
        mask = matcher.next_token_bitmask().view(np.uint8)
        allowed = np.unpackbits(mask, count=vocabulary.size, bitorder="little").nonzero()[0]
        if not len(allowed):
            return text if matcher.is_final else None
        token = int(rng.choice(allowed))
        matcher.accept_token(token)
        text += vocabulary.pieces[token]
    end = matcher.completion()
    return None if end is None else text + end


def judge(validator: Any, text: bytes) -> str:
    """ "valid", what is wrong, or "" where jsonschema cannot say."""
    signal.alarm(JUDGING)
    try:
        value = json.loads(text.decode())
        error = next(validator.iter_errors(value), None)
        return "valid" if error is None else f"{error.message:.200}"
    except ValueError as error:
        return f"no JSON: {error}"
    except Exception:
        return ""
    finally:
        signal.alarm(0)


def _too_long(*_: Any) -> None:
    raise TimeoutError


def run(folder: Path, schemas: int, walks: int, seed: int) -> Report:
    rng = random.Random(seed)
    found = maskbench(folder)
    chosen = rng.sample(found, min(schemas, len(found)))
    texts = [json.dumps(json.loads(path.read_text())["schema"]) for _, path in chosen]
    hostile = list(vocabularies(texts[:200], rng).items())
    counts = {name: Counter[str]() for name, _ in hostile}
    wrong: list[str] = []
    refused = 0
    signal.signal(signal.SIGALRM, _too_long)
    for number, ((title, _), text) in enumerate(zip(chosen, texts, strict=True)):
        schema = json.loads(text)
        try:
            compiled = compile_spec(GrammarSpec("json_schema", text, strict=number % 2 == 0))
        except GrammarError:
            refused += 1
            continue
        validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
            schema
        )
        for place in range(max(1, walks // len(chosen))):
            name, vocabulary = hostile[(number + place) % len(hostile)]
            try:
                grammar = TokenGrammar(compiled, vocabulary)
            except GrammarError:
                refused += 1
                break
            try:
                made = walk(grammar, vocabulary, rng)
                verdict = "cut" if made is None else judge(validator, made)
            except GrammarError as error:
                made, verdict = b"", f"fails: {error.message}"
            known = {"valid": "valid", "cut": "cut", "": "not judged"}.get(verdict, "wrong")
            counts[name][known] += 1
            if known in ("wrong", "cut"):
                wrong.append(f"{title}, {name}, {verdict}: {(made or b'')[:200]!r}")
    report = Report(
        f"Random texts of {len(chosen) - refused:,} schemas ({refused} more are refused)",
        ("vocabulary", "walks", "valid", "not judged", "cut", "wrong"),
        bar="none wrong, none cut",
        note="\n\n".join(wrong[:20]),
    )
    report.rows = [
        (name, each.total(), *(each[kind] for kind in ("valid", "not judged", "cut", "wrong")))
        for name, each in [*counts.items(), ("all", sum(counts.values(), Counter()))]
    ]
    report.met = not wrong
    return report


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grammar_walks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--schemas", type=int, default=2000)
    parser.add_argument("--walks", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    report = run(given.folder, given.schemas, given.walks, given.seed)
    print(report.markdown(), flush=True)
    return int(report.met is False)
