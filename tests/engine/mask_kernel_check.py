"""Compares the mask kernels with the masks and automata of the CPU. Run as a program: in triton's interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from sgnb.engine.mask_kernel import UNCONSTRAINED, DeviceGrammars
from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.masks import TokenMasks
from sgnb.grammar.regex import parser as regex
from sgnb.grammar.syntax import Rules
from sgnb.grammar.vocabulary import Vocabulary

PATTERNS = [r"[0-9]{1,3}(\.[0-9]+)?", r'\{"a":"[^"]*"\}', "(ab|ac|bé)*", ".*", "é[a-c]?"]


def compile_all(patterns: Sequence[str] = PATTERNS) -> list[Automaton]:
    return [build(Rules(regex.parse(pattern))) for pattern in patterns]


def small_vocabulary(seed: int) -> Vocabulary:
    """Two special tokens, some bytes, some random pieces, duplicates among them."""
    rng = random.Random(seed)
    alphabet = [*'0123456789.{}":abc ', "é", "素"]
    texts = ["".join(rng.choices(alphabet, k=rng.randint(1, 5))).encode() for _ in range(280)]
    cut = [text[: rng.randint(1, len(text))] for text in texts]
    return Vocabulary([b"", *cut, *(c.encode() for c in alphabet), b"\xc3", b"\xa9", b""])


def check(
    vocabulary: Vocabulary, automata: list[Automaton], *, rows: int, dtype: torch.dtype, device: str, seed: int
) -> DeviceGrammars:
    """Random rows, some of them unconstrained: the masks, then the states after a token of each row."""
    rng = random.Random(seed)
    ends = [vocabulary.size - 1, 0]
    grammars = DeviceGrammars(vocabulary, ends, device, capacity=sum(len(a.table) for a in automata))
    offsets = [grammars.add(automaton) for automaton in automata]
    places = [None, *((g, rng.randrange(len(a.table))) for g, a in enumerate(automata) for _ in range(rows))]
    places += [(g, START) for g in range(len(automata))]
    rng.shuffle(places)
    places = places[:rows]
    states = torch.tensor([_device_state(offsets, place) for place in places], dtype=torch.int32, device=device)

    logits = torch.randn(rows, vocabulary.size + 3, device=device).to(dtype)
    before, expected_states = logits.clone(), states.clone()
    grammars.mask_(logits, states)
    allowed = torch.from_numpy(np.stack([_allowed(vocabulary, automata, place, ends) for place in places])).to(device)
    assert torch.equal(logits, before.masked_fill(~allowed, -torch.inf))
    assert torch.equal(states, expected_states)

    choices = [np.flatnonzero(row) for row in allowed.cpu().numpy()]
    tokens = [int(rng.choice(c)) if len(c) and rng.random() < 0.7 else rng.randrange(vocabulary.size) for c in choices]
    grammars.advance_(states, torch.tensor(tokens, device=device))
    pairs = zip(places, tokens, strict=True)
    expected = [_device_state(offsets, _after(vocabulary, automata, place, token, ends)) for place, token in pairs]
    assert states.tolist() == expected
    return grammars


def _device_state(offsets: list[int], place: tuple[int, int] | None) -> int:
    if place is None:
        return UNCONSTRAINED
    grammar, state = place
    return offsets[grammar] + state if state else 0


def _allowed(
    vocabulary: Vocabulary, automata: list[Automaton], place: tuple[int, int] | None, ends: list[int]
) -> np.ndarray:
    row = np.zeros(vocabulary.size + 3, np.bool_)
    if place is None:
        return ~row
    grammar, state = place
    mask = TokenMasks(automata[grammar], vocabulary).mask(state)
    row[: vocabulary.size] = np.unpackbits(mask.view(np.uint8), bitorder="little")[: vocabulary.size]
    row[ends] = automata[grammar].final[state]
    return row


def _after(
    vocabulary: Vocabulary, automata: list[Automaton], place: tuple[int, int] | None, token: int, ends: list[int]
) -> tuple[int, int] | None:
    if place is None or (token in ends and automata[place[0]].final[place[1]]):
        return place
    grammar, state = place
    piece = vocabulary.pieces[token]
    return grammar, automata[grammar].step(state, piece) if piece else 0


def check_full(device: str) -> None:
    """A grammar that does not fit is refused, and leaves the others as they are."""
    first, second = compile_all(PATTERNS[:2])
    grammars = DeviceGrammars(small_vocabulary(0), [0], device, capacity=len(first.table) + 1)
    grammars.add(first)
    before = grammars.table.clone()
    try:
        grammars.add(second)
    except GrammarError as error:
        assert str(len(second.table) - 1) in error.message
    else:
        raise AssertionError("a full table took another grammar")
    assert torch.equal(grammars.table, before)


if __name__ == "__main__":
    compiled = compile_all()
    rounds = [torch.float32, torch.bfloat16, torch.float32]
    for seed, dtype in enumerate(rounds):
        check(small_vocabulary(seed), compiled, rows=12, dtype=dtype, device="cpu", seed=seed)
    check_full("cpu")
    print(len(rounds), "rounds agree")
