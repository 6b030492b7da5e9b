"""How a question about a list of words is asked: the request and the list, in any order and layout.

A request is a core (templates with alternatives; the list is not in it) and the list; `about_list` joins the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..alternatives import expand
from ..items import listing, upper_first, weighted

MISFITS = "[does not|doesn't] [belong|fit|match|fit in|belong here|fit here|go with the rest|fit with the others" \
          "|belong with the rest|match the others|go with the others|fit the rest|belong to the others]"
IS_ODD = "[the odd one out|the odd one|different|different from the others|different from the rest|not like the rest" \
         "|not like the others|out of place|the exception|the stranger|of another kind|not of the same kind" \
         "|the misfit|the wrong one|unlike the others]"
ODD_CORES = (
    f"which [|one |word |one of these |of these |of them |item |thing ]{MISFITS}?", f"what {MISFITS}?",
    f"which [|one |word |one of these |of these |of them |item |thing ]is {IS_ODD}?", "what is the odd one out?",
    "[find|name|tell me|give me|pick|pick out|spot|identify|choose|show me|point out|say|write|I need|help me find] "
    f"[the odd one out|the odd one|the odd word|the exception|the misfit|the stranger|the one that {MISFITS}"
    f"|the word that {MISFITS}|the one that is {IS_ODD}|which one {MISFITS}|which one is {IS_ODD}|which {MISFITS}]"
    "[|, please].",
    f"[one|exactly one|only one|just one] [of these|of them|word|of these words|thing] {MISFITS}. "
    "[Which one|Which|Which is it|Can you find it|Which one is it|Do you see which]?",
    f"[one|exactly one|only one|just one] [of these|of them|word|of these words|thing] is {IS_ODD}. "
    "[Which one|Which|Which is it|Can you find it|Which one is it|Name it, please. Which one]?",
    "all [but|except] one [are of the same kind|belong together|are alike|have something in common|are the same sort]. "
    "[Which one is not|Which one|Which is it|Which one does not]?",
    "[the|find the|] odd one out[|, please].", "odd one out[|?|, please]",
    "which one[, do you think,|, please,|] is not like the others?",
    f"[can|could|would] you [please |][find|name|tell me|spot|pick] [the odd one out|the one that {MISFITS}]?",
    f"[do you know|do you see|can you see|can you say] [which one|which word|which of these] {MISFITS}?",
)
COUNT_CORES = (
    "how many [of these|of them|of the words|words|things|of these words|of the things|items] are {k}?",
    "how many {k} [are there|are in the list|do you see|can you find|are among these|are named|do you count|are here"
    "|are on my list|are mentioned|can you spot|are in this list|do you find|are given|does the list have]?",
    "[count|count up|please count|now count] [the|all] {k}[| in the list| in this list| here|, please].",
    "[tell me|say|find out|work out|write|please tell me|count] how many {k} [there are|are in the list|you see"
    "|are among these words|are here|you can find|are named].",
    "[tell me|say|find out|count|please tell me] how many [of these|of them|of the words] are {k}.",
    "[give me|tell me|I need|find] the number of {k}[| in the list| here].", "what is the number of {k}[| here]?",
    "[I want|I would like|we want|I need] to know how many {k} [there are|you see|are in the list].",
    "[can|could] you [please |][count|tell me the number of] the {k}[| in this list|, please| here]?",
)
NOT_CORES = (
    "which [one |word |of these |one of these |of them |one of them |][is not|isn't] {k}?",
    "what [is not|isn't] {k}[| here]?",
    "[name|find|give me|tell me|pick|pick out|point out|show me|choose|say|I need] "
    "[the one that|the word that|which one|which of these|what] [is not|isn't] {k}[|, please].",
    "[one|only one|exactly one|just one] [of these|of them|of these words] [is not|isn't] {k}. "
    "[Which one|Which|Which is it|Do you see which|Can you find it]?",
    "[everything here|every word here|each word|each of these] is {k} [but|except for] one. "
    "[Which one|Which one is not|Which is it]?",
    "[can|could] you [please |][name|find|tell me|pick] the one that [is not|isn't] {k}?",
    "[do you know|can you see|can you say] [which one|which of these|which] [is not|isn't] {k}?",
)
LEADS = ("[here|these] are [some|the|my] [words|things|items]", "look at [these words|this list|the following|this]",
         "[I have|take|consider|read|given|we have] [these words|this list|the following words|the following list]",
         "[the|my|a] [list|words]", "[list|words|items|given|options]", "the words are", "my list is")

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
