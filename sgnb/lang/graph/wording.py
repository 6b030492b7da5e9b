"""Decide by its words if a block keeps its meaning before the preceding blocks. Ambiguous blocks
stay."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .blocks import HEADS_INSTRUCTIONS, HOLE, Block, labels, said_inside


def why_it_stays(blocks: Sequence[Block], at: int, has_cue: bool) -> str:
    """Return the reason why constant block `at` cannot precede the blocks with holes; "" if it can.

    A movable block is an instruction or example without references to or from its neighbors.
    `has_cue`: the last block stays.
    """
    block = blocks[at]
    if at < len(blocks) - 1 and _is_task(blocks[-1], has_cue):
        return "the last block says what to do, and may speak of all before it"
    if blocks[at - 1].goes_on:
        return "it may belong to what a colon before it leads on to"
    if why := _why_order_matters(blocks):
        return why
    own, cue = labels(block.text), labels(blocks[-1].text)[-1:]
    with_holes = {label for one in blocks if not one.is_constant for label in labels(one.text)}
    shared = [label for label in own if label in (*with_holes, *cue)]
    is_example = bool(set(cue) & set(own) and with_holes & set(own))
    if shared and not is_example:
        return f"{shared[0]!r} belongs to what has an argument"
    instruction = block.text.partition(f"{shared[0]}:")[0] if is_example else block.text
    if word := _backward(instruction):
        return f"{word!r} refers to what comes before it"
    if not is_example and not _instructs(block.text):
        return "its first words do not say that it is an instruction or an example"
    for later in blocks[at + 1 :]:
        if word := _pronoun(later.text):
            return f"{word!r}, which comes after it, may refer to it"
    return ""


def _why_order_matters(blocks: Sequence[Block]) -> str:
    """Return the reason for fixing the order of all blocks; "" if blocks may move."""
    for block in blocks:
        if mark := _ROLE_MARK.search(block.text):
            return f"{mark[0]!r} begins or ends a role"
        if _LETTER.match(block.text):
            return "it may be a sentence of a letter"
        for label in labels(block.text):
            if label.lower() in _SPEAKERS:
                return f"turns of {label!r} have an order"
    return ""


def _is_task(last: Block, stays: bool) -> bool:
    """Return whether the last block is a fixed sentence rather than a label to continue."""
    if not stays and last.is_constant and _instructs(last.text):
        return False
    if labels(last.text) and not last.is_constant:
        return False
    line = last.text.rpartition("\n")[2]
    if line.endswith(":"):
        return len(line.split()) > _LABEL_WORDS
    return line.endswith((".", "?", "!"))


def _backward(text: str) -> str:
    """Return the word of a block that refers to preceding text; "" if none."""
    found = _BACKWARD.search(text)
    return found[0] if found else _pronoun(text)


def _pronoun(text: str) -> str:
    """Return a pronoun without an antecedent in the block; "" if none."""
    if found := _CONNECTING.match(text):
        return found[0]
    for found in _POINTING.finditer(text):
        if not said_inside(text, found.end()) and not re.search(HOLE, text[: found.start()]):
            return found[0]
    if found := _PRONOUN.search(text):
        named = _NAMED_PLURAL if found[0].lower().startswith("the") else _NAMED
        return "" if named.search(text[: found.start()]) else found[0]
    return ""


def _instructs(text: str) -> bool:
    """Return whether the first words mark an instruction or a heading of instructions."""
    begin = re.search(r"\w", text)
    words = text[begin.start() :] if begin else ""
    if HEADS_INSTRUCTIONS.match(words):
        return True
    return words[:1].isupper() and _IMPERATIVE.match(words) is not None


def _words(text: str) -> str:
    """Return a regex alternation of the words."""
    return "|".join(text.split())


_ROLE_MARK = re.compile(r"<\|\w+\|>|\[/?INST\]|<</?SYS>>|</?s>|<(start|end)_of_turn>")
_LETTER = re.compile(r"(dear|hi|hello|hey|subject:|to:|from:)\b", re.IGNORECASE)
_SPEAKERS = {
    "user", "human", "assistant", "ai", "bot", "chatbot", "agent", "customer", "me", "you",
    "system", "model", "speaker", "person", "student", "teacher", "tutor", "patient", "doctor",
    "interviewer",
}  # fmt: skip
_LABEL_WORDS = 4
_NO_PLACE = r"""(?! (?:you\b|an?\b|["'“]|\w+ing\b))"""  # "before answering", 'after a "#"'
_BEFORE = _words(
    """above preceding previous previously earlier aforementioned foregoing former latter listed
    mentioned shown respectively"""
)
_BACKWARD = re.compile(
    rf"""\b({_BEFORE}|the last|so far|came first|comes first|at the (?:top|bottom)"""
    rf"""|in (?:this|that) order|just (?:read|seen|given)|(?:before|after){_NO_PLACE})\b""",
    re.IGNORECASE,
)
_CONJUNCTIONS = _words(
    """then also and but or so however otherwise therefore thus hence additionally furthermore
    moreover finally lastly instead again afterwards now likewise similarly second secondly third
    thirdly that"""
)
_CONNECTING = re.compile(rf"({_CONJUNCTIONS}|if (?:so|not|yes))\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\b(this|these|those|such|(?:of|in|with|from|to|for|about|on|at|by|using) that)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    rf"\b({_words('it its they them their he him his she her here there')})\b", re.IGNORECASE
)
_NAMED = re.compile(
    rf"\b(each|every) \w+|(\b(the|your) \w+|{HOLE}).*([,.;:]|\b(and|or|if|that)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Regex of a possible antecedent of a singular pronoun: a noun in an earlier clause."""
_NAMED_PLURAL = re.compile(rf"{_NAMED.pattern}|\b\w+[^\Wsu]s\b", _NAMED.flags)
_VERBS = _words(
    """answer review write give say use keep return respond reply list name classify decide choose
    pick select summarize summarise translate rewrite explain describe extract find identify label
    rate score judge grade compare convert correct fix generate create produce output complete think
    consider check include leave avoid format mark quote cite limit follow ignore replace remove add
    assign report provide read show state tell speak act imagine note remember copy count sort rank
    evaluate assess determine solve compute calculate paraphrase simplify shorten suggest propose
    mention stay treat refuse ask put separate make"""
)
_RESULTS = _words(
    """answer output response summary reply result translation title code query json line item
    question"""
)
_MODALS = "must|should|may|can|will|ha(?:s|ve) to|(?:is|are) to"
_IMPERATIVE = re.compile(
    rf"(please,? )?({_VERBS}|always|only|never|be|if|when|your|do not|don't|for each|in your"
    rf"|you (?:are an?|are given|{_MODALS})|(?:the|each) ({_RESULTS}) (?:{_MODALS}))\b",
    re.IGNORECASE,
)
