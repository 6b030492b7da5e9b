"""Tool use as text: the Thought / Action / Observation form, calls in a chat, the choice of a tool."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .. import forms
from ..items import JOINT, Item, Passage, held_out, tidy, weighted
from . import tool_words
from .tool_episodes import TOOLS, Episode, at_once, calculation, chain, episode, fact, observe, problem

INPUTS = {"calculator": "The math expression is", "search engine": "The key word to search is"}


def known_episode(rng: Random) -> Episode:
    """One from training's side, to be an example."""
    made = episode(rng)
    while held_out(made.key):
        made = episode(rng)
    return made


def transcript(made: Episode) -> str:
    """The whole episode; the model goes on after each `Thought i:` and `Action i:`."""
    lines = [f"Question: {made.question}"]
    for i, step in enumerate(made.steps, 1):
        lines += [f"Thought {i}:{JOINT} {step.thought}", f"Action {i}:{JOINT} {step.call}"]
        if step.tool != "Finish":
            lines.append(f"Observation {i}: {observe(step.tool, step.argument, made.pages)}")
    return "\n".join(lines) + "\n"


def prompt(head: str, examples: Sequence[str]) -> str:
    """What stands before the question."""
    return "".join(f"{part}\n" for part in (head, *examples) if part)


def react(rng: Random) -> Passage:
    """Instruction, worked examples or none, an episode."""
    examples = [transcript(known_episode(rng)) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    made = episode(rng)
    head = tool_words.head(rng) if rng.random() < 0.85 else ""
    return Passage(made.key, prompt(head, examples) + transcript(made))


def chat_turns(made: Episode) -> list[tuple[str, str]]:
    """The call is the assistant's turn, what the tool says is the user's; at last the answer as a sentence."""
    asks, answers = [made.question], []
    for step in made.steps[:-1]:
        answers.append(step.call)
        asks.append(f"Observation: {observe(step.tool, step.argument, made.pages)}")
    return list(zip(asks, [*answers, made.full], strict=True))


def react_chat(rng: Random) -> Passage:
    made = episode(rng)
    return Passage(made.key, forms.chat(chat_turns(made), tool_words.system(rng, new=False)))


def tool_choice(rng: Random, new: bool = False) -> Item:
    """Which tool a question needs."""
    made = weighted(rng, ((3, fact), (1, chain), (2, calculation), (2, problem), (2.5, at_once)))(rng, new)
    ask = tool_words.CHOICE.say(rng, new, q=made.question)
    return Item(made.key, ask, made.tool, made.tool, made.question, ("Question", "Tool"), TOOLS)


def tool_choice_unseen(rng: Random) -> Item:
    return tool_choice(rng, new=True)


def tool_line(rng: Random) -> Passage:
    """The tool and what to give it, in one line, as in the well-known example program; there is no third way here."""
    made = weighted(rng, ((2, fact), (1, chain), (2, calculation), (1, problem), (2, at_once)))(rng, False)
    is_sum = made.tool == "calculator" or made.key.startswith("sum/")
    lead = rng.choice(("To answer this question: {q} I need to use a", "To answer this question: {q}. I need to use a",
                       "Question: {q}\nThe right tool for this question is a", "To answer \"{q}\" I need a"))
    lead = tidy(lead.format(q=made.question))
    then, argument = INPUTS.get(made.tool, "The answer is"), made.steps[0].argument
    return Passage(made.key, f"{lead}{JOINT} {TOOLS[not is_sum]}. {then}{JOINT} {argument}\n")
