"""The wording engine: how a kind of fact turns into requests.

A `Relation` holds its clauses in grammatical forms: noun phrases, direct questions, clauses as they stand after "tell
me", statements, questions that say "it" or "there", key words. `Frames` holds what may stand around each form. Every
combination of the two is a wording; `wordings` makes them all once. Templates start with a small letter; frames may
hold alternatives in brackets, of which one is taken each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random

from .alternatives import expand
from .items import tidy, upper_first
from .tables import Groups, Texts, table

DATA = table("wording")

PREPOSITIONS = DATA.get("prepositions", Texts)
SUBJECT_VERBS = DATA.get("subject_verbs", list[list[str]])
"""After "which ..." they make a question that may stand in another sentence as it is."""
OPEN_STARTS = DATA.get("open_starts", Texts)


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """`facts` maps an entity {e} to its value {v}; {b} is the entity without its article.

    about: the kind of entity, a key of the leads. noun: noun phrases that mean the value. ask: direct questions.
    clause: what may follow "tell me". say: statements; the first is how an assistant answers. then: questions about
    an entity that was just named. terse: key words. check: yes-or-no questions.
    back, back_noun, back_say: from a value that only one entity has to the entity. some: asks for any entity of a
    value; the first of the table is the answer. unseen, unseen_back: questions that only the evaluation asks.
    who, back_who: what asks for the value and for the entity. near: values that are not
    wrong enough to ask for in a yes-or-no question.
    """

    name: str
    about: str
    facts: dict[str, str]
    noun: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    clause: tuple[str, ...] = ()
    say: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    terse: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    back_noun: tuple[str, ...] = ()
    back_say: str = ""
    some: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    unseen_back: tuple[str, ...] = ()
    who: str = "what"
    back_who: str = "what"
    near: Callable[[str, str], bool] = field(default=lambda entity, value: False)


def relation(name: str, about: str, facts: dict[str, str], clauses: Groups, *, who: str = "what",
             back_who: str = "what",
             near: Callable[[str, str], bool] = lambda entity, value: False) -> Relation:
    """A relation from its clauses by their form, as the tables hold them."""
    def of(form: str) -> Texts:
        return clauses.get(form, ())

    return Relation(name, about, facts, noun=of("noun"), ask=of("ask"), clause=of("clause"),
                    say=of("say"), then=of("then"), terse=of("terse"), check=of("check"),
                    back=of("back"), back_noun=of("back_noun"),
                    back_say="".join(of("back_say")), some=of("some"), unseen=of("unseen"),
                    unseen_back=of("unseen_back"), who=who, back_who=back_who, near=near)


def with_words(clauses: Groups, words: dict[str, str]) -> Groups:
    """The clauses with every key of `words` replaced by its value, one after the other."""
    def put(text: str) -> str:
        for mark, word in words.items():
            text = text.replace(mark, word)
        return text

    return {form: tuple(put(text) for text in texts) for form, texts in clauses.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """What may stand around a form: {p} noun phrase, {i} clause, {g} statement without its end, {t} question with
    "it", {e} entity, {s} statement, {w} what or who. before and after go around a direct question."""

    noun: tuple[str, ...]
    clause: tuple[str, ...]
    gap: tuple[str, ...]
    leads: dict[str, tuple[str, ...]]
    before: tuple[str, ...]
    after: tuple[str, ...]
    check: tuple[str, ...]


SEEN = DATA.get("seen", Frames)

UNSEEN = DATA.get("unseen", Frames)
"""Wordings that only the evaluation uses."""


@dataclass(frozen=True, slots=True, eq=False)
class Wordings:
    """Complete templates by form; plain ones are single direct questions, which may take words before and after."""

    shares: list[float]
    forms: list[list[tuple[str, bool]]]

    def pick(self, rng: Random) -> tuple[str, bool]:
        text, plain = rng.choice(rng.choices(self.forms, cum_weights=self.shares)[0])
        return (expand(rng, text) if "|" in text else text), plain


@cache
def wordings(of: Relation, frames: Frames) -> Wordings:
    """Every request for the value of an entity."""
    plain = [f"{q}?" for q in ((*of.ask, *_contracted(of.ask)) if frames is SEEN else of.unseen)]
    nouns = [_put(f, of.who, p=p) for f in frames.noun for p in of.noun if _reads_well(f, p, of.who)]
    clauses = [_put(f, of.who, i=i) for f in frames.clause for i in of.clause]
    gaps = [_put(f, of.who, g=s.removesuffix(" {v}")) for f in frames.gap for s in of.say if _has_clear_gap(of, s)]
    leads = [_put(f, of.who, t=t) for f in leads_of(of.about, frames) for t in of.then]
    terse = [*of.terse, *(f"{t}?" for t in of.terse if "?" not in t)] if frames is SEEN else []
    return _weigh(((6, plain), (4, nouns), (3, clauses), (0.7, gaps), (2.5, leads), (1, terse)))


@cache
def back_wordings(of: Relation, frames: Frames) -> Wordings:
    """Every request for the entity that has a value."""
    plain = [f"{q}?" for q in ((*of.back, *_contracted(of.back)) if frames is SEEN else of.unseen_back)]
    nouns = [_put(f, of.back_who, p=p) for f in frames.noun for p in of.back_noun if _reads_well(f, p, of.back_who)]
    clauses = [_put(f, of.back_who, i=q) for f in frames.clause for q in of.back if q.split()[2:3] in SUBJECT_VERBS]
    said = of.back_say.removesuffix(" {e}")
    gaps = [_put(f, of.back_who, g=said) for f in frames.gap] if said != of.back_say else []
    return _weigh(((3, plain), (2, nouns), (1, clauses), (0.5, gaps)))


@cache
def check_wordings(of: Relation, frames: Frames) -> Wordings:
    """Every yes-or-no question; statements are the simple ones, without topics put first."""
    plain = [f"{q}?" for q in of.check] if frames is SEEN else []
    turned = [f"{_negated(q)}?" for q in of.check if frames is SEEN and _negated(q)]
    said = [_put(f, of.who, s=s) for f in frames.check for s in of.say]
    return _weigh(((5, plain), (0.3, turned), (4, said)))


def _contracted(questions: tuple[str, ...]) -> list[str]:
    """The questions that begin with "what is" and the like, shorter, with the apostrophe and without it."""
    starts = [q.split(" ", 2) for q in questions]
    return [f"{first}{s} {rest}" for first, verb, rest in (s for s in starts if len(s) == 3)
            if verb == "is" and first in ("what", "who", "where") for s in ("'s", "s")]


def leads_of(about: str, frames: Frames) -> tuple[str, ...]:
    return frames.leads[""] + frames.leads.get(about, ())


def _put(frame: str, who: str, **parts: str) -> str:
    """The frame with a clause in it, capital letters where a sentence starts; the entity is still to come."""
    capitals = {key.upper(): upper_first(part) for key, part in parts.items()}
    return frame.format(w=who, W=upper_first(who), e="{e}", **parts, **capitals)


def _reads_well(frame: str, phrase: str, who: str) -> bool:
    """Only short phrases for things that have a name are "called" something."""
    named = who == "what" and len(phrase.split()) < 5 and not {"name", "word", "number", "place"} & set(phrase.split())
    return named or not frame.endswith("called?")


def _has_clear_gap(of: Relation, said: str) -> bool:
    """Whether the statement ends in its value and only one relation could fill the gap."""
    return said.endswith(" {v}") and (said not in ("{e} is {v}", "{e} is a {v}") or of.about in ("record", "person"))


def _negated(question: str) -> str:
    first, _, rest = question.partition(" ")
    return {"is": f"isn't {rest}", "are": f"aren't {rest}", "does": f"doesn't {rest}", "do": f"don't {rest}",
            "did": f"didn't {rest}"}.get(first, "")


def _weigh(table: tuple[tuple[float, list[str]], ...]) -> Wordings:
    kept = [(weight, forms) for weight, forms in table if forms]
    marked = [[(text, _is_plain(text)) for text in forms] for _, forms in kept]
    return Wordings(list(accumulate(weight for weight, _ in kept)), marked)


def _is_plain(text: str) -> bool:
    return text.startswith(OPEN_STARTS) and text.endswith("?") and ". " not in text


@cache
def names(entity: str) -> dict[str, str]:
    """The ways a template may show an entity: {e} as it is, {b} without article, {x} {y} split at a preposition."""
    bare = entity
    for article in ("the ", "a ", "an "):
        bare = bare.removeprefix(article)
    for preposition in PREPOSITIONS:
        first, found, last = entity.partition(preposition)
        if found:
            return {"e": entity, "b": bare, "x": first, "y": f"{found.strip()} {last}", "z": last}
    return {"e": entity, "b": bare}


ALIASES = DATA.get("aliases", Groups)


def called(rng: Random, of: Relation, entity: str) -> str:
    """The entity, now and then by another of its names."""
    if rng.random() < 0.3:
        if entity in ALIASES:
            return rng.choice(ALIASES[entity])
        if of.about == "book" and not entity.startswith("the "):
            return rng.choice(("the book {}", "\"{}\"", "'{}'", "the book \"{}\"")).format(entity)
    return entity


def write(template: str, entity: str, value: str = "") -> str:
    """The template about an entity, without a capital letter at its start."""
    text = template.format_map(names(entity) | {"v": value} if "{v}" in template else names(entity))
    text = text.replace("D.C..", "D.C.") if "D.C.." in text else text
    return text.replace("s's ", "s' ") if "s's " in text else text


def inner(template: str, entity: str, value: str) -> str:
    """A statement as it stands after a comma."""
    return tidy(write(template, entity, value) + ".")


def sentence(template: str, entity: str, value: str) -> str:
    """A statement with its capital letter and its full stop."""
    return tidy(upper_first(write(template, entity, value)) + ".")


def request(rng: Random, core: str, plain: bool, frames: Frames = SEEN) -> str:
    """The core as somebody may type it: often as it is, now and then with words before it and after it."""
    if not plain or (frames is SEEN and rng.random() < 0.55):
        return upper_first(core)
    if rng.random() < 0.6:
        before = expand(rng, rng.choice(frames.before))
        core = before + (upper_first(core) if before.endswith((". ", "! ", "? ")) else core)
    if rng.random() < 0.5:
        core = core.removesuffix("?") + expand(rng, rng.choice(frames.after))
    return upper_first(core)


@cache
def values(of: Relation) -> tuple[str, ...]:
    return tuple(sorted(set(of.facts.values())))


@cache
def unique(of: Relation) -> tuple[str, ...]:
    """The entities that nothing else shares its value with."""
    counts = Counter(of.facts.values())
    return tuple(e for e, v in of.facts.items() if counts[v] == 1)


@cache
def shared(of: Relation) -> dict[str, str]:
    """For each value that several entities have, the first of them."""
    counts = Counter(of.facts.values())
    return {v: next(e for e, w in of.facts.items() if w == v) for v in values(of) if counts[v] > 1}


@cache
def wrong(of: Relation, entity: str) -> tuple[str, ...]:
    """The values that are surely false of the entity; a peso is never a wrong answer where another peso is right."""
    truth = of.facts[entity]
    same = truth.split()[-1] if of.name == "currency" else ""
    return tuple(v for v in values(of) if v != truth and v.split()[-1] != same and not of.near(entity, v))


@cache
def doubtful(of: Relation) -> tuple[str, ...]:
    """The entities of which something is surely false."""
    return tuple(entity for entity in of.facts if wrong(of, entity))
