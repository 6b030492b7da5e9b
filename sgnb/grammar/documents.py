"""Other documents of a JSON schema, given by the caller: bundled into the text of the schema.

A bundled document stands in `$defs` with its URI as `$id`, as the specification describes compound
documents. The schema never causes access to a network or to files: `read_documents` reads a folder
of the caller, and only on the caller's request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from ..errors import GrammarError, OptionError, shown
from .spec import schema_text

_IDENTIFIERS = "$id", "id"


def bundle(schema: Any, documents: Mapping[str, Any]) -> str:
    """Return a schema as JSON text, with the documents of all references.

    Args:
        schema: JSON text, dict, bool, or a type, as in `schema_text`.
        documents: schemas by URI. Relative references resolve against the URI or `$id` of
            the document.

    Raises:
        GrammarError: the schema or a needed document is no schema.
        OptionError: `documents` is not a mapping with URIs as keys.
    """
    if not isinstance(documents, Mapping) or not all(type(uri) is str for uri in documents):
        rule = "documents must be a dict from URI to schema"
        raise OptionError(f"documents={shown(documents)} is not allowed", rule)
    root = json.loads(schema_text(schema))
    if not isinstance(root, dict):
        return json.dumps(root)

    found: dict[str, Any] = {}
    waiting = list(_references(root, ""))
    while waiting:
        uri = waiting.pop()
        if uri in documents and uri not in found:
            found[uri] = _embedded(uri, documents[uri], root)
            waiting += _references(found[uri], uri)

    if found:
        others = root.get("$defs")
        root["$defs"] = {**(others if isinstance(others, dict) else {}), **found}
    return json.dumps(root, ensure_ascii=False)


def _embedded(uri: str, document: Any, root: dict[str, Any]) -> Any:
    """Return a document with the URI as identifier, in the spelling of the root's draft."""
    schema = json.loads(schema_text(document))
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    dialect = root.get("$schema")
    name = "id" if isinstance(dialect, str) and "draft-04" in dialect else "$id"
    kept = {key: value for key, value in schema.items() if key not in _IDENTIFIERS}
    return {name: uri, **kept}


def _references(schema: Any, base: str) -> Iterator[str]:
    """Yield the URIs of the documents that a schema refers to."""
    waiting = [(schema, base)]
    while waiting:
        value, base = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, base) for item in value]
        elif isinstance(value, dict):
            for name in _IDENTIFIERS:
                if isinstance(value.get(name), str):
                    base = urljoin(base, value[name])
            if isinstance(reference := value.get("$ref"), str):
                yield urldefrag(urljoin(base, reference)).url
            waiting += [(item, base) for item in value.values()]


def read_documents(folder: str | Path) -> dict[str, Any]:
    """Return the JSON schemas in a folder and in the folders below, for `documents`.

    Args:
        folder: folder with `.json` files.

    Returns:
        Schemas by path relative to the folder, such as `common/address.json`, and by `$id`.

    Raises:
        OptionError: the folder does not exist.
        GrammarError: a file holds no schema.
    """
    root = Path(folder)
    if not root.is_dir():
        message = f"documents={shown(str(folder))} is not a folder"
        raise OptionError(message, "give a folder of schemas")

    documents: dict[str, Any] = {}
    for path in sorted(root.rglob("*.json")):
        try:
            schema = json.loads(schema_text(path.read_text(encoding="utf-8")))
        except (GrammarError, UnicodeDecodeError) as error:
            hint = "remove the file, or move the schemas to a folder of their own"
            raise GrammarError(f"{path} is not a schema: {error}", hint) from error
        documents[path.relative_to(root).as_posix()] = schema
        names = [schema.get(name) for name in _IDENTIFIERS] if isinstance(schema, dict) else []
        documents |= {urldefrag(name).url: schema for name in names if isinstance(name, str)}
    return documents
