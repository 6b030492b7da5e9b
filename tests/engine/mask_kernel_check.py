"""Compares the mask kernels with the masks and automata of the CPU. Run as a program: in triton's
interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from sgnb.engine import sizing
from sgnb.engine.sampling import device_grammars
from sgnb.engine.sampling.device_grammars import DeviceGrammars
from sgnb.engine.sampling.mask_kernel import resume
from sgnb.engine.step_input import PREVIOUS, UNCONSTRAINED
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.masks import TokenMasks
from sgnb.grammar.regex import parser as regex
from sgnb.grammar.syntax import Rules
from sgnb.grammar.vocabulary import Vocabulary

PATTERNS = [r"[0-9]{1,3}(\.[0-9]+)?", r'\{"a":"[^"]*"\}', "(ab|ac|bé)*", ".*", "é[a-c]?"]


UNTOUCHED = 7
"""What a mask holds before the kernel writes."""


def compile_all(patterns: Sequence[str] = PATTERNS) -> list[Automaton]:
    return [build(Rules(regex.parse(pattern))) for pattern in patterns]


def small_vocabulary(seed: int) -> Vocabulary:
    """Two special tokens, some bytes, some random pieces, duplicates among them."""
    rng = random.Random(seed)
    alphabet = [*'0123456789.{}":abc ', "é", "素"]
    texts = [
        "".join(rng.choices(alphabet, k=rng.randint(1, rng.choice([5, 16])))).encode()
        for _ in range(280)
    ]
    cut = [text[: rng.randint(1, len(text))] for text in texts]
    return Vocabulary([b"", *cut, *(c.encode() for c in alphabet), b"\xc3", b"\xa9", b""])


def check(
    vocabulary: Vocabulary, automata: list[Automaton], *, rows: int, device: str, seed: int
) -> DeviceGrammars:
    """Random rows, some of them unconstrained: the masks, the states after a token of each row, and
    the masks again, of which those that are kept need no table any more."""
    rng = random.Random(seed)
    ends = [vocabulary.size - 1, 0]
    grammars = DeviceGrammars(
        vocabulary, ends, device, capacity=sum(len(a.table) for a in automata)
    )
    offsets = [acquired(grammars, automaton) for automaton in automata]
    places = [
        None,
        *((g, rng.randrange(len(a.table))) for g, a in enumerate(automata) for _ in range(rows)),
    ]
    places += [(g, START) for g in range(len(automata))]
    rng.shuffle(places)
    places = places[:rows]
    states = torch.tensor(
        [_device_state(offsets, place) for place in places], dtype=torch.int32, device=device
    )

    out = torch.full((rows, vocabulary.size + 8), UNTOUCHED, dtype=torch.uint8, device=device)
    expected_states = states.clone()
    grammars.allowed(states, out[:, : vocabulary.size + 3])
    allowed = np.stack([_allowed(vocabulary, automata, place, ends) for place in places])
    assert np.array_equal(out[:, : vocabulary.size + 3].cpu().numpy(), allowed)
    assert bool((out[:, vocabulary.size + 3 :] == UNTOUCHED).all())
    assert torch.equal(states, expected_states)

    choices = [np.flatnonzero(row == 1) for row in allowed]
    tokens = [
        int(rng.choice(c)) if len(c) and rng.random() < 0.7 else rng.randrange(vocabulary.size)
        for c in choices
    ]
    grammars.advance_(states, torch.tensor(tokens, device=device))
    pairs = zip(places, tokens, strict=True)
    expected = [
        _device_state(offsets, _after(vocabulary, automata, place, token, ends))
        for place, token in pairs
    ]
    assert states.tolist() == expected

    kept = (expected_states >= 0) & (expected_states < len(grammars.masks))
    grammars.table[expected_states[kept].long()] = 0
    again = torch.full_like(out, UNTOUCHED)
    grammars.allowed(expected_states, again[:, : vocabulary.size + 3])
    assert torch.equal(again, out)
    return grammars


def acquired(grammars: DeviceGrammars, automaton: Automaton) -> int:
    offset = grammars.acquire(automaton)
    assert offset is not None
    return offset


def _device_state(offsets: list[int], place: tuple[int, int] | None) -> int:
    if place is None:
        return UNCONSTRAINED
    grammar, state = place
    return offsets[grammar] + state if state else 0


def _allowed(
    vocabulary: Vocabulary,
    automata: list[Automaton],
    place: tuple[int, int] | None,
    ends: list[int],
) -> np.ndarray:
    row = np.zeros(vocabulary.size + 3, np.uint8)
    if place is None:
        return row + UNTOUCHED
    grammar, state = place
    mask = TokenMasks(automata[grammar], vocabulary).mask(state)
    row[: vocabulary.size] = np.unpackbits(mask.view(np.uint8), bitorder="little")[
        : vocabulary.size
    ]
    row[ends] = automata[grammar].final[state]
    return row


def _after(
    vocabulary: Vocabulary,
    automata: list[Automaton],
    place: tuple[int, int] | None,
    token: int,
    ends: list[int],
) -> tuple[int, int] | None:
    if place is None or (token in ends and automata[place[0]].final[place[1]]):
        return place
    grammar, state = place
    piece = vocabulary.pieces[token]
    return grammar, automata[grammar].step(state, piece) if piece else 0


def check_room(device: str) -> None:
    """Grammars are shared, kept without users, dropped when room is needed, the longest unused
    first, and refused."""
    one, two, three, four = compile_all(PATTERNS[:3] + PATTERNS[4:])
    sizes = [len(a.table) - 1 for a in (one, two, three)]
    vocabulary = small_vocabulary(0)
    grammars = DeviceGrammars(vocabulary, [0], device, capacity=1 + sum(sizes))
    table = grammars.table.data_ptr()
    places = [acquired(grammars, automaton) for automaton in (one, two, three)]
    assert places == [0, sizes[0], sizes[0] + sizes[1]] and grammars.used == sum(sizes)
    assert grammars.acquire(two) == places[1]
    before = grammars.table.clone()
    assert grammars.acquire(four) is None
    assert torch.equal(grammars.table, before)

    grammars.release(places[1])
    assert grammars.acquire(four) is None, "the second has one user left"
    grammars.release(places[1])
    assert grammars.used == sizes[0] + sizes[2]
    assert grammars.acquire(two) == places[1] and torch.equal(grammars.table, before), (
        "was still there"
    )
    check_masks(grammars, vocabulary, two, places[1])
    grammars.release(places[1])
    grammars.release(places[2])
    assert len(four.table) - 1 <= sizes[1]
    assert grammars.acquire(four) == places[1], "the longest unused one went"
    check_masks(grammars, vocabulary, four, places[1])
    grammars.release(places[1])
    assert grammars.acquire(three) == places[2], "was still there"
    assert grammars.acquire(two) == places[1] and grammars.table.data_ptr() == table
    assert torch.equal(grammars.table, before), "written as at the first time"
    grammars.release(places[2])
    for offset in (places[2], 12_345):
        try:
            grammars.release(offset)
        except ValueError as error:
            assert str(offset) in str(error)
        else:
            raise AssertionError(offset)


def check_few_kept(device: str) -> None:
    """Where the memory for masks is short, the other states' are found anew each time."""
    automaton, vocabulary = compile_all(PATTERNS[1:2])[0], small_vocabulary(3)
    before, device_grammars.MASK_BYTES = device_grammars.MASK_BYTES, 5 * 4 * 12
    try:
        grammars = DeviceGrammars(vocabulary, [0], device)
    finally:
        device_grammars.MASK_BYTES = before
    assert len(grammars.masks) == 5 < len(automaton.table)
    for _ in range(2):
        check_masks(grammars, vocabulary, automaton, acquired(grammars, automaton))


def check_size() -> None:
    """The memory that is set aside for grammars is enough, with a large vocabulary too."""
    grammars = DeviceGrammars(Vocabulary(b"%d" % number for number in range(150_000)), [0], "cpu")
    parts = [part for part in vars(grammars).values() if isinstance(part, torch.Tensor)]
    taken = sum(part.numel() * part.element_size() for part in parts)
    assert sizing.GRAMMAR_BYTES - (64 << 20) < taken <= sizing.GRAMMAR_BYTES, taken


def check_masks(
    grammars: DeviceGrammars, vocabulary: Vocabulary, automaton: Automaton, offset: int
) -> None:
    """The masks of all its states; afterwards those that find room are kept."""
    numbers = range(1, len(automaton.table))
    states = offset + torch.tensor(numbers, dtype=torch.int32, device=grammars.table.device)
    out = torch.full(
        (len(states), vocabulary.size + 3), UNTOUCHED, dtype=torch.uint8, device=states.device
    )
    grammars.allowed(states, out)
    expected = np.stack([_allowed(vocabulary, [automaton], (0, number), [0]) for number in numbers])
    assert np.array_equal(out.cpu().numpy(), expected)
    grammars.advance_(states, torch.zeros_like(states, dtype=torch.int64))


def check_resume(device: str) -> None:
    """Ids and states that the host knew, and those that the last step left; written beside the
    inputs and over them."""

    def ints(values: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    tokens, last = ints([100, 101, 102], torch.int64), ints([40, 41, UNCONSTRAINED, 43])
    ids, sample_rows = ints([5, -1, -3, 0], torch.int64), ints([0, 3, 0, 2])
    states = ints([7, PREVIOUS, UNCONSTRAINED, PREVIOUS])
    expected_ids, expected_states = [5, 100, 102, 0], [7, 43, UNCONSTRAINED, UNCONSTRAINED]
    for dtype in (torch.int32, torch.int64):
        ids_out, states_out = torch.zeros_like(ids, dtype=dtype), torch.zeros_like(states)
        resume(ids, tokens, states, last, sample_rows, ids_out, states_out)
        assert (ids_out.tolist(), states_out.tolist()) == (expected_ids, expected_states)
    resume(ids, tokens, states, last, sample_rows, ids, last)
    assert (ids.tolist(), last.tolist()) == (expected_ids, expected_states)

    rng = np.random.default_rng(0)
    before, places = rng.integers(-1, 1000, 900), rng.permutation(900)
    last, sample_rows = ints(before.tolist()), ints(places.tolist())
    ids = ints((-1 - places).tolist(), torch.int64)
    resume(ids, last.long(), torch.full_like(last, PREVIOUS), last, sample_rows, ids, last)
    assert ids.tolist() == last.tolist() == before[places].tolist()


if __name__ == "__main__":
    compiled = compile_all()
    for seed in range(3):
        check(small_vocabulary(seed), compiled, rows=12, device="cpu", seed=seed)
    check_room("cpu")
    check_few_kept("cpu")
    check_size()
    check_resume("cpu")
    print("3 rounds agree")
