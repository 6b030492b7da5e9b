"""Tool use: whole episodes, in which the tools really answer; the choice of a tool."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import sgnb as sgl

from ..forms import ASSISTANT, END, USER
from ..items import JOINT, draw, held_out
from ..tasks import tool_words, tools
from ..tasks.tool_episodes import TOOLS, Episode, Pages, episode, observe
from .base import Case, Suite, ask, chat, exact, few_shot

MOST_STEPS = 6
CALL = re.compile(r"\s*(\w+)\[(.*)\]\s*")


@dataclass(frozen=True, slots=True)
class ToolCase(Case):
    """pages: what the look-up knows."""

    pages: Pages = ()


@sgl.function
def react(s: Any, case: Any, stop: str) -> str:
    """Thought, action and observation in turn, until the model finishes. An action that is no call ends it."""
    s += case.prompt
    for step in range(1, MOST_STEPS + 1):
        s += f"Thought {step}:" + sgl.gen(f"thought{step}", max_tokens=80, stop="\n")
        s += f"\nAction {step}:" + sgl.gen(f"action{step}", max_tokens=48, stop="\n")
        call = CALL.fullmatch(s[f"action{step}"])
        if not call or call[1] == "Finish":
            return call[2] if call else ""
        s += f"\nObservation {step}: {observe(call[1], call[2], case.pages)}\n"
    return ""


@sgl.function
def react_chat(s: Any, case: Any, stop: str) -> str:
    """A turn that is a call is answered with the observation; the first other turn is the answer."""
    s += case.prompt
    for step in range(1, MOST_STEPS + 1):
        s += sgl.gen(f"turn{step}", max_tokens=80)
        call = CALL.fullmatch(s[f"turn{step}"])
        if not call:
            return str(s[f"turn{step}"])
        observation = observe(call[1], call[2], case.pages)
        s += f"{END}\n{USER}\nObservation: {observation}{END}\n{ASSISTANT}\n"
    return ""


@sgl.function
def tool_and_input(s: Any, case: Any, stop: str) -> str:
    """Chooses the tool, then writes what to give it."""
    s += case.prompt
    s += sgl.select("tool", [f" {tool}" for tool in TOOLS[:2]])
    tool = s["tool"].strip()
    s += f". {tools.INPUTS[tool]}" + sgl.gen("input", max_tokens=32, stop=stop)
    return f"{tool}: {s['input'].strip()}"


def answer_said(answer: str, want: str) -> bool:
    """The answer stands in the sentence as a whole word; what is unknown is said to be so."""
    if want == "unknown":
        return answer.startswith(tool_words.SILENT)
    return re.search(rf"(?<!\w){re.escape(want)}(?!\w)", answer) is not None


def _episode(rng: Random, new: bool) -> Episode:
    made = episode(rng, new)
    while not held_out(made.key):
        made = episode(rng, new)
    return made


def episodes(examples: int, *, new: bool = False) -> Callable[[Random], Case]:
    """An instruction, worked examples, a held-out question."""

    def case(rng: Random) -> Case:
        head = rng.choice(tool_words.UNSEEN_HEADS) if new else tool_words.head(rng)
        before = [tools.transcript(tools.known_episode(rng)).replace(JOINT, "") for _ in range(examples)]
        made = _episode(rng, new)
        return ToolCase(f"{tools.prompt(head, before)}Question: {made.question}\n", made.answer, (made.key,), (),
                        made.pages)

    return case


def chat_episodes(*, new: bool = False) -> Callable[[Random], Case]:
    def case(rng: Random) -> Case:
        made = _episode(rng, new)
        return ToolCase(ask(made.question, tool_words.system(rng, new)), made.answer, (made.key,), (), made.pages)

    return case


def line(rng: Random) -> Case:
    """Only questions that a tool answers."""
    while True:
        made = draw(tools.tool_line, rng, from_held_out=True)
        lead, tool, given = made.text.split(JOINT)
        if "The answer is" not in tool:
            return Case(lead, f"{tool.partition('.')[0].strip()}: {given.strip()}", (made.key,))


SUITES = (
    Suite("tool episodes, one worked example", episodes(1), exact, bar=0.90, program=react),
    Suite("tool episodes, no example", episodes(0), exact, bar=0.90, program=react),
    Suite("tool episodes, question and instruction in wordings never seen", episodes(1, new=True), exact, bar=0.85,
          program=react),
    Suite("tool episodes as a chat", chat_episodes(), answer_said, bar=0.90, program=react_chat),
    Suite("tool episodes as a chat, wordings never seen", chat_episodes(new=True), answer_said, program=react_chat),
    Suite("which tool, chat", chat(tools.tool_choice), exact),
    Suite("which tool, chat, wordings never seen", chat(tools.tool_choice_unseen), exact),
    Suite("which tool, 4 examples, by choice", few_shot(tools.tool_choice, 4, by_choice=True), exact),
    Suite("calculator or search engine, and what to give it", line, exact, "\n", program=tool_and_input),
)
