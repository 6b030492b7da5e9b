"""On an NVIDIA GPU: an engine that is loaded has all the kernels that its steps need, and chooses
the same tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.engine.device import precompile
from sgnb.engine.engine import Engine
from sgnb.errors import OptionError

from ..byte_tokenizers import byte_level
from ..random_models import random_model

pytestmark = pytest.mark.gpu

OPTIONS = {"device": "cuda", "dtype": "bfloat16", "attention": "triton", "max_total_tokens": 8192}
PROMPTS = [list(range(3, 3 + length)) for length in (1, 2, 3, 5, 9, 40, 300)]


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Names of the kernels that were compiled, or taken from the disk, since the list was
    cleared."""
    import triton

    names: list[str] = []
    before = triton.knobs.runtime.jit_post_compile_hook
    triton.knobs.runtime.jit_post_compile_hook = lambda *args, fn, **kwargs: names.append(fn.name)
    yield names
    triton.knobs.runtime.jit_post_compile_hook = before


def run(engine: Engine) -> list[list[int]]:
    """Rows from 1 to 70, shared prefixes, chunks of prompts beside decodes, grammars."""
    tokens: list[list[int]] = []
    forks = [[*PROMPTS[-1], token] for token in range(40)]
    for prompts in (PROMPTS[4:5], PROMPTS[:2], PROMPTS[:3], PROMPTS, PROMPTS * 10, forks):
        outputs = engine.generate(prompts, temperature=0, max_new_tokens=12, ignore_eos=True)
        tokens += [output.token_ids for output in outputs]
    texts = engine.generate(["one", "two"], regex="[a-c]{1,9}", temperature=0, max_new_tokens=12)
    return tokens + [output.token_ids for output in texts]


@pytest.mark.parametrize("family", ["llama", "gemma2", "mixtral"])
def test_steps_compile_nothing(family: str, compiled: list[str]) -> None:
    sizes: dict[str, Any] = {"vocab_size": 400, "max_position_embeddings": 1024}
    tokens = []
    for at_load in (True, False):
        model = random_model(family, **sizes)
        with Engine(model, tokenizer=byte_level(), precompile=at_load, **OPTIONS) as engine:
            loading = len(compiled)
            tokens.append(run(engine))
            if at_load:
                assert set(compiled[loading:]) <= {"allow", "advance"}, (
                    "those wait for the first grammar"
                )
    assert tokens[0] == tokens[1]


def test_nothing_goes_on_being_compiled_after_a_load() -> None:
    model, prompts = (
        random_model(num_attention_heads=8, num_key_value_heads=8, hidden_size=256),
        PROMPTS[:-1],
    )
    with pytest.raises(OptionError, match="does not fit"):
        Engine(model, **OPTIONS | {"max_total_tokens": 1 << 40})
    assert not precompile._under_way
    with Engine(model, **OPTIONS) as engine:
        assert not precompile._under_way
        assert len(engine.generate(prompts, max_new_tokens=2, ignore_eos=True)) == len(prompts)
