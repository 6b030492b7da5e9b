"""A program finds its own past in the cache, whole: what the model wrote stays the tokens that it
was made of, whatever text the program puts after it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from sgnb.backends.local import LocalExecutor
from sgnb.engine.engine import Engine
from sgnb.lang import Snapshot, function, gen, user
from sgnb.sequences import common_length

from ..byte_tokenizers import TEXT, byte_level, pieces
from ..random_models import random_model
from .test_chunks import LARGE, SMALL

TURNS = 6


@function
def chat(s: Any, seed: int) -> list[tuple[int, int]]:
    """For each turn but the first: tokens found in the cache, and those of the past that can be
    there: all that the new prompt and the last call have in common, but an output's last one."""
    rng, found, past = random.Random(seed), [], []
    for turn in range(TURNS):
        said = " ".join(rng.sample(TEXT[0].split() + TEXT[1].split(), rng.randint(1, 5)))
        s += user(said) if rng.random() < 0.5 else said + rng.choice(["", " ", "\n", ": "])
        stop = [None, ["e", " "], ["\n", "an"]][rng.randrange(3)]
        prompt = s.token_ids()
        s += gen(
            f"a{turn}", max_tokens=rng.randint(1, 12), stop=stop, ignore_eos=rng.random() < 0.5
        )
        meta = s.get_meta_info(f"a{turn}")
        assert meta["prompt_tokens"] == len(prompt)
        if turn:
            found.append((meta["cached_tokens"], common_length(past, prompt)))
        past = [*prompt, *meta["token_ids"][:-1]]
        assert s.token_ids()[: len(prompt)] == prompt
    return found


def check(made: PreTrainedTokenizerFast, programs: int) -> None:
    model = random_model(vocab_size=len(made), max_position_embeddings=2048)
    with Engine(model, tokenizer=made, device="cpu") as engine:
        executor = LocalExecutor(engine)
        states = chat.run_batch(
            [{"seed": i} for i in range(programs)], backend=executor, temperature=1.0
        )
        found = [pair for state in states for pair in state.ret_value]
        executor.close()
    assert len(found) == programs * (TURNS - 1)
    assert all(cached == past for cached, past in found), found
    assert sum(past for _, past in found) > 10 * len(found)


@pytest.mark.parametrize("make", [byte_level, pieces])
def test_six_turns(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    check(make(), 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bundled", "unigram", *LARGE])
def test_100_calls_of_six_turns(name: str) -> None:
    check((SMALL | LARGE)[name](), 20)


def test_without_kept_tokens_the_text_is_tokenized_anew() -> None:
    made = byte_level()
    with Engine(random_model(vocab_size=len(made)), tokenizer=made, device="cpu") as engine:
        executor = LocalExecutor(engine)

        def program(s: Any) -> None:
            s += "The" + gen("a", max_tokens=40, temperature=1.0, seed=1, ignore_eos=True)

        kept = function(program).run(backend=executor)
        anew = function(program, keep_tokens=False).run(backend=executor)
        assert kept.text() == anew.text() and kept.get_meta_info("a")["token_ids"] != []
        assert kept.token_ids()[-40:] == kept.get_meta_info("a")["token_ids"]
        assert anew.token_ids() == engine.encode([anew.text()])[0] != kept.token_ids()
        executor.close()


def test_a_state_that_goes_on_finds_its_past_and_so_does_one_from_a_file() -> None:
    made = byte_level()
    with Engine(random_model(vocab_size=len(made)), tokenizer=made, device="cpu") as engine:
        executor = LocalExecutor(engine)

        @function
        def turn(s: Any, text: str) -> None:
            s += user(text) + gen("a", max_tokens=9, temperature=1, ignore_eos=True)

        first = turn.run("The quick brown fox", backend=executor)
        past = first.token_ids()
        for held in (first, Snapshot.from_json(first.snapshot().to_json())):
            state = turn.run("jumps", backend=executor, continue_from=held)
            assert state.token_ids()[: len(past)] == past
            assert state.get_meta_info("a")["cached_tokens"] >= len(past) - 1
        executor.close()
