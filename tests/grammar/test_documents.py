"""Other documents of a schema: bundled by URI, with relative references, and never fetched."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from sgnb import read_documents
from sgnb.errors import GrammarError, OptionError
from sgnb.grammar.documents import bundle
from sgnb.grammar.lowering import lower
from sgnb.grammar.spec import GrammarSpec
from sgnb.lang.primitives.constraint_options import resolve_constraints
from sgnb.magics.fsm import fsm
from sgnb.sampling import SamplingParams

ADDRESS = {
    "$id": "https://x.test/address.json",
    "type": "object",
    "properties": {"zip": {"$ref": "parts.json#/$defs/zip"}},
    "required": ["zip"],
}
PARTS = {"$defs": {"zip": {"type": "string", "pattern": "^[0-9]{2}$"}}}


def accepts(schema: str, value: Any) -> bool:
    automaton = lower(GrammarSpec("json_schema", schema)).automaton
    assert automaton is not None
    return automaton.accepts(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("schema", "documents"),
    [
        ({"$ref": "address"}, {"address": ADDRESS, "parts.json": PARTS}),
        (
            {"$id": "https://x.test/root.json", "$ref": "address.json"},
            {"https://x.test/address.json": ADDRESS, "https://x.test/parts.json": PARTS},
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "a#"},
            {"a": ADDRESS | {"$id": "a"}, "parts.json": json.dumps(PARTS)},
        ),
        (
            {"$ref": "a", "$defs": {"b": True}},
            {"a": {"$ref": "b"}, "b": {"$ref": "#/$defs/c", "$defs": {"c": {
                "type": "object", "properties": {"zip": {"pattern": "^[0-9]{2}$"}},
                "required": ["zip"]}}}},
        ),
    ],
    ids=["relative", "absolute", "draft-07", "chain"],
)  # fmt: skip
def test_references(schema: Any, documents: dict[str, Any]) -> None:
    if "address" in documents:  # its parts, relative to the URI under which it is given
        documents = documents | {"address": {k: v for k, v in ADDRESS.items() if k != "$id"}}
    text = bundle(schema, documents)
    assert accepts(text, {"zip": "12"}) and not accepts(text, {"zip": "x"})


def test_only_needed_documents_are_bundled() -> None:
    documents = {"a": {"type": "integer"}, "b": {"type": "string"}}
    assert "string" not in bundle({"$ref": "a"}, documents)
    assert json.loads(bundle({"type": "null"}, documents)) == {"type": "null"}
    assert bundle(True, documents) == "true"


@pytest.mark.parametrize(("document", "fits"), [(True, True), (False, False)])
def test_documents_without_keywords(document: bool, fits: bool) -> None:
    text = bundle({"anyOf": [{"type": "integer"}, {"$ref": "a"}]}, {"a": document})
    grammar = lower(GrammarSpec("json_schema", text))
    assert (grammar.automaton is None) == fits


def test_a_missing_document_is_an_error_without_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *a, **k: pytest.fail("network"))
    monkeypatch.setattr(Path, "open", lambda *a, **k: pytest.fail("file"))
    with pytest.raises(GrammarError, match=r"'http://x\.test/y\.json' is not in") as raised:
        lower(GrammarSpec("json_schema", bundle({"$ref": "http://x.test/y.json"}, {"z": {}})))
    assert "documents={uri: schema}" in raised.value.hint


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "address.json").write_text(json.dumps(ADDRESS), encoding="utf-8")
    (tmp_path / "parts.json").write_text(json.dumps(PARTS), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no schema", encoding="utf-8")
    documents = read_documents(tmp_path)
    names = {"common/address.json", "https://x.test/address.json", "parts.json"}
    assert documents.keys() == names
    report = fsm({"$ref": "parts.json#/$defs/zip"}, documents=str(tmp_path))
    assert report.report.shortest == '"00"'
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(GrammarError, match=r"broken\.json is not a schema"):
        read_documents(tmp_path)
    with pytest.raises(OptionError, match="is not a folder"):
        read_documents(tmp_path / "absent")


def test_where_documents_are_given() -> None:
    given = {"json_schema": {"$ref": "a"}, "documents": {"a": {"type": "integer"}}}
    text = bundle(given["json_schema"], given["documents"])
    assert resolve_constraints(given)["json_schema"] == text
    assert SamplingParams.make(**given).json_schema == text
    for function in (resolve_constraints, SamplingParams.make):
        with pytest.raises(OptionError, match="documents has no effect"):
            function({"documents": {"a": True}})


@pytest.mark.parametrize("documents", [[], "a", {1: {}}])
def test_odd_documents(documents: Any) -> None:
    with pytest.raises(OptionError, match="dict from URI to schema"):
        bundle({}, documents)
    with pytest.raises(GrammarError, match="is not a schema"):
        bundle({"$ref": "a"}, {"a": "[]"})
