"""Fields out of a short text as JSON: one object, a list of objects, filled skeletons; what is not said is null."""

from __future__ import annotations

from random import Random
from typing import Any

from .. import forms
from ..alternatives import expand, slots
from ..items import JOINT, Item, Passage, a, held_out, tidy, upper_first, weighted
from .extraction_requests import FRAMES, LIST_ASKS, SYSTEMS, TEXT_FORMS, UNSEEN_FRAMES
from .extraction_sentences import ORDER_BRIEF, PERSON_BRIEF
from .extraction_texts import DOMAINS, ORDER, PERSON, Domain
from .extraction_values import noise
from .json_text import (
    LAYOUTS,
    LOOKS,
    UNSEEN_LAYOUTS,
    Record,
    Shape,
    dump,
    field_list,
    in_style,
    jointed,
    nested,
    request,
    style,
)

EXTRA_FIELDS = ("age", "language", "nickname", "website", "comment", "birthday", "status", "priority", "height")
OPENINGS = ("Hello!", "Good morning.", "Dear colleagues!", "Some news.", "Just so you know:", "By the way:",
            "Attention please!")
WITH_ARTICLE = ("age", "job", "pet", "genre", "trade")
NUMERAL = ("8", "11", "18")
STANDS_FOR = {"money": ("price", "currency")}
"""Slots that say more than one field."""


def says(form: str) -> set[str]:
    """The slots of a sentence, and the fields that they stand for."""
    found = slots(form)
    return {*found, *(name for slot in found for name in STANDS_FOR.get(slot, ()))}


def _article(word: str) -> str:
    if word[0].isdigit():
        return f"an {word}" if word.startswith(NUMERAL) else f"a {word}"
    return a(word)


def _worded(rng: Random, domain: Domain) -> tuple[Record, Record]:
    """A record of the domain, and the words for all slots of its sentences."""
    values, said = domain.values(rng)
    words = noise(rng) | {name: str(value) for name, value in values.items()} | said
    words |= {f"a_{name}": _article(words[name]) for name in WITH_ARTICLE if name in words}
    return values, words


def text_of(rng: Random, domain: Domain, unseen: bool = False, plain: bool = False) -> tuple[str, Record]:
    """A text, and the fields that it says with their values, in the usual order. plain: nothing else is said."""
    values, words = _worded(rng, domain)
    whole, parts = domain.me if domain.me[0] and not unseen and rng.random() < 0.2 else (domain.whole, domain.parts)
    first = expand(rng, rng.choice(domain.unseen if unseen else whole))
    told = says(first)
    more = []
    if rng.random() < 0.6:
        for name, ways in parts.items():
            if name not in told and rng.random() < 0.5:
                more.append(expand(rng, rng.choice(ways)))
                told |= says(more[-1])
    rng.shuffle(more)
    sayings = [first, *more]
    other = rng.choice(domain.noise)
    if not plain and rng.random() < 0.35 and not (whole is domain.me[0] and "{name}" in other):
        sayings.insert(rng.choice((0, len(sayings))), other)
    sentences = [upper_first(form.format_map(words)) for form in sayings]
    gap = "\n" if "\n" in first else " "
    text = gap.join(part if part[-1] in ".!?\"" or gap == "\n" else f"{part}." for part in sentences)
    if gap == " " and not plain and rng.random() < 0.1:
        text = f"{rng.choice(OPENINGS)} {text}"
    elif len(sayings) == 1 and text[-1] == "." and rng.random() < 0.08:
        text = text[:-1]
    return tidy(text), {name: values[name] for name in domain.fields if name in told}


def key_of(domain: Domain, *told: Record) -> str:
    """The instance that a text is: what it says, in whatever words."""
    return f"extract/{domain.title}/{dump(told)}"


def _wanted(rng: Random, domain: Domain, told: Record, missing: float) -> list[str]:
    """Which fields a request asks for, in its order: mostly what the text says."""
    names = [name for name in domain.fields if name in told or rng.random() < missing]
    count = min(len(names), rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6)))
    chosen = rng.sample(names, count)
    return sorted(chosen, key=names.index) if rng.random() < 0.4 else chosen


def _keys(rng: Random, domain: Domain, wanted: list[str], style: str) -> Shape:
    shape: Shape = {}
    for name in wanted:
        *names, kind = domain.fields[name]
        free = [key for key in names if in_style(key, style) not in shape]
        shape[in_style(free[0] if rng.random() < 0.55 else rng.choice(free), style)] = kind
    return shape


def extraction(rng: Random, *, unseen_text: bool = False, unseen_words: bool = False, missing: float = 0.2) -> Item:
    """Some fields of a short text."""
    domain = weighted(rng, DOMAINS)
    text, told = text_of(rng, domain, unseen_text)
    look = weighted(rng, LOOKS)
    wanted = list(domain.fields)[:domain.usual]
    shape = {name: domain.fields[name][-1] for name in wanted}
    if look != "bare":
        wanted = _wanted(rng, domain, told, missing)
        shape = _keys(rng, domain, wanted, "snake" if look == "code" else style(rng))
    made = dict(zip(shape, (told.get(name) for name in wanted), strict=True))
    extra = rng.choice(EXTRA_FIELDS)
    if look != "bare" and rng.random() < missing / 3 and extra not in domain.fields and extra not in shape:
        made[extra], shape[extra] = None, "string"
    if None in made.values() or rng.random() < 0.3:
        shape = {name: f"{kind} or null" for name, kind in shape.items()}
    given = f"{text} ({', '.join(shape)})" if look == "listed" and "\n" not in text else ""
    if look in ("template", "schema") and len(shape) > 2 and rng.random() < 0.15:
        made, shape = nested(rng, made, shape)
    ask, indent = request(rng, UNSEEN_FRAMES if unseen_words else FRAMES, look, text, shape, domain.title,
                          UNSEEN_LAYOUTS if unseen_words else LAYOUTS)
    answer = dump(made, indent)
    return Item(key_of(domain, told), ask, answer, answer, given if indent is None else "", ("Text", "JSON"))


def extraction_unseen_text(rng: Random) -> Item:
    return extraction(rng, unseen_text=True)


def extraction_unseen_words(rng: Random) -> Item:
    return extraction(rng, unseen_words=True)


def _alike(rng: Random, count: int, plain: bool = False) -> tuple[Domain, list[str], list[tuple[str, Record]]]:
    """Texts of one domain, and fields that mostly all of them say. Only the last may be held out."""
    domain = weighted(rng, DOMAINS)
    made = [text_of(rng, domain, plain=plain) for _ in range(count)]
    made = [*(pair for pair in made[:-1] if not held_out(key_of(domain, pair[1]))), made[-1]]
    return domain, _wanted(rng, domain, made[-1][1], 0.15), made


MARKS = ("", "", "", "- ", "* ", "{}. ", "{}) ", "{}: ", "Text {}: ", "Entry {}: ", "No. {}: ")
BRIEF = {PERSON.title: PERSON_BRIEF, ORDER.title: ORDER_BRIEF}


def _apart(rng: Random, texts: list[str]) -> str:
    """Texts one after the other, on lines of their own, or under marks."""
    mark = rng.choice(MARKS)
    if not mark:
        return rng.choice((" ", "\n", "\n", "\n\n")).join(texts)
    return "\n".join(f"{mark.format(at)}{text}" for at, text in enumerate(texts, 1))


def _in_one_sentence(rng: Random, domain: Domain, count: int) -> tuple[str, list[Record]]:
    """Several people or orders, the same said of each."""
    form = expand(rng, rng.choice(BRIEF[domain.title]))
    fields = [name for name in domain.fields if name in says(form)]
    made = [_worded(rng, domain) for _ in range(count)]
    parts = [form.format_map(words) for _, words in made]
    first, last = rng.choice(((", ", " and "), (", ", ", and "), ("; ", "; "), ("; ", "; and "), (". ", ". ")))
    if first == ". " or "," in form:
        first, last = (first, last) if first[0] in ";." else ("; ", "; ")
        parts = [upper_first(part) for part in parts] if first == ". " else parts
    text = f"{upper_first(first.join(parts[:-1]) + last + parts[-1])}."
    return text, [{name: values[name] for name in fields} for values, _ in made]


def _several(rng: Random) -> tuple[Domain, str, list[Record]]:
    """A text about two to four things of one kind, and what it says of each; none but the last may be held out."""
    count = rng.choice((2, 2, 3, 3, 4))
    if rng.random() < 0.35:
        domain = rng.choice((PERSON, ORDER))
        text, told = _in_one_sentence(rng, domain, count)
        if not any(held_out(key_of(domain, one)) for one in told):
            return domain, tidy(text), told
    domain, _, made = _alike(rng, count, plain=rng.random() < 0.8)
    return domain, _apart(rng, [text for text, _ in made]), [told for _, told in made]


def extraction_list(rng: Random) -> Item:
    """Two to four things in one text; a list with an object for each, mostly the name first."""
    domain, text, told = _several(rng)
    anchor = next(iter(domain.fields))
    all_say = [name for name in domain.fields if name != anchor and all(name in one for one in told)]
    others = all_say if all_say and rng.random() < 0.7 else [name for name in domain.fields if name != anchor]
    wanted = rng.sample(others, min(len(others), rng.choice((1, 1, 2, 2, 3, 4))))
    wanted.insert(0 if rng.random() < 0.85 else rng.randint(0, len(wanted)), anchor)
    shape = _keys(rng, domain, wanted, style(rng))
    rows = [dict(zip(shape, (one.get(name) for name in wanted), strict=True)) for one in told]
    ask = expand(rng, rng.choice(LIST_ASKS)).replace("{f}", field_list(rng, list(shape)))
    answer = dump(rows)
    return Item(key_of(domain, *told), upper_first(ask.replace("{s}", text)), answer, answer, labels=("Text", "JSON"))


def extraction_text(rng: Random) -> Passage:
    """Texts and their objects in running text, all with the same keys; a program may fill any single value."""
    domain, wanted, made = _alike(rng, rng.choice((1, 1, 2, 3, 4, 5)))
    shape = _keys(rng, domain, wanted, style(rng))
    indent, inside = rng.choice((None, None, None, 2, 4)), rng.random() < 0.65
    form = rng.choice(TEXT_FORMS)
    parts = []
    for text, told in made:
        row: dict[str, Any] = dict(zip(shape, (told.get(name) for name in wanted), strict=True))
        head = form.replace("{f}", ", ".join(shape)).replace("{s}", text).replace("{j}", JOINT)
        parts.append(head + jointed(row, indent, inside))
    return Passage(key_of(domain, made[-1][1]), rng.choice(("\n", "\n\n")).join(parts))


def extraction_talk(rng: Random) -> Passage:
    """A chat whose system line names the fields; every turn is a text."""
    domain, wanted, made = _alike(rng, rng.randint(1, 4))
    shape = _keys(rng, domain, wanted, style(rng))
    turns = [(text, dump(dict(zip(shape, (told.get(name) for name in wanted), strict=True)))) for text, told in made]
    system = expand(rng, rng.choice(SYSTEMS)).format(f=field_list(rng, list(shape)))
    return Passage(key_of(domain, made[-1][1]), forms.chat(turns, system))
