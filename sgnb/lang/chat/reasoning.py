"""Separation of reasoning and answer in a model's text. Independent of execution."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import OptionError, nearest


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Markers of a reasoning section at the begin of a text."""

    begin: str
    end: str
    # the section starts without the begin marker, which is part of the chat template
    forced: bool = False

    def split(self, text: str, over: bool = True) -> tuple[str, str]:
        """Split a text into reasoning and answer, without markers and surrounding whitespace.

        With `over=False` the text is incomplete: the result excludes characters that may become
        part of a marker.
        """
        text = text.lstrip()
        if not over and len(text) < len(self.begin) and self.begin.startswith(text):
            return "", ""
        if not text.startswith(self.begin) and not self.forced:
            return "", text.strip() if over else text.rstrip()
        reasoning, ended, answer = text.removeprefix(self.begin).partition(self.end)
        if not ended and not over:
            reasoning = _without_beginning(reasoning, self.end)
        return reasoning.strip(), answer.strip()


_THINK = Reasoning("<think>", "</think>")
_OPENED = Reasoning("<think>", "</think>", forced=True)

MODEL_TYPES = {
    "deepseek-r1": _OPENED,
    "deepseek-v3": _THINK,
    "glm45": _THINK,
    "interns1": _THINK,
    "kimi": Reasoning("◁think▷", "◁/think▷"),
    "kimi_k2": _THINK,
    "minimax": _OPENED,
    "nano_v3": _OPENED,
    "qwen3": _THINK,
    "qwen3-thinking": _OPENED,
    "step3": _OPENED,
}
"""Markers by SGLang's name of the model family."""


def reasoning_of(model_type: str | None) -> Reasoning:
    """Return the markers of a model family; <think> and </think> for None.

    Raises:
        OptionError: The model family is unknown.
    """
    if model_type is None:
        return _THINK
    by_name = {name.lower(): reasoning for name, reasoning in MODEL_TYPES.items()}
    if str(model_type).lower() not in by_name:
        hint = nearest(str(model_type), by_name)
        raise OptionError(f"model_type={model_type!r} is not known", hint)
    return by_name[str(model_type).lower()]


def reasoning_name(name: str) -> str:
    """Return the name of the variable with the reasoning of the variable `name`."""
    return f"{name}_reasoning_content"


def _without_beginning(text: str, mark: str) -> str:
    """Return `text` without a suffix that may be the begin of `mark`."""
    longest = range(min(len(mark) - 1, len(text)), 0, -1)
    cut = next((size for size in longest if text.endswith(mark[:size])), 0)
    return text[: len(text) - cut]
