"""Lines of notes about people, then questions about them; some have no answer in the notes."""

from __future__ import annotations

from random import Random

from ..alternatives import expand
from ..items import JOINT, Passage, a, upper_first
from ..tables import Groups, Pairs, Texts, table
from .invented import CITIES, COLORS, HOBBIES, JOBS, PEOPLE, PETS

DATA = table("notes")

WORDS = {"city": CITIES, "job": JOBS, "hobby": HOBBIES, "pet": PETS, "color": COLORS}
SAYS = DATA.get("says", Groups)


NOUN_ASKS = DATA.get("noun_asks", str)
NOUNS = DATA.get("nouns", Pairs)
OTHER_ASKS = DATA.get("other_asks", Groups)
ASKS = {field: (NOUN_ASKS.replace("{x}", f"[{nouns}]"), *OTHER_ASKS[field])
        for field, nouns in NOUNS.items()}
UNSEEN_ASKS = DATA.get("unseen_asks", Groups)
"""Questions that only the evaluation asks."""
LEADS = DATA.get("leads", Texts)
LABELS = DATA.get("labels", tuple[Texts, ...])
ABSENT = DATA.get("absent", str)


def _question(rng: Random, wordings: tuple[str, ...], name: str) -> str:
    return upper_first(expand(rng, rng.choice(wordings)).format(n=name))


def notes(rng: Random, lines: int, *, unseen: bool = False) -> Passage:
    """So many lines, in an order of their own, and one to four questions."""
    names = rng.sample(PEOPLE, min(lines, len(PEOPLE) - 2))
    known = {(name, field): rng.choice(WORDS[field])
             for name in names for field in rng.sample(list(WORDS), 1 + (lines > len(names)))}
    told = [upper_first(expand(rng, rng.choice(SAYS[field])).format(n=name, v=value, a=a(value)))
            for (name, field), value in known.items()]
    rng.shuffle(told)
    wordings = UNSEEN_ASKS if unseen else ASKS
    question, reply = rng.choice(LABELS)
    asked = []
    for _ in range(rng.randint(1, 4)):
        name, field = rng.choice(list(known))
        if rng.random() < 0.15:
            name = rng.choice([person for person in PEOPLE if (person, field) not in known])
        value = known.get((name, field))
        answer = ABSENT if value is None else upper_first(value)
        asked.append(f"{question}: {_question(rng, wordings[field], name)}\n{reply}:{JOINT} {answer}")
    text = f"{rng.choice(LEADS)}{rng.choice((' ', chr(10))).join(told)}\n\n" + "\n".join(asked)
    facts = sorted("/".join((*who, value)) for who, value in known.items())
    return Passage(f"notes/{'|'.join(facts)}", text)


def notes_unseen(rng: Random, lines: int) -> Passage:
    return notes(rng, lines, unseen=True)
