"""The wordings of tool use: instructions, thoughts, questions that need a sum. Knows no values."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ..alternatives import expand
from ..items import listing, upper_first
from ..tables import Groups, Texts, table

DATA = table("tool_words")


@dataclass(frozen=True, slots=True)
class Words:
    """Wordings of training, and others that only the evaluation uses."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]

    def of(self, new: bool) -> tuple[str, ...]:
        return self.unseen if new else self.seen

    def say(self, rng: Random, new: bool, **values: object) -> str:
        """One of the wordings; those of training may have alternatives in brackets and words around them."""
        text = rng.choice(self.of(new))
        if not new:
            text = expand(rng, text)
            if rng.random() < 0.25:
                text = f"{expand(rng, rng.choice(BEFORE))} {upper_first(text)}"
            if rng.random() < 0.1:
                text += expand(rng, rng.choice(AFTER))
        return upper_first(text.format(**values))


BEFORE = DATA.get("before", Texts)
AFTER = DATA.get("after", Texts)
FIRST = DATA.get("first", Texts)
THEN = DATA.get("then", Texts)
ALIKE = DATA.get("alike", Texts)
OTHER_NAME = DATA.get("other_name", Texts)
DONE = DATA.get("done", Texts)
SILENT = DATA.get("silent", Texts)
AT_ONCE = DATA.get("at_once", Texts)
TOO_LARGE = DATA.get("too_large", Texts)
SUM = DATA.get("sum", Groups)

WHICH = DATA.get("which", Words)
COST = DATA.get("cost", Words)
AGE = DATA.get("age", tuple[Words, str])
EXISTED = DATA.get("existed", tuple[Words, str])

SIGNS = DATA.get("signs", Words)
SMALL_SUM = SIGNS
SUMS = DATA.get("sums", dict[str, Words])

PROBLEMS = DATA.get("problems", tuple[tuple[str, str, Words], ...])

INTROS = DATA.get("intros", Texts)
ACTIONS = DATA.get("actions", tuple[tuple[str, Texts, str], ...])
LISTS = DATA.get("lists", Texts)
UNSEEN_HEADS = DATA.get("unseen_heads", Texts)
UNSEEN_SYSTEM = DATA.get("unseen_system", str)
SYSTEM_INTROS = DATA.get("system_intros", Texts)

CHOICE = DATA.get("choice", Words)


def _listed(rng: Random, count: int) -> str:
    """The first actions of the list, in some order and layout, with what they do or without."""
    actions = [(f"{name}[{rng.choice(arguments)}]", expand(rng, f"[{does}]"))
               for name, arguments, does in ACTIONS[:count]]
    if rng.random() < 0.5:
        actions = [*rng.sample(actions[:2], 2), *actions[2:]]
    if rng.random() < 0.2:
        return f"{listing([call for call, _ in actions])}."
    if rng.random() < 0.4:
        return " ".join(f"{call} {does}." for call, does in actions)
    marks = rng.choice((("",) * 3, ("- ",) * 3, ("* ",) * 3, ("(1) ", "(2) ", "(3) ")))
    if rng.random() < 0.6:
        between = rng.choice((": ", " - "))
        actions = [(call + between, does.removeprefix("is ")) for call, does in actions]
    else:
        actions = [(f"{call} ", does) for call, does in actions]
    return "\n" + "\n".join(mark + call + does for mark, (call, does) in zip(marks, actions, strict=False))


def head(rng: Random) -> str:
    """An instruction that lists the tools."""
    intro, lead = upper_first(expand(rng, rng.choice(INTROS))), upper_first(expand(rng, rng.choice(LISTS)))
    return f"{intro}{rng.choice((' ', chr(10)))}{f'{lead} {_listed(rng, 3)}'.strip()}\n".replace(": \n", ":\n")


def system(rng: Random, new: bool) -> str:
    """A system line that tells how a chat can call tools."""
    if new:
        return UNSEEN_SYSTEM
    intro, lead = upper_first(expand(rng, rng.choice(SYSTEM_INTROS))), rng.choice(("Tools: ", ""))
    tools = _listed(rng, 2).strip()
    return f"{intro} {lead if chr(10) not in tools else 'Tools:' + chr(10)}{tools}".strip()
