"""How a request is put: openings and closings around it, and its place before or after the text that it is about."""

from __future__ import annotations

from random import Random

from ..alternatives import expand
from ..items import a, upper_first, weighted

OPENINGS = ("[Hello|Hi|Hey|Hi there|Good morning|Good evening|Hello there][!|.|,]", "[Please help|Help] me.",
            "I have a [question|request|task].", "[Next|Another|One more] [task|question]:", "[OK|Well|So|Now],",
            "[Task|Exercise|Question|Request|Instruction]:", "[Can|Could] you help me?")
CLOSINGS = ("[Thanks|Thank you|Many thanks|Thanks a lot|Thanks in advance|Cheers][.|!]",
            "[It is|I need it|I need this] for [school|work|a friend|my class|a project].",
            "That would [help|be nice|help me a lot].", "[No more than that|Nothing else|Only that], please.")


def said(rng: Random, template: str, **slots: str) -> str:
    """The template with its slots filled; {N} is {n} with a capital letter. Seldom with words before or after."""
    text = expand(rng, template).format(**slots, **{k.upper(): upper_first(v) for k, v in slots.items()})
    opening = expand(rng, rng.choice(OPENINGS)) if rng.random() < 0.12 else ""
    text = f"{opening} {text}" if opening.endswith(",") else f"{opening} {upper_first(text)}".strip()
    if rng.random() < 0.1 and text.endswith((".", "?", "!")):
        text += f" {expand(rng, rng.choice(CLOSINGS))}"
    return text


def about(rng: Random, template: str, text: str, label: str, **slots: str) -> str:
    """A request about a text, in one of many layouts; a template with {x} says itself where the text stands."""
    if "{x}" in template:
        return upper_first(expand(rng, template).format(x=text, **slots))
    core = said(rng, template, **slots)
    noun = label.lower()
    body = core.rstrip(".?")
    here = expand(rng, f"[Here is the {noun}|This is the {noun}|The {noun}|{label}|My {noun}|Read this {noun}"
                       f"|Look at this {noun}|Take this {noun}|Here is {a(noun)}|I have this {noun}]:")
    layouts = [(3, f"{core}\n\n{text}"), (2, f"{core}\n{text}"), (3, f"{text}\n\n{core}"), (2, f"{text}\n{core}"),
               (2, f"{core} {text}"), (2, f"{text} {core}"), (1, f"{label}: {text}\n{core}"),
               (1, f"{label}:\n{text}\n\n{core}"), (1, f"{core}\n{label}: {text}"), (1, f"{core}\n\n{label}:\n{text}"),
               (1.5, f"{here}\n{text}\n\n{core}"), (1, f"{here} {text}\n{core}"), (1, f"{here} {text} {core}"),
               (1, f"{core} {here}\n{text}")]
    if not any(mark in core for mark in (". ", "? ", "! ")):
        layouts += [(4, f"{body}: {text}"), (1.5, f"{body}:\n{text}")]
    if "\n" not in text and len(text) < 120:
        layouts += [(2, f"{body}: \"{text}\""), (1, f"\"{text}\" {core}"), (0.7, f"{core}\n\"{text}\"")]
    return weighted(rng, layouts)
