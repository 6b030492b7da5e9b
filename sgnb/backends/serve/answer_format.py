"""Responses in OpenAI's and SGLang's formats. Knows no HTTP."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from ...engine.request.output import Output
from ...lang.chat.tools import ToolCall


def finish_reason(output: Output) -> str | None:
    """Return the finish reason in OpenAI's words."""
    return "stop" if output.finish_reason == "abort" else output.finish_reason


def usage(outputs: Sequence[Output], samples: int) -> dict[str, Any]:
    """Return the number of tokens. samples: outputs per prompt, which count the prompt once."""
    prompts = outputs[::samples]
    prompt_tokens = sum(output.prompt_tokens for output in prompts)
    new_tokens = sum(len(output.token_ids) for output in outputs)
    cached = sum(output.cached_tokens for output in prompts)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": new_tokens,
        "total_tokens": prompt_tokens + new_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def envelope(id: str, kind: str, model: str, choices: list[Any]) -> dict[str, Any]:
    """Return a response or a chunk of a stream."""
    created = int(time.time())
    return {"id": id, "object": kind, "created": created, "model": model, "choices": choices}


def completion_choice(index: int, output: Output) -> dict[str, Any]:
    """Return a choice of `/v1/completions`."""
    choice: dict[str, Any] = {
        "index": index,
        "text": output.text,
        "finish_reason": finish_reason(output),
        "logprobs": None,
    }
    if output.params.return_logprob:
        rows, tops = _logprob_rows(output)
        choice["logprobs"] = {
            "tokens": [text for _, _, text in rows],
            "token_logprobs": [value for value, _, _ in rows],
            "top_logprobs": [{text: value for value, _, text in top} for top in tops],
            "text_offset": [],
        }
    return choice


def chat_choice(index: int, output: Output) -> dict[str, Any]:
    """Return a choice of `/v1/chat/completions`."""
    message = {"role": "assistant", "content": output.text}
    choice: dict[str, Any] = {
        "index": index,
        "message": message,
        "finish_reason": finish_reason(output),
        "logprobs": None,
    }
    if output.params.return_logprob:
        rows, tops = _logprob_rows(output)
        tops = tops or [[] for _ in rows]
        content = [
            {**_logprob(*row), "top_logprobs": [_logprob(*each) for each in top]}
            for row, top in zip(rows, tops, strict=False)
        ]
        choice["logprobs"] = {"content": content}
    return choice


def call_parts(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Return the calls of an answer, each with an id."""
    return [
        {
            "id": call.id or f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False),
            },
        }
        for call in calls
    ]


def _logprob_rows(output: Output) -> tuple[list[Any], list[Any]]:
    """Return the log-probabilities and alternatives of the generated tokens. With `max_tokens=0`,
    the engine returns a row without a generated token."""
    count, meta = len(output.token_ids), output.meta_info
    return meta["output_token_logprobs"][:count], meta["output_top_logprobs"][:count]


def _logprob(value: float | None, token: int, text: str | None) -> dict[str, Any]:
    return {"token": text, "logprob": value, "bytes": list((text or "").encode())}


def generated(output: Output) -> dict[str, Any]:
    """Return a response of SGLang's `/generate`."""
    meta = {name: value for name, value in output.meta_info.items() if name != "approximate"}
    return {"text": output.text, "output_ids": output.token_ids, "meta_info": meta}
