"""Public suites of JSON schemas with valid and invalid instances, as their repositories lay them
out:

- `maskbench/data/*.json` of https://github.com/guidance-ai/jsonschemabench: 11,306 schemas, most
  with valid and invalid instances;
- `tests/draft*/**/*.json` of https://github.com/json-schema-org/JSON-Schema-Test-Suite: the meaning
  of each keyword, in the drafts named in DRAFTS.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")

OTHER_DOCUMENTS = ("refRemote", "cross-draft", "vocabulary")  # files of the test suite
_OTHER_DOCUMENT = re.compile(r'"\$ref": "https?://json-schema\.org/')

Tokens = Sequence[int]
T = TypeVar("T")


@dataclass
class Instance:
    valid: bool
    tokens: Tokens


@dataclass
class Case:
    """A schema with its instances."""

    name: str
    schema: str
    instances: list[Instance]


def maskbench(folder: Path) -> list[tuple[str, Path]]:
    """The schemas of MaskBench, by name."""
    return [(path.stem, path) for path in sorted((folder / "maskbench" / "data").glob("*.json"))]


def maskbench_case(
    name: str, path: Path, encode: Callable[[str], Tokens], unique: bool = False
) -> Case:
    """unique: `uniqueItems` for the suite's `_uniqueItems`, an annotation."""
    text = path.read_text(encoding="utf-8")
    content = json.loads(text.replace('"_uniqueItems"', '"uniqueItems"') if unique else text)
    return Case(name, json.dumps(content["schema"]), list(_instances(content["tests"], encode)))


def suite_cases(folder: Path, encode: Callable[[str], Tokens]) -> Iterator[Case]:
    """Yield the groups of the JSON Schema test suite without references to other documents."""
    for draft in DRAFTS:
        for path in sorted((folder / "tests" / draft).rglob("*.json")):
            if path.stem in OTHER_DOCUMENTS:
                continue
            for group in json.loads(path.read_text(encoding="utf-8")):
                schema = group["schema"]
                if _OTHER_DOCUMENT.search(json.dumps(schema)):
                    continue
                if isinstance(schema, dict) and draft in ("draft4", "draft6", "draft7"):
                    dialect = f"http://json-schema.org/{draft[:5]}-0{draft[5:]}/schema#"
                    schema = {"$schema": dialect} | schema
                name = f"{draft}/{path.stem}: {group['description']}"
                tests = list(_instances(group["tests"], encode))
                yield Case(name, json.dumps(schema), tests)


def _instances(
    tests: Sequence[dict[str, Any]], encode: Callable[[str], Tokens]
) -> Iterator[Instance]:
    for test in tests:
        yield Instance(test["valid"], encode(json.dumps(test["data"], ensure_ascii=False)))


def sampled(found: list[T], sample: int | None, seed: int) -> list[T]:
    """Return a random sample of the cases; all cases without `sample`."""
    return random.Random(seed).sample(found, min(sample, len(found))) if sample else found
