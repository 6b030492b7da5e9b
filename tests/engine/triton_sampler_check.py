"""The sampler of a GPU on the CPU, through triton's interpreter; run by `test_triton_sampler.py` in
a process of its own.

A request whose mask the host makes comes and goes beside one whose grammar is walked on the device,
one step ahead.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from sgnb.engine import assembly
from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.engine.sampling import results
from sgnb.engine.sampling.sampler import TritonSampler
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..random_models import random_model

ON_THE_DEVICE = {
    "regex": "([ab][cd][ef][gh]){10}",
    "temperature": 1,
    "seed": 1,
    "max_new_tokens": 50,
}
BY_THE_HOST = {
    "regex": "[a-z]{3,30}",
    "min_new_tokens": 1,
    "temperature": 1,
    "seed": 2,
    "max_new_tokens": 8,
}
FREE = {"temperature": 1, "seed": 3, "top_p": 0.9, "max_new_tokens": 12}


samplers: list[TritonSampler] = []


def triton_sampler(decoder: Any, rows: int, tokenizer: Any, eos: frozenset[int]) -> TritonSampler:
    samplers.append(
        TritonSampler(decoder.vocab_size, rows, decoder.device, eos, lambda: tokenizer.vocabulary)
    )
    return samplers[-1]


def tokens(overlap: bool, company: bool) -> list[int]:
    """Of the request on the device; with `company` others are submitted while it runs, one of them
    aborted at once."""
    ended, seen = threading.Event(), [0]
    result: list[Output] = []
    with Engine(
        random_model(vocab_size=400),
        tokenizer=byte_level(),
        overlap=overlap,
        max_running_requests=8,
    ) as one:
        one.generate("q", BY_THE_HOST)

        def join() -> None:
            params = [SamplingParams.make(BY_THE_HOST), SamplingParams.make(FREE)]
            ids = one.submit(["zz", "y"], params, [lambda output: None] * 2)
            if seen[0] > 15:
                one.abort(ids[0])

        def on_output(output: Output) -> None:
            seen[0] += 1
            if company and seen[0] in (5, 12, 19, 26):
                threading.Thread(target=join).start()
            if output.finish_reason or output.error:
                result.append(output)
                ended.set()

        params = SamplingParams.make(ON_THE_DEVICE, jump_forward=False)
        one.submit(["The "], [params], [on_output], stream=True)
        assert ended.wait(240)
    (output,) = result
    assert output.error is None, output.error
    return output.token_ids


def an_end_that_the_tokenizer_does_not_have() -> None:
    """Its masks are the host's: the tables on the device know the tokenizer's tokens only."""
    model = random_model(vocab_size=400, eos_token_id=399)
    with Engine(model, tokenizer=byte_level(), max_running_requests=8) as small:
        assert small.generate("q", regex="[ab]{3}", temperature=0).finish_reason == "stop"
        assert len(small.generate("q", regex="[ab]{3}", temperature=0).text) == 3


if __name__ == "__main__":
    torch.set_num_threads(1)
    assembly.make_sampler = triton_sampler
    # On a GPU a copy is made on the way to the host.
    results.to_host = lambda *parts: tuple(part.clone() for part in parts)  # type: ignore[assignment]
    alone = tokens(overlap=False, company=False)
    assert len(alone) > 28
    others = [(True, True), (False, True), (True, False)]
    assert all(tokens(overlap, company) == alone for overlap, company in others)
    assert len(samplers) == 1 + len(others)
    assert all(sampler._grammars is not None for sampler in samplers)
    an_end_that_the_tokenizer_does_not_have()
    print("all agree")
