"""How people ask for tips, for points, for a sentence in another form, for a summary or a title.

{t} a topic as a gerund, {b} the same after "to", {w} what is wanted ("three good tips"), {s} a subject as a gerund,
{y} a name of it that may also be a plural, {n} a count;
{l} is {w} or a list of it. UNSEEN_ ones are for the evaluation only.
"""

from __future__ import annotations

from typing import NamedTuple

from ..tables import Groups, Texts, table

DATA = table("writing_words")

COUNTED = DATA.get("counted", str)
UNCOUNTED = DATA.get("uncounted", str)
COUNTED_LIST = DATA.get("counted_list", str)
UNCOUNTED_LIST = DATA.get("uncounted_list", str)
"""What is wanted, as a plural; the lists may also be singular."""

LIST_ASKS = DATA.get("list_asks", Texts)
COUNTED_ASKS = DATA.get("counted_asks", Texts)
UNCOUNTED_ASKS = DATA.get("uncounted_asks", Texts)
UNSEEN_LIST_ASKS = DATA.get("unseen_list_asks", Texts)


_END = DATA.get("end", str)


def _side_asks(noun: str, side: str, short: str, word: str, verb: str, end: str = _END) -> tuple[str, ...]:
    """Requests for points of one side."""
    give = "[give me|list|name|tell me|write|show me|write down|mention|find|state|think of]"
    talk = "[reasons|arguments|points]"
    return (
        f"{give} {{n}} {noun} of {{y}}.", f"please {give} {{n}} {noun} of {{y}}.", f"what are {{n}} {noun} of {{y}}?",
        f"[I need|I want|I would like|I am looking for|we need] {{n}} {noun} of {{y}}.",
        f"{{n}} {noun} of {{y}}[|.|, please.|?|:]", f"what are the {noun} of {{y}}? {end}",
        f"which {noun} [do|would] you see in {{s}}? {end}", f"[can|could|would|will] you {give} {{n}} {noun} of {{y}}?",
        f"{give} {{n}} {talk} {side} {{y}}.", f"{{n}} {talk} {side} {{y}}[|.|, please.|?|:]",
        f"what are {{n}} {talk} {side} {{y}}?", f"what [speaks|can be said|do people say] {side} {{y}}? {end}",
        f"what is {word} about {{y}}? {end}", f"why is {{s}} a {short} [idea|thing]? {end}",
        f"why [would|might|could] {{s}} be a {short} [idea|thing]? {end}",
        f"why do [some |many |]people {verb} {{y}}? {end}", f"{{s}}: {{n}} {noun}", f"{{s}}, {{n}} {noun}",
        f"topic: {{s}}. {{N}} {noun}[|, please|:|.]",
        f"I am [writing|preparing] [a text|an essay|a speech|a talk] {side} {{s}}. "
        f"[I need|Give me|List|Help me with] {{n}} {talk}.",
        f"I want to speak {side} {{s}}. [What are|Name|Tell me|List] {{n}} {talk}.",
        f"[my class|our group|my friend] talks about {{y}}. [We need|I need|Give us|List] {{n}} {noun}.",
        f"do you know {{n}} {noun} of {{y}}?", f"{{s}} has {noun}. {end}", f"make a list of {{n}} {noun} of {{y}}.",
    )


def _bare(asks: tuple[str, ...]) -> tuple[str, ...]:
    """The requests that need no count."""
    return tuple(ask.strip() for ask in asks if "{n}" not in ask and "{N}" not in ask and "?" in ask)



class Side(NamedTuple):
    """The words of a side: `side` is for or against, `verb` what people do who take it."""

    noun: str
    side: str
    short: str
    word: str
    verb: str


_GOOD = DATA.get("good", Side)
_BAD = DATA.get("bad", Side)
GOOD_ASKS, BAD_ASKS = _side_asks(*_GOOD), _side_asks(*_BAD)
BARE_GOOD_ASKS, BARE_BAD_ASKS = _bare(_side_asks(*_GOOD, end="")), _bare(_side_asks(*_BAD, end=""))
UNSEEN_GOOD_ASKS = DATA.get("unseen_good_asks", Texts)
UNSEEN_BAD_ASKS = DATA.get("unseen_bad_asks", Texts)

REWRITE_ASKS = DATA.get("rewrite_asks", Groups)
UNSEEN_REWRITE_ASKS = DATA.get("unseen_rewrite_asks", Groups)

SUMMARY_ASKS = DATA.get("summary_asks", Texts)
UNSEEN_SUMMARY_ASKS = DATA.get("unseen_summary_asks", Texts)
TITLE_ASKS = DATA.get("title_asks", Texts)
