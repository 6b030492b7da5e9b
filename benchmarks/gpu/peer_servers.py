"""vLLM and SGLang as `Server`s, in this process. Each import happens when its server is made:
neither needs be there.

Written for vLLM 0.20 and SGLang 0.5.11. Weights are random ("dummy"), prompts are token ids, the
prefix cache is on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .playing import Asked
from .workloads import Call


class VllmServer:
    """`LLM` that accepts requests during a run, as `generate` does at the beginning."""

    name = "vllm"

    def __init__(self, folder: Path, tokenizer: bool, **options: Any) -> None:
        """tokenizer: the folder has one, which schemas need. options: put over those of `LLM`
        below."""
        import vllm

        self.version = vllm.__version__
        settings: dict[str, Any] = {
            "load_format": "dummy",
            "dtype": "bfloat16",
            "skip_tokenizer_init": not tokenizer,
            "enable_prefix_caching": True,
            "gpu_memory_utilization": 0.9,
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        }
        self._llm = vllm.LLM(model=str(folder), **(settings | options))
        self._used = 0
        self._numbers: dict[str, int] = {}

    def submit(self, batch: Sequence[Asked], together: bool) -> None:
        engine = self._llm.llm_engine
        for asked in batch:
            self._used += 1
            name = str(self._used)
            self._numbers[name] = asked.number
            call = asked.call
            params = _vllm_params(call.new, call.schema, call.score_from)
            engine.add_request(name, {"prompt_token_ids": asked.prompt}, params)

    def finished(self) -> list[tuple[int, list[int]]]:
        while True:
            outputs = self._llm.llm_engine.step()
            outputs = [
                output
                for output in outputs
                if output.finished and output.request_id in self._numbers
            ]
            if outputs:
                return [
                    (self._numbers.pop(out.request_id), list(out.outputs[0].token_ids))
                    for out in outputs
                ]

    def flush(self) -> None:
        for _ in range(100):
            if self._llm.reset_prefix_cache():
                return
            time.sleep(0.05)
        raise RuntimeError("vLLM's prefix cache could not be emptied")

    def reset(self) -> None:
        self._llm.llm_engine.abort_request(list(self._numbers))
        self._numbers.clear()

    def close(self) -> None:
        self._llm.llm_engine.engine_core.shutdown()


@lru_cache
def _vllm_params(new: int, schema: str | None, score_from: int | None) -> Any:
    """Return sampling parameters, shared by calls of a kind, because vLLM copies them."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    options: dict[str, Any] = {
        "temperature": 0.0,
        "max_tokens": max(new, 1),
        "detokenize": False,
        "output_kind": RequestOutputKind.FINAL_ONLY,
    }
    if schema is not None:
        return SamplingParams(structured_outputs=StructuredOutputsParams(json=schema), **options)
    if score_from is not None:
        options["prompt_logprobs"] = 0
    return SamplingParams(ignore_eos=True, **options)


class SglangServer:
    """`Engine` with tasks on a private event loop: a task per batch, or a task per call."""

    name = "sglang"

    def __init__(self, folder: Path, tokenizer: bool, **options: Any) -> None:
        """tokenizer: the folder has one, which schemas need. options: put over those of `Engine`
        below."""
        import sglang

        self.version = sglang.__version__
        settings: dict[str, Any] = {
            "load_format": "dummy",
            "dtype": "bfloat16",
            "skip_tokenizer_init": not tokenizer,
            "attention_backend": "flashinfer",
            "constrained_json_disable_any_whitespace": True,
            "log_level": "error",
        }
        self._engine = sglang.Engine(model_path=str(folder), **(settings | options))
        self._loop = self._engine.loop
        self._tasks: set[asyncio.Task[list[tuple[int, list[int]]]]] = set()

    def submit(self, batch: Sequence[Asked], together: bool) -> None:
        groups = [list(batch)] if together else [[asked] for asked in batch]
        self._tasks |= {self._loop.create_task(self._run(group)) for group in groups}

    def finished(self) -> list[tuple[int, list[int]]]:
        done, self._tasks = self._loop.run_until_complete(
            asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        )
        return [pair for task in done for pair in task.result()]

    def flush(self) -> None:
        for _ in range(100):
            if self._engine.flush_cache().success:
                return
            time.sleep(0.05)
        raise RuntimeError("SGLang's prefix cache could not be emptied")

    def reset(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._engine.tokenizer_manager.abort_request(abort_all=True)

    def close(self) -> None:
        self._engine.shutdown()

    async def _run(self, group: list[Asked]) -> list[tuple[int, list[int]]]:
        scores = [asked.call.score_from for asked in group]
        options: dict[str, Any] = {}
        if any(start is not None for start in scores):
            options["return_logprob"] = [start is not None for start in scores]
            options["logprob_start_len"] = [-1 if start is None else start for start in scores]
        outputs = await self._engine.async_generate(
            input_ids=[asked.prompt for asked in group],
            sampling_params=[self._params(asked.call) for asked in group],
            **options,
        )
        return [
            (asked.number, list(out["output_ids"]))
            for asked, out in zip(group, outputs, strict=True)
        ]

    def _params(self, call: Call) -> dict[str, Any]:
        options: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": call.new}
        return options | (
            {"ignore_eos": True} if call.schema is None else {"json_schema": call.schema}
        )


PEERS = {server.name: server for server in (VllmServer, SglangServer)}
