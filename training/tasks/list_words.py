"""How a question about a list of words is asked: the request and the list, in any order and layout.

A request is a core (templates with alternatives; the list is not in it) and the list; `about_list` joins the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..alternatives import expand
from ..items import listing, upper_first, weighted
from ..tables import Texts, table

DATA = table("list_words")

ODD_CORES = DATA.get("odd_cores", Texts)
COUNT_CORES = DATA.get("count_cores", Texts)
NOT_CORES = DATA.get("not_cores", Texts)
LEADS = DATA.get("leads", Texts)

JOINTS = ((6, ", "), (1.5, "and"), (1, "or"), (0.5, "; "), (0.5, " / "), (0.4, "\", \""), (0.3, " - "))


def about_list(rng: Random, cores: Sequence[str], names: Sequence[str], **slots: str) -> str:
    """One of the cores with the list before it, after it or in it, on one line or on several."""
    core = expand(rng, rng.choice(cores)).format(**slots).strip()
    body, end = core.rstrip(".?"), core[len(core.rstrip(".?")):]
    whole, head = upper_first(core), upper_first(body)
    line, block, lead = _line(rng, names), _block(rng, names), upper_first(expand(rng, rng.choice(LEADS)))
    first = upper_first(line)
    layouts = [(3, f"{first}: {core}"), (1.5, f"{first}. {whole}"), (1, f"{first} - {core}"), (2, f"{whole} {line}"),
               (1.5, f"{lead}: {line}. {whole}"), (1, f"{whole}\n{line}"), (1, f"{whole}\n{block}"),
               (1, f"{upper_first(block)}\n\n{whole}"), (1, f"{lead}:\n{block}\n{whole}"), (0.7, f"{first}\n{whole}")]
    if ". " not in core:
        layouts += [(7, f"{head}: {line}{end}"), (1, f"{head}:\n{block}")]
        if end == "?":
            among = rng.choice(("Among", "Out of", "In the list"))
            layouts += [(1.5, f"{among} {line}, {core}"), (0.7, f"{head}, {line}?")]
    return weighted(rng, layouts)


def _line(rng: Random, names: Sequence[str]) -> str:
    """The names on one line."""
    joint = weighted(rng, JOINTS)
    if joint == "and":
        return listing(names)
    if joint == "or":
        return f"{', '.join(names[:-1])} or {names[-1]}"
    return f'"{joint.join(names)}"' if '"' in joint else joint.join(names)


def _block(rng: Random, names: Sequence[str]) -> str:
    """The names on lines of their own."""
    mark = rng.choice(("- ", "* ", "{}. ", "{}) ", "", ""))
    return "\n".join(mark.format(i) + name for i, name in enumerate(names, 1))


def key_of(shown: Sequence[str]) -> str:
    """Lists of the same words are the same instance in any order."""
    return "/".join(sorted(shown))
