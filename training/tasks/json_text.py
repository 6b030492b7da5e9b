"""JSON as text: how objects are written, where a program may fill a value in, how a request shows the wanted fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from ..alternatives import expand
from ..items import JOINT, listing, upper_first, weighted

Record = dict[str, Any]
"""An object that JSON can hold."""
Shape = dict[str, Any]
"""The keys of a record with the JSON type of each ("string", "integer or null"); a nested object is a dict again."""

_ENCODERS = {indent: json.JSONEncoder(ensure_ascii=False, indent=indent) for indent in (None, 2, 4)}


def dump(value: Any, indent: int | None = None) -> str:
    return _ENCODERS[indent].encode(value)


def jointed(value: Any, indent: int | None, inside: bool, depth: int = 0) -> str:
    """What `dump` writes, with JOINT at every value: before it, or inside the opening quote of a string."""
    if not isinstance(value, dict | list) or not value:
        text = dump(value)
        return f'"{JOINT}{text[1:]}' if inside and text[0] == '"' else JOINT + text
    start = f"\n{' ' * indent * (depth + 1)}" if indent else ""
    end = f"\n{' ' * indent * depth}" if indent else ""
    inner = value.values() if isinstance(value, dict) else value
    parts = [jointed(part, indent, inside, depth + 1) for part in inner]
    if isinstance(value, dict):
        parts = [f"{dump(name)}:{_after_colon(part, inside)}" for name, part in zip(value, parts, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + start + (f",{start}" if indent else ", ").join(parts) + end + closing


def _after_colon(text: str, inside: bool) -> str:
    return f"{JOINT} {text[1:]}" if text[0] == JOINT and not inside else f" {text}"


STYLES = ((70, "snake"), (18, "camel"), (8, "spaced"), (4, "title"))


def style(rng: Random) -> str:
    return weighted(rng, STYLES)


def in_style(name: str, style: str) -> str:
    """`capital_city` as capitalCity, "capital city" or "Capital City"."""
    if style == "snake":
        return name
    words = name.split("_")
    if style == "camel":
        return words[0] + "".join(upper_first(word) for word in words[1:])
    return " ".join(words) if style == "spaced" else " ".join(upper_first(word) for word in words)


def field_list(rng: Random, names: list[str]) -> str:
    """The keys in a row, as people write them."""
    how = rng.random()
    if how < 0.2:
        names = [f'"{name}"' for name in names]
    elif how < 0.25:
        names = [f"`{name}`" for name in names]
    elif how < 0.3:
        names = [f"'{name}'" for name in names]
    joined = rng.random()
    if joined < 0.5:
        return listing(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}" if joined > 0.9 and len(names) > 2 else ", ".join(names)


BLANKS = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}


def template(rng: Random, shape: Shape, indent: int | None) -> str:
    """An empty form of the object."""
    how = rng.choice(("blank", "blank", "null", "dots", "type", "question"))
    text = dump(_filled(shape, how), indent)
    return text.replace('"..."', "...") if how == "dots" else text


def _filled(shape: Shape, how: str) -> Record:
    words = {"null": None, "dots": "...", "question": "?"}
    out: Record = {}
    for name, kind in shape.items():
        if isinstance(kind, dict):
            out[name] = _filled(kind, how)
        elif how == "blank":
            out[name] = BLANKS[kind.removesuffix(" or null")]
        else:
            out[name] = kind if how == "type" else words[how]
    return out


def schema(rng: Random, shape: Shape) -> str:
    """A JSON Schema of the object, on one line."""
    made = _schema(shape)
    if rng.random() < 0.25:
        made["additionalProperties"] = False
    if rng.random() < 0.15:
        del made["required"]
    return dump(made, 2 if rng.random() < 0.1 else None)


def _schema(shape: Shape) -> Record:
    properties = {name: _schema(kind) if isinstance(kind, dict) else _type(kind) for name, kind in shape.items()}
    return {"type": "object", "properties": properties, "required": list(shape)}


def _type(kind: str) -> Record:
    if kind == "array":
        return {"type": "array", "items": {"type": "string"}}
    return {"type": kind.split(" or ")} if " or " in kind else {"type": kind}


PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list[str]"}
SCRIPT = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "array": "string[]"}


def code(rng: Random, shape: Shape, title: str) -> str:
    """The shape as a Python class, a TypeScript interface or a list of names with their types. For flat shapes."""
    how = rng.randrange(3)
    if how == 0:
        words = (_in_words(kind, PYTHON, "None") for kind in shape.values())
        rows = "".join(f"\n    {name}: {word}" for name, word in zip(shape, words, strict=True))
        return f"class {title}{rng.choice(('(BaseModel)', '(TypedDict)', ''))}:{rows}"
    if how == 1:
        words = (_in_words(kind, SCRIPT, "null") for kind in shape.values())
        return f"interface {title} {{ {' '.join(f'{n}: {word};' for n, word in zip(shape, words, strict=True))} }}"
    return ", ".join(f"{name} ({kind})" for name, kind in shape.items())


def _in_words(kind: str, words: dict[str, str], null: str) -> str:
    word = words[kind.removesuffix(" or null")]
    return f"{word} | {null}" if kind.endswith(" or null") else word


LAYOUTS = (
    ("Use an indent of two spaces.", 2), ("Indent the JSON by two spaces.", 2), ("Pretty-print the JSON.", 2),
    ("Indented, please.", 2), ("Write it with line breaks and an indent of 2.", 2), ("Format it nicely.", 2),
    ("Indent by four spaces.", 4), ("Use an indent of 4.", 4), ("Pretty-print it with four spaces.", 4),
    ("Write it on one line.", None), ("Compact JSON, please.", None), ("No line breaks.", None),
)
UNSEEN_LAYOUTS = (("Each key on its own line, two spaces in front.", 2), ("Keep it in a single row.", None))


@dataclass(frozen=True, slots=True)
class Frames:
    """Wordings of a request, by how it shows the fields. `{s}` is the subject, `{f}` the fields."""

    listed: tuple[str, ...]
    bare: tuple[str, ...]
    template: tuple[str, ...]
    schema: tuple[str, ...]
    code: tuple[str, ...]


LOOKS = ((50, "listed"), (10, "bare"), (18, "template"), (14, "schema"), (8, "code"))


def request(rng: Random, frames: Frames, look: str, subject: str, shape: Shape, title: str,
            layouts: tuple[tuple[str, int | None], ...] = LAYOUTS) -> tuple[str, int | None]:
    """The request in words, and the indent that it wants of the answer."""
    frame = expand(rng, rng.choice(getattr(frames, look)))
    indent = rng.choice((2, 4)) if look == "template" and "\n{f}" in frame and rng.random() < 0.3 else None
    shown = ""
    if look == "listed":
        shown = field_list(rng, list(shape))
        frame = _for_one(frame) if len(shape) == 1 else frame
    elif look == "template":
        shown = template(rng, shape, indent)
    elif look == "schema":
        shown = schema(rng, shape)
    elif look == "code":
        shown = code(rng, shape, title)
    ask = frame.replace("{f}", shown).replace("{s}", subject)
    ask = ask if frame.startswith("{f}") else upper_first(ask)
    if indent or rng.random() > 0.2:
        return ask, indent
    words, indent = rng.choice(layouts)
    return (f"{ask} {words}" if ask[-1] in ".?!" and rng.random() < 0.6 else f"{words}\n{ask}"), indent


def _for_one(frame: str) -> str:
    return frame.replace("these", "this").replace("ields", "ield").replace("eys", "ey").replace("ttributes", "ttribute")


GROUPS = ("details", "facts", "info", "data", "more", "profile")


def nested(rng: Random, record: Record, shape: Shape) -> tuple[Record, Shape]:
    """One to three neighbouring fields put into an object of their own."""
    names = list(record)
    start = rng.randrange(1, len(names))
    group = names[start:start + rng.randint(1, 3)]
    title = rng.choice([name for name in GROUPS if name not in record])
    return _grouped(record, group, title), _grouped(shape, group, title)


def _grouped(flat: dict[str, Any], group: list[str], title: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in flat.items():
        if name not in group:
            out[name] = value
        else:
            out.setdefault(title, {})[name] = value
    return out
