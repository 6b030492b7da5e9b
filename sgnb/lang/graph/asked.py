"""Query a model for the order of a prompt's blocks, as in arXiv 2312.07104."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import shown
from ..core.run import Run
from ..executor import Executor
from ..ir import Gen, role
from ..location import Location

_QUESTION = """\
Here is the template of a prompt, cut into numbered blocks. Names in braces are arguments, whose
texts differ from run to run. Put blocks without arguments before blocks with them wherever the
prompt means the same in the new order. What refers to another block keeps its place beside it.

{blocks}

Answer with the numbers of all blocks in the new order, with spaces between them, and with nothing
else."""
_TOKENS_OF_A_NUMBER = 6


def ask_for_order(executor: Executor, texts: Sequence[str], location: Location) -> str:
    """Return the model's answer: 1-based numbers of the blocks with these `texts`, in the new
    order."""
    blocks = "\n\n".join(f"Block {i}:\n{text}" for i, text in enumerate(texts, 1))
    question = _QUESTION.replace("{blocks}", blocks)
    options = ("max_new_tokens", _TOKENS_OF_A_NUMBER * len(texts)), ("temperature", 0.0)
    with Run(executor, "the order of a prompt's blocks", location=location) as run:
        state = run.state()
        state += role("user", question)
        state += role("assistant", Gen("order", options, location))
    return str(state["order"])


def read_order(answer: str, count: int, has_cue: bool) -> tuple[list[int], str]:
    """Parse an answer into a 0-based order of `count` blocks and an error ("" if the order is
    valid). With `has_cue`, the last block must stay last."""
    order = [int(number) - 1 for number in re.findall(r"\d{1,6}", answer)]
    if sorted(order) != list(range(count)):
        return order, f"the order {shown(answer)} does not have each of {count} blocks once"
    if has_cue and order[-1] != count - 1:
        return order, "the model moved the last block, which leads to what is written"
    return order, ""
