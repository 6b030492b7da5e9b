"""Does the output always parse and validate? All of schemas.json, random weights, temperature 1.

The model is a small Llama whose weights are drawn at random, with the bundled tokenizer, so that
nothing but the grammar keeps the text in order. Validated by jsonschema with its format checker. A
text cut short counts as failed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import sgnb
from sgnb import models

from .common import Report

RUNS = 10
MAX_TOKENS = 800
SHAPE: dict[str, int] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "max_position_embeddings": 1024,
    "eos_token_id": 1,
}
SCHEMAS = Path(__file__).with_name("schemas.json")


def fault(schema: Any, text: str) -> str:
    """Why `text` is not what `schema` asks for; "" when it is."""
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind(schema, format_checker=kind.FORMAT_CHECKER).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


def run() -> Report:
    schemas = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **SHAPE)).eval()
    params = [
        {
            "json_schema": entry["schema"],
            "max_new_tokens": MAX_TOKENS,
            "temperature": 1.0,
            "seed": seed,
        }
        for entry in schemas
        for seed in range(RUNS)
    ]
    with sgnb.Engine(model, tokenizer=tokenizer) as engine:
        outputs = engine.generate(["A record as JSON: "] * len(params), params)
    asked = [entry for entry in schemas for _ in range(RUNS)]
    faults = [
        (entry["name"], fault(entry["schema"], out.text))
        for entry, out in zip(asked, outputs, strict=True)
    ]
    wrong = [(name, reason) for name, reason in faults if reason]
    report = Report(
        f"JSON schemas under random weights at temperature 1, at most {MAX_TOKENS} tokens",
        ("schemas", "texts", "tokens", "of them forced", "ended at max_new_tokens", "valid"),
        [
            (
                len(schemas),
                len(outputs),
                f"{sum(len(out.token_ids) for out in outputs):,}",
                f"{sum(out.meta_info.get('jumped_tokens', 0) for out in outputs):,}",
                sum(out.finish_reason == "length" for out in outputs),
                f"{len(outputs) - len(wrong)} of {len(outputs)}",
            )
        ],
        bar="all of at least 2,000 texts over at least 150 schemas are valid",
        met=not wrong and len(outputs) >= 2000 and len(schemas) >= 150,
    )
    report.note = " ".join(f"{name}: {reason}." for name, reason in wrong[:5])
    return report
