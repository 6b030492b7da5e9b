"""How items are shown: as a chat, as few-shot lines, as bare text. Knows the chat marks; knows no facts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .items import JOINT, Item

BOS, END, SYSTEM, USER, ASSISTANT = "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
THINK, THINK_END, PAD = "<think>", "</think>", "<|pad|>"
SPECIAL = (BOS, END, SYSTEM, USER, ASSISTANT, THINK, THINK_END, PAD)

CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for message in messages %}"
    "{% if message['role'] not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('unknown role: ' + message['role']) }}{% endif %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)

QUESTION_LABELS = (("Q", "A"), ("Q", "A"), ("Q", "A"), ("Question", "Answer"), ("Question", "Answer"),
                   ("USER", "ASSISTANT"), ("User", "Assistant"), ("Input", "Output"))
LEADS = ("", "", "", "", "Answer the questions.\n\n", "The following are questions and answers.\n\n",
         "Answer each question.\n", "You are a helpful assistant.\n\n")


def chat(turns: Sequence[tuple[str, str]], system: str = "") -> str:
    """`turns` are (user, assistant) pairs."""
    head = f"{SYSTEM}\n{system}{END}\n" if system else ""
    return BOS + head + "".join(f"{USER}\n{ask}{END}\n{ASSISTANT}\n{JOINT}{answer}{END}\n" for ask, answer in turns)


def shots(rng: Random, items: Sequence[Item], *, short: bool) -> str:
    """Few-shot lines, each item under the same two labels; every answer may be where a program begins."""
    labels = rng.choice(QUESTION_LABELS) if items[0].labels == ("Q", "A") else items[0].labels
    gap = rng.choice(("\n", "\n", "\n\n"))
    lead = rng.choice(LEADS) if items[0].labels == ("Q", "A") else task_lead(rng, items[0])
    return lead + gap.join(shot(item, labels, short=short) for item in items)


def shot(item: Item, labels: tuple[str, str], *, short: bool) -> str:
    return f"{labels[0]}: {item.given or item.ask}\n{labels[1]}:{JOINT} {item.short if short else item.full}"


def task_lead(rng: Random, item: Item) -> str:
    """A line that says what the labels mean."""
    given, wanted = (label.lower() for label in item.labels)
    if not item.choices or rng.random() < 0.5:
        return ""
    names = ", ".join(item.choices[:-1]) + " or " + item.choices[-1]
    return rng.choice((f"Classify the {given} as {names}.\n\n", f"What is the {wanted} of each {given}? Use {names}.\n",
                       f"The {wanted} of a {given} is {names}.\n\n"))
