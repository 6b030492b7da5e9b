"""Code motion on the templates of `tests/lang/templates.py`: what the constant prefix gains, and
what of the prompts a batch computes. Tokens are those of the bundled model."""

from __future__ import annotations

from typing import Any

import sgnb
from sgnb.errors import TraceError
from sgnb.lang import CompiledProgram
from tests.lang.templates import TEMPLATES, Template

from .common import Report

ROWS = 8
BAR = 15


def run() -> Report:
    report = Report(
        "Constant text moved before arguments, bundled model",
        ("template", "constant prefix", "moved", f"computed of {ROWS} prompts", "moved", "stays"),
    )
    gained = 0
    with sgnb.Engine("tiny") as engine:
        for template in TEMPLATES:
            try:
                motion = template.program().moved(backend=engine)
            except TraceError as refused:
                why = refused.message.partition("stays as it is: ")[2]
                report.rows.append((template.name, "", "", "", "", why.partition(";")[0]))
                continue
            computed = [
                computed_tokens(program, template, engine)
                for program in (template.program(), CompiledProgram(motion.graph))
            ]
            gained += motion.gained > 0 and computed[1] < computed[0]
            prefixes = motion.tokens_before, motion.tokens_after
            report.rows.append((template.name, *prefixes, *computed, ""))
    refused = sum(bool(template.stays) for template in TEMPLATES)
    report.bar = f"at least {BAR} of {len(TEMPLATES)} gain, the others say why they stay"
    report.met = gained >= BAR and gained + refused == len(TEMPLATES)
    return report


def computed_tokens(program: Any, template: Template, engine: Any) -> int:
    """Of the prompts of a batch, those that the cache did not have."""
    engine.flush_cache()
    rows = [
        {name: f"The {name} of row {row}, with words of its own." for name in template.arguments}
        for row in range(ROWS)
    ]
    states = program.run_batch(rows, backend=engine, max_new_tokens=1, temperature=0)
    metas = [state.get_meta_info("answer") for state in states]
    return sum(meta["prompt_tokens"] - meta["cached_tokens"] for meta in metas)
