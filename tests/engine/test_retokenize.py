"""How forced text is joined to what the model wrote: a constraint without an engine, on every cut
of some texts."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from sgnb.engine.request.constraint import Constraint
from sgnb.engine.request.request import Request
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.sampling import SamplingParams
from sgnb.sequences import common_length

from ..byte_tokenizers import TEXT, byte_level, pieces

PROMPT = [5, 6, 7]
LIMIT = 400


@pytest.fixture(scope="module", params=["byte_level", "pieces"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer({"byte_level": byte_level, "pieces": pieces}[request.param]())


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


class Walk:
    """A request under a pattern, given its tokens as if a model had chosen them."""

    def __init__(self, tokenizer: Tokenizer, pattern: str) -> None:
        self.tokenizer = tokenizer
        self.grammar = TokenGrammar(
            compile_spec(GrammarSpec("regex", pattern)), tokenizer.vocabulary
        )
        self.request = Request(1, PROMPT, SamplingParams(max_new_tokens=LIMIT), LIMIT)
        self.constraint = Constraint(self.grammar.matcher(), self.request, tokenizer)
        self.constraint.begin()

    def give(self, token: int) -> None:
        self.constraint.accept_token(token, False, 1, -1.0, -1.0)
        self.request.append(token)
        self.constraint.jump_forward()

    def check(self) -> None:
        """Bytes, states and records are those of the tokens."""
        output, records = self.request.output, self.constraint.records
        matcher = self.grammar.matcher()
        states = [matcher.state]
        for token in output:
            matcher.accept_token(token)
            states.append(matcher.state)
        assert b"".join(self.tokenizer.vocabulary.pieces[token] for token in output) == bytes(
            self.constraint.data
        )
        assert [(r.before, r.after) for r in records] == list(pairwise(states))
        assert [r.text for r in records] == [self.tokenizer.text(token) for token in output]
        assert (
            self.constraint.state == matcher.state
            and self.request.tokens[: len(PROMPT)].tolist() == PROMPT
        )


def any_cut(tokenizer: Tokenizer, data: bytes, rng: random.Random) -> list[int]:
    """Some tokens for `data`, rarely the tokenizer's own."""
    tokens, place = [], 0
    while place < len(data):
        place, token = rng.choice(tokenizer.vocabulary.tree.matches(data, place))
        tokens.append(token)
    return tokens


def joined(
    tokenizer: Tokenizer, tokens: Sequence[int], data: bytes, end: bytes
) -> tuple[list[int], int]:
    """The output when `tokens` for `data` were chosen and `end` is forced, and how many of them
    gave way."""
    walk = Walk(tokenizer, f"(.|\\n){{{len(data.decode())}}}{re.escape(end.decode())}")
    for token in tokens:
        walk.give(token)
        walk.check()
    assert bytes(walk.constraint.data) == data + end and walk.constraint.finished
    [jump] = walk.constraint.jumps
    return walk.request.output, jump.dropped


def places(text: str, rng: random.Random) -> list[tuple[bytes, bytes]]:
    """What is chosen and what is forced after it, a single character now and then."""
    cuts = rng.sample(range(1, len(text) - 1), 12)
    return [
        (text[:cut].encode(), text[cut : cut + rng.choice((1, 4, 25))].encode()) for cut in cuts
    ]


def test_whatever_the_cut_the_text_is_the_same(tokenizer: Tokenizer) -> None:
    rng = random.Random(0)
    for text in TEXT[:3]:
        for data, end in places(text, rng):
            tokens = any_cut(tokenizer, data, rng)
            output, dropped = joined(tokenizer, tokens, data, end)
            kept = len(tokens) - dropped
            assert output[:kept] == tokens[:kept]
            assert dropped <= max(1, min(len(output) - len(tokens), len(end)))


def test_a_model_that_cuts_as_its_tokenizer_goes_on_so(tokenizer: Tokenizer) -> None:
    rng = random.Random(1)
    changed = 0
    for text in TEXT[:3]:
        for data, end in places(text, rng):
            tokens, whole = tokenizer.write(data), tokenizer.write(data + end)
            if (gone := len(tokens) - common_length(tokens, whole)) <= 1:
                output, dropped = joined(tokenizer, tokens, data, end)
                assert output == list(whole) and dropped == gone
                changed += dropped
    assert changed > 1


def test_a_beginning_in_other_tokens_stays() -> None:
    """Letters where the tokenizer has words: only the last one is retokenized, however much is
    forced."""
    tokenizer = Tokenizer(byte_level())
    data, end = b"The quick brow", b"n fox jumps over the lazy dog."
    tokens = [token for byte in data for token in tokenizer.write(bytes([byte]))]
    output, dropped = joined(tokenizer, tokens, data, end)
    assert len(tokenizer.write(data)) < len(tokens) == len(data)
    assert output[: len(tokens) - 1] == tokens[:-1] and dropped <= 1


def test_several_tokens_give_way_to_more() -> None:
    """The last word is cut in single letters, those before as the tokenizer does."""
    tokenizer = Tokenizer(byte_level())
    before, data, end = b"The quick brown fox", b" ju", b"mps over the lazy dog."
    letters = [token for byte in data for token in tokenizer.write(bytes([byte]))]
    tokens = [*tokenizer.write(before), *letters]
    output, dropped = joined(tokenizer, tokens, before + data, end)
    assert dropped == len(letters) > 1
    assert output == list(tokenizer.write(before + data + end))
    output, dropped = joined(tokenizer, tokens, before + data, b"m")
    assert dropped <= 1, "one letter does not pay for them"
