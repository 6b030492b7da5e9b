"""JSON about the world's things: objects in every kind of request, lists and maps of things, filled skeletons."""

from __future__ import annotations

from random import Random
from typing import Any

from .. import forms
from ..alternatives import expand
from ..items import JOINT, Item, Passage, a, held_out, listing, upper_first, weighted
from .invented import CITIES, HOBBIES, JOBS, PEOPLE, brand, surname, town
from .json_text import LAYOUTS, LOOKS, UNSEEN_LAYOUTS, Record, dump, field_list, jointed, nested, request, style
from .object_words import FOLLOW_UPS, FORMAT_SYSTEMS, FRAMES, LIST_ASKS, TEXT_LEADS, UNSEEN_FRAMES
from .records import KINDS, SHARED, Kind, choose, in_words, key_of, keys, record

SUBJECT_LEADS = tuple(lead for lead in TEXT_LEADS if "{s}" in lead)
ON_ONE_LINE = tuple(layout for layout in LAYOUTS if layout[1] is None)
WORDS_FOR = {2: "two", 3: "three", 4: "four", 5: "five"}


def world_object(rng: Random, *, unseen: bool = False, looks: tuple[tuple[float, str], ...] = LOOKS) -> Item:
    """One thing as a JSON object, asked for by a list of fields, an empty form, a schema, a class or none of them."""
    kind = weighted(rng, KINDS)
    at = rng.randrange(len(kind.things))
    look = weighted(rng, looks)
    if look == "bare":
        chosen = list(range(kind.usual))
        shape = {field.names[0]: field.type for field in kind.fields[:kind.usual]}
    else:
        chosen = choose(rng, kind)
        shape = keys(rng, kind, chosen, "snake" if look == "code" else style(rng))
    made = record(kind, at, chosen, shape)
    if look in ("template", "schema") and len(shape) > 2 and rng.random() < 0.2:
        made, shape = nested(rng, made, shape)
    subject = in_words(rng, kind, at)
    frames, layouts = (UNSEEN_FRAMES, UNSEEN_LAYOUTS) if unseen else (FRAMES, LAYOUTS)
    ask, indent = request(rng, frames, look, subject, shape, kind.name.capitalize(), layouts)
    text = dump(made, indent)
    given = f"{subject} ({', '.join(shape)})" if look == "listed" and indent is None else ""
    return Item(key_of(kind, at, made), ask, text, text, given, ("Input", "JSON"))


def world_object_unseen(rng: Random) -> Item:
    return world_object(rng, unseen=True)


def _known(rng: Random, kind: Kind, chosen: list[int], shape: dict[str, Any], count: int) -> list[int]:
    """Different things that only this kind has and whose own objects are not held out."""
    ats = rng.sample(range(len(kind.things)), min(count + 6, len(kind.things)))
    ats = [at for at in ats if str(kind.fields[0].values[at]).lower() not in SHARED]
    return [at for at in ats if not held_out(key_of(kind, at, record(kind, at, chosen, shape)))][:count]


def _mostly_named(rng: Random, kind: Kind) -> list[int]:
    """Up to four fields; the name, which the others depend on, is mostly the first of them."""
    chosen = choose(rng, kind)[:4]
    return [0, *(i for i in chosen if i)][:4] if rng.random() < 0.7 else chosen


def world_list(rng: Random) -> Item:
    """Several named things as a JSON list of objects, a list of values, or an object from name to value."""
    kind = weighted(rng, KINDS[:5])
    look = weighted(rng, ((5, "objects"), (2, "values"), (2, "map")))
    if look == "objects":
        chosen = _mostly_named(rng, kind)
        shape = keys(rng, kind, chosen, style(rng))
    else:
        chosen = [rng.choice([i for i, f in enumerate(kind.fields) if i and f.type in ("string", "integer")])]
        shape = {kind.fields[chosen[0]].names[0]: kind.fields[chosen[0]].type}
    ats = _known(rng, kind, chosen, shape, rng.choice((2, 2, 3, 3, 4, 5)))
    rows = [record(kind, at, chosen, shape) for at in ats]
    names = [str(kind.fields[0].values[at]) for at in ats]
    made: Any = rows
    if look != "objects":
        values = [next(iter(row.values())) for row in rows]
        made = values if look == "values" else dict(zip(names, values, strict=True))
    field = next(iter(shape)).replace("_", " ")
    shown = field_list(rng, list(shape)) if look == "objects" else field
    ask = expand(rng, rng.choice(LIST_ASKS[look])).format(
        s=listing(names), c=", ".join(names), f=shown, k=kind.plural, K=kind.name)
    text = dump(made)
    return Item(f"json/{'/'.join(names)}/{text}", upper_first(ask), text, text, labels=("Input", "JSON"))


def some_things_parts(rng: Random) -> tuple[Item, list[Record]]:
    """A request for so many things of a kind, which ones is left open; and every object that the list may hold.

    The name comes first and the things in the order of the table, so that the next one is never one of those before.
    """
    kind = weighted(rng, KINDS[:5])
    chosen = [0, *(i for i in choose(rng, kind) if i)][:4]
    shape = keys(rng, kind, chosen, style(rng))
    ats = sorted(_known(rng, kind, chosen, shape, rng.randint(2, 5)))
    made = [record(kind, at, chosen, shape) for at in ats]
    ask = expand(rng, rng.choice(LIST_ASKS["some"])).format(n=WORDS_FOR[len(made)], d=len(made), k=kind.plural,
                                                            f=field_list(rng, list(shape)))
    text = dump(made)
    item = Item(f"json/some/{text}", upper_first(ask), text, text, labels=("Input", "JSON"))
    return item, [record(kind, at, chosen, shape) for at in range(len(kind.things))]


def some_things(rng: Random) -> Item:
    return some_things_parts(rng)[0]


def _alike(rng: Random, count: int) -> tuple[Kind, list[int], list[Record]]:
    """Objects of one kind with the same keys; the last one alone may be held out."""
    kind = weighted(rng, KINDS)
    chosen = choose(rng, kind)
    shape = keys(rng, kind, chosen, style(rng))
    last = rng.randrange(len(kind.things))
    ats = [*[at for at in _known(rng, kind, chosen, shape, count) if at != last][:count - 1], last]
    return kind, ats, [record(kind, at, chosen, shape) for at in ats]


def world_object_text(rng: Random) -> Passage:
    """Objects in running text or in a chat, where a program may fill any single value."""
    kind, ats, rows = _alike(rng, rng.choice((1, 1, 1, 2, 3)))
    indent, inside = rng.choice((None, None, 2, 2, 4)), rng.random() < 0.65
    texts = [jointed(row, indent, inside) for row in rows]
    if indent is None and rng.random() < 0.25:
        ask, _ = request(rng, FRAMES, "listed", in_words(rng, kind, ats[-1]), rows[-1], "", ON_ONE_LINE)
        return Passage(key_of(kind, ats[-1], rows[-1]), forms.chat([(ask, texts[-1])]))
    named = next(iter(rows[-1])).lower().replace(" ", "_") in kind.fields[0].names
    lead = rng.choice(TEXT_LEADS if named else SUBJECT_LEADS)
    gap = rng.choice(("\n", "\n\n"))
    lead = f"{lead[:-1]}{JOINT} " if lead.endswith(" ") else lead + JOINT
    parts = [lead.format(s=in_words(rng, kind, at), k=kind.name, K=kind.name.capitalize(), f=", ".join(row)) + text
             for at, row, text in zip(ats, rows, texts, strict=True)]
    return Passage(key_of(kind, ats[-1], rows[-1]), gap.join(upper_first(part) for part in parts))


def object_talk(rng: Random) -> Passage:
    """A chat whose format is set once, by the system line or the first request; later turns only name things."""
    kind, ats, rows = _alike(rng, rng.randint(1, 5))
    indent = rng.choice((None, None, None, 2, 4))
    texts = [dump(row, indent) for row in rows]
    subjects = [in_words(rng, kind, at) for at in ats]
    if indent is None and rng.random() < 0.6:
        system = rng.choice(FORMAT_SYSTEMS).format(f=field_list(rng, list(rows[0])))
        names = [str(kind.fields[0].values[at]) for at in ats]
        plain = rng.random() < 0.5
        asks = [n if plain and n.lower() not in SHARED else s for n, s in zip(names, subjects, strict=True)]
        return Passage(key_of(kind, ats[-1], rows[-1]), forms.chat(list(zip(asks, texts, strict=True)), system))
    layouts = tuple(layout for layout in LAYOUTS if layout[1] == indent)
    first, got = request(rng, FRAMES, "listed", subjects[0], rows[0], "", layouts)
    if got != indent:
        first += f"\n{rng.choice(layouts)[0]}"
    follow = rng.choice(FOLLOW_UPS)
    asks = [first, *(follow.format(s=subject) for subject in subjects[1:])]
    return Passage(key_of(kind, ats[-1], rows[-1]), forms.chat(list(zip(asks, texts, strict=True))))


def unknown_object(rng: Random) -> Item:
    """A thing that does not exist: nothing but its name is known."""
    kind = weighted(rng, KINDS[:5])
    chosen = choose(rng, kind)
    chosen = [0, *(i for i in chosen if i)]
    shape = keys(rng, kind, chosen, style(rng))
    name = town(rng) if kind.name in ("country", "city") else rng.choice((brand(rng), surname(rng)))
    name = name.lower() if kind.name in ("animal", "element") else name
    made = dict.fromkeys(shape) | {next(iter(shape)): name}
    ask, indent = request(rng, FRAMES, "listed", f"the {kind.name} {name}", shape, "")
    text = dump(made, indent)
    return Item(f"json/unknown/{text}", ask, text, text, labels=("Input", "JSON"))


def person_line(rng: Random) -> str:
    """A person in a sentence."""
    return (f"{rng.choice(PEOPLE)} is {a(rng.choice(JOBS))} who lives in {rng.choice(CITIES)} and likes "
            f"{rng.choice(HOBBIES)}.")
