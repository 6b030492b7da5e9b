"""Telling events in sentences, and asking for any part of them with the usual words: who, what, where, when, why.

A question is made from its parts: what asks, then the other parts in the words of the text. So the same few rules make
the questions about every event, and a question with one part changed has no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from ..items import upper_first
from .events import COLORS, PEOPLE_PARTS, VERBS, Event, Noun, Verb, parts_of, person, who
from .invented import DAYS, MONTHS

LINKS = {"with": ("with", "together with"), "for": ("for",), "to": ("to",), "from": ("from",), "price": ("for",)}
BEFORE = ("", "", "", "", "", "", "Question: ", "So, ", "Now: ", "Next question: ", "One more: ", "Please answer: ",
          "Quick question: ", "Help me: ", "I have a question: ", "And ", "Just one thing: ", "Say, ", "Please, ")
AFTER = ("?", "?", "?", "?", "?", "?", "?", "? Please.", "? Thanks!", "? Do you know?", "? I forgot.", "? Tell me.",
         "", "? Thank you.", "? I would like to know.")
INDIRECT = ("tell me {i}.", "can you tell me {i}?", "could you tell me {i}?", "please tell me {i}.", "do you know {i}?",
            "I want to know {i}.", "I would like to know {i}.", "say {i}.", "find out {i}.", "I wonder {i}.",
            "do you remember {i}?", "I need to know {i}.", "any idea {i}?", "let me know {i}.", "can you see {i}?",
            "is it clear {i}?", "explain {i}.", "my question is {i}.", "I forgot {i}.", "please look up {i}.")
UNSEEN_INDIRECT = ("nobody here seems to be sure {i}. Are you?", "would you be so kind as to check {i}?",
                   "I am supposed to report {i}.", "we were discussing {i}. What is right?")


@dataclass(frozen=True, slots=True)
class Given:
    """What a question holds; None and nothing: it does not hold that."""

    subject: str | None
    verb: Verb | None
    noun: Noun | None
    parts: dict[str, str] = field(default_factory=dict)

    def fits(self, event: Event) -> bool:
        return (self.subject in (None, event.subject) and self.verb in (None, event.verb)
                and self.noun in (None, event.noun) and self.parts.items() <= event.parts.items())


@dataclass(frozen=True, slots=True)
class Answered:
    """name: the part that is asked for. event: what answers it."""

    name: str
    question: str
    short: str
    full: str
    event: Event


# Telling

def linked(rng: Random, name: str, value: str) -> str:
    """A part as it stands in a sentence."""
    return f"{rng.choice(LINKS[name])} {value}" if name in LINKS else value


def verb_form(event: Event, way: tuple[str, str]) -> str:
    return f"will {way[0]}" if event.future else way[1]


def joined(*words: str) -> str:
    return " ".join(word for word in words if word)


def sentence(rng: Random, event: Event, called: str = "") -> str:
    """The event as a sentence; `called`: a pronoun for the subject."""
    order: list[str] = [name for name in ("price", "to", "for", "from", "with") if name in event.parts]
    places = [name for name in ("where", "when") if name in event.parts]
    if rng.random() < 0.3:
        places.reverse()
    first = ""
    if "when" in places and rng.random() < 0.3:
        places.remove("when")
        first = f"{event.parts['when']}, " if rng.random() < 0.6 else f"{event.parts['when']} "
    order += [*places, *(["why"] if "why" in event.parts else [])]
    told = (linked(rng, name, event.parts[name]) for name in order)
    middle = joined(called or event.subject, verb_form(event, rng.choice(event.verb.ways)), event.object, *told)
    return upper_first(f"{first}{middle}.")


def sentences(rng: Random, events: Sequence[Event]) -> list[str]:
    """One after the other; a pronoun may stand for the subject of the sentence before."""
    out = []
    last = ""
    for one in events:
        pronoun = one.pronoun if one.subject == last and rng.random() < 0.6 else ""
        out.append(sentence(rng, one, pronoun))
        last = one.subject
    return out


# Asking

def _framed(rng: Random, direct: str, indirect: str, unseen: bool) -> str:
    if unseen:
        return upper_first(rng.choice(UNSEEN_INDIRECT).replace("{i}", indirect))
    if rng.random() < 0.25:
        return upper_first(rng.choice(INDIRECT).replace("{i}", indirect))
    if rng.random() < 0.5:
        return upper_first(direct + "?")
    before = rng.choice(BEFORE)
    return upper_first(before + (upper_first(direct) if before.endswith(": ") else direct) + rng.choice(AFTER))


def _when_words(value: str) -> tuple[str, ...]:
    """What asks for a time, besides "when"."""
    kind, _, rest = value.partition(" ")
    if kind == "at" and rest[0].isdigit():
        return "at what time", "what time"
    if kind == "on" and rest.startswith(DAYS):
        return "on which day", "on what day", "which day"
    if kind == "in" and rest in MONTHS:
        return "in which month", "in what month"
    if kind == "in" and rest.isdigit():
        return "in which year", "in what year"
    return ()


def _part_question(rng: Random, name: str, event: Event, way: tuple[str, str], obj: str, rest: str) -> tuple[str, str]:
    """The direct and the indirect question for a part."""
    aux = "will" if event.future else "did"
    asks, says = joined(aux, event.subject, way[0], obj), joined(event.subject, verb_form(event, way), obj)
    if name == "price":
        paid = "get" if way[0] == "sell" else "pay"
        direct = rng.choice((f"how much {aux} {event.subject} {paid} for {obj}",
                             f"for how much {asks}", f"what {aux} {event.subject} {paid} for {obj}"))
        return joined(direct, rest), joined("for how much", says, rest)
    if name in PEOPLE_PARTS:
        if rng.random() < 0.3:
            return joined(f"{name} whom", asks, rest), joined(f"{name} whom", says, rest)
        return joined("who", asks, name, rest), joined("who", says, name, rest)
    word = name
    if name == "when" and name in event.parts and rng.random() < 0.35:
        word = rng.choice((*_when_words(event.parts[name]), word))
    if name == "why" and rng.random() < 0.2:
        word = "for what reason"
    return joined(word, asks, rest), joined(word, says, rest)


def _question(rng: Random, name: str, event: Event, way: tuple[str, str], rest: str) -> tuple[str, str]:
    """The direct and the indirect question for anything about the event."""
    aux = "will" if event.future else "did"
    does = verb_form(event, way)
    noun = event.noun
    if name == "who":
        asks = joined("who", does, event.object if rng.random() < 0.4 else event.known, rest)
        return asks, asks
    if name == "do":
        return joined("what", aux, event.subject, "do", rest), joined(
            "what", event.subject, "will do" if event.future else "did", rest)
    if name == "what":
        return joined("what", aux, event.subject, way[0], rest), joined("what", event.subject, does, rest)
    if name == "count":
        assert noun
        return (joined("how many", noun.plural, aux, event.subject, way[0], rest),
                joined("how many", noun.plural, event.subject, does, rest))
    if name == "color":
        thing, be = f"{event.known} that {event.subject} {does}", "are" if event.count else "is"
        was = be if event.future else {"are": "were", "is": "was"}[be]
        return f"what color {was} {thing}", f"what color {thing} {was}"
    obj = event.object if rng.random() < 0.15 else event.known
    return _part_question(rng, name, event, way, obj, rest)


def _full(name: str, event: Event, way: tuple[str, str]) -> str:
    """The answer as a sentence, in the words of the question."""
    subject = _spoken_to(event.subject)
    does = verb_form(event, way)
    if name == "color":
        be = ("are" if event.count else "is") if event.future else ("were" if event.count else "was")
        text = f"{event.known} {be} {event.adjective}"
    elif name in ("what", "do", "count"):
        text = joined(subject, does, event.object)
    elif name == "who":
        text = joined(subject, does, event.known)
    else:
        link = LINKS.get(name, ("",))[0]
        text = joined(subject, does, event.known, link, event.parts[name])
    return upper_first(text + ".")


def _spoken_to(subject: str) -> str:
    return "you" if subject == "I" else f"your {subject[3:]}" if subject.startswith("my ") else subject


def _short(name: str, event: Event, way: tuple[str, str]) -> str:
    if name == "who":
        return _spoken_to(event.subject)
    if name == "do":
        return joined(way[0] if event.future else way[1], event.object)
    return {"what": event.object, "count": event.count, "color": event.adjective}.get(name) or event.parts[name]


def _askable(event: Event) -> list[str]:
    """What the text says of the event; who and what twice, being always there."""
    names = [*event.parts, *event.parts, "who"]
    if event.noun:
        names += ["what"]
    if event.count:
        names += ["count", "count"]
    if event.adjective in COLORS:
        names += ["color", "color"]
    if {"when", "where"} & event.parts.keys():
        names.append("do")
    return names


def _given(rng: Random, name: str, event: Event) -> Given:
    """What a question for this holds."""
    others = [other for other in event.parts if other != name]
    rest = [rng.choice(others)] if others and rng.random() < 0.25 else []
    if name == "do":
        near = rng.choice([other for other in ("when", "where") if other in event.parts])
        return Given(event.subject, None, None, {near: event.parts[near]})
    if name == "who" and event.noun is None:
        rest = others[:1]
    if name == "color":
        rest = []
    parts = {other: event.parts[other] for other in rest}
    return Given(None if name == "who" else event.subject, event.verb, None if name == "what" else event.noun, parts)


def answered(rng: Random, events: Sequence[Event], unseen: bool = False) -> Answered:
    """A question that one event answers and no other."""
    for _ in range(6):
        one = rng.choice(events)
        name = rng.choice(_askable(one))
        given = _given(rng, name, one)
        if sum(given.fits(other) for other in events) == 1:
            break
    else:
        one, name = events[0], next(iter(events[0].parts))
        given = Given(one.subject, one.verb, one.noun)
    way = rng.choice(one.verb.ways)
    rest = joined(*(linked(rng, part, value) for part, value in given.parts.items()))
    question = _framed(rng, *_question(rng, name, one, way, rest), unseen)
    return Answered(name, question, _short(name, one, way), _full(name, one, way), one)


def own_question(rng: Random, event: Event, name: str = "", *, unseen: bool = False) -> Answered:
    """A question about an event that nothing else is like; `name`: for this part."""
    never = ("do", "who") if event.subject == "I" else ("do",)
    name = name or rng.choice([part for part in _askable(event) if part not in never])
    way = rng.choice(event.verb.ways)
    question = _framed(rng, *_question(rng, name, event, way, ""), unseen)
    return Answered(name, question, _short(name, event, way), _full(name, event, way), event)


def missing_question(rng: Random, event: Event) -> str:
    """A question for what is not told of the event, "" if everything is."""
    names = _missing(event)
    return _unanswerable(rng, event, rng.choice(names), False) if names else ""


def _missing(event: Event) -> list[str]:
    """What could be told of the event and is not."""
    names = [name for name in parts_of(event.verb) if name not in event.parts]
    if event.parts.keys() & {"why", "for"}:
        names = [name for name in names if name not in ("why", "for", "price")]
    if event.noun and event.noun.colored and event.adjective not in COLORS:
        names.append("color")
    return names


def _changed(rng: Random, one: Event, events: Sequence[Event], people: set[str]) -> Event | None:
    """The event with another subject, object or verb."""
    way = rng.random()
    if way < 0.4:
        if rng.random() < 0.6:
            subject, pronoun = rng.choice([(other.subject, other.pronoun) for other in events])
        else:
            subject, pronoun = person(rng)
            if who(subject) in people:
                return None
        return replace(one, subject=subject, pronoun=pronoun)
    if way < 0.75 and one.noun:
        return replace(one, noun=rng.choice(one.verb.objects))
    verb = rng.choice(events).verb if rng.random() < 0.5 else rng.choice(VERBS)
    if one.noun not in (verb.objects or (None,)):
        return None
    return replace(one, verb=verb)


def not_answered(rng: Random, events: Sequence[Event], unseen: bool = False) -> str:
    """A question that is about one of the events but for one part, or asks for what is not told of it."""
    people = {who(name) for one in events for name in (one.subject, *(v for k, v in one.parts.items()
                                                                     if k in PEOPLE_PARTS))}
    for _ in range(8):
        one = rng.choice(events)
        if rng.random() < 0.4:
            names = _missing(one)
            if names:
                return _unanswerable(rng, one, rng.choice(names), unseen)
            continue
        other = _changed(rng, one, events, people)
        if other is None:
            continue
        name = rng.choice([name for name in _askable(other) if name not in ("do", *one.verb.parts)] or ["when"])
        given = Given(None if name == "who" else other.subject, other.verb, None if name == "what" else other.noun)
        if not any(given.fits(told) for told in events):
            return _unanswerable(rng, other, name, unseen)
    stranger = replace(events[0], subject="the stranger", pronoun="")
    return _unanswerable(rng, stranger, "why", unseen)


def _unanswerable(rng: Random, event: Event, name: str, unseen: bool) -> str:
    return _framed(rng, *_question(rng, name, event, rng.choice(event.verb.ways), ""), unseen)
