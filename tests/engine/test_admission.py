"""Which programs may run beside each other, by what they have reserved: against an oracle that
counts with sets; and with the scheduler, that none of their requests is retracted."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.request.admission import ProgramAdmission
from sgnb.engine.request.request import Request
from sgnb.events import RequestAdmitted, RequestRetracted
from sgnb.reservation import Reservation
from sgnb.sampling import SamplingParams

from .test_scheduler import Simulation

CAPACITY = 12


class Oracle:
    """Admission, with the prefixes of the admitted as sets."""

    def __init__(self) -> None:
        self.admitted: list[Request] = []  # one for each program
        self.line: list[list[Request]] = []  # the other programs' requests

    def reserved(self, requests: list[Request]) -> int:
        tokens, own = set(), 0
        for request in requests:
            reservation, namespace = request.cache_scope.reservation, request.cache_scope.namespace
            assert reservation is not None
            own += reservation.own
            for end in range(len(reservation.prefix)):
                alone = id(reservation) if namespace is None else namespace
                tokens.add((alone, reservation.prefix[: end + 1]))
        return len(tokens) + own

    def enter(self, request: Request) -> list[Request]:
        mine = request.cache_scope.reservation
        if any(one.cache_scope.reservation is mine for one in self.admitted):
            return [request]
        for held in self.line:
            if held[0].cache_scope.reservation is mine:
                held.append(request)
                return self.advance()
        self.line.append([request])
        return self.advance()

    def release(self, reservation: Reservation) -> list[Request]:
        self.admitted = [r for r in self.admitted if r.cache_scope.reservation is not reservation]
        self.line = [r for r in self.line if r[0].cache_scope.reservation is not reservation]
        return self.advance()

    def drop(self, request: Request) -> list[Request]:
        waits = any(request in held for held in self.line)
        self.line = [left for held in self.line if (left := [r for r in held if r is not request])]
        return self.advance() if waits else []

    def advance(self) -> list[Request]:
        entered = []
        while self.line:
            first = self.line[0]
            if self.admitted and self.reserved([*self.admitted, first[0]]) > CAPACITY:
                break
            self.admitted.append(first[0])
            entered += self.line.pop(0)
        return entered


PROGRAMS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), max_size=5).map(tuple),
        st.integers(0, 15),
        st.sampled_from(["", "a", None]),
    ),
    min_size=1,
    max_size=8,
)
MOVES = st.lists(
    st.tuples(st.sampled_from(["enter", "enter", "release", "drop"]), st.integers(0, 7)),
    max_size=40,
)


@settings(max_examples=300)
@given(PROGRAMS, MOVES)
def test_admission_admits_what_an_oracle_admits(programs: Any, moves: Any) -> None:
    sharings = [CacheScope(space, reservation=Reservation(p, own)) for p, own, space in programs]
    admission, oracle = ProgramAdmission(lambda: CAPACITY, lambda request: 0), Oracle()
    requests: list[Request] = []
    for move, number in moves:
        sharing = sharings[number % len(sharings)]
        if move == "release":
            assert admission.release(sharing.reservation) == oracle.release(sharing.reservation)
        elif move == "enter":
            requests.append(Request(len(requests), [1], SamplingParams(), 1, sharing))
            assert admission.enter(requests[-1]) == oracle.enter(requests[-1])
        elif requests:
            request = requests[number % len(requests)]
            assert admission.drop(request) == oracle.drop(request)
        assert admission.reserved == oracle.reserved(oracle.admitted)
        assert len(admission) == sum(map(len, oracle.line))
    for sharing in sharings:
        admission.release(sharing.reservation)
    assert admission.reserved == len(admission) == 0


LENGTHS = {"alike": [12] * 20, "one larger than the pool": [*[12] * 5, 60, *[12] * 14]}
"""Of the programs, the new tokens of each of their three calls."""


def run_chains(lengths: list[int], reserves: bool, **options: Any) -> Simulation:
    """Programs of three calls, each of which goes on from the one before."""
    sim, rng = Simulation(150, lambda r: 9, **options), random.Random(0)
    sharings, last = [], []
    for new in lengths:
        prompt = [1, 2, 3, *(rng.randrange(10, 99) for _ in range(8))]
        reservation = Reservation((1, 2, 3), 8 + 1 + 3 * (new + 1))
        sharings.append(CacheScope(reservation=reservation if reserves else None))
        last.append(sim.add(prompt, min(new, 150 - len(prompt)), sharings[-1]))
    calls = [1] * len(lengths)
    while any(calls) or sim.scheduler.has_work:
        assert sim.scheduler.has_work or sim.launched, "programs wait for each other"
        sim.step()
        for i, request in enumerate(last):
            if calls[i] and request.id in sim.ended:
                room = 150 - request.num_tokens - 1
                if calls[i] == 3 or room < 1:
                    calls[i] = 0
                    if reserves:
                        sim.scheduler.release(sharings[i].reservation)  # type: ignore[arg-type]
                    continue
                calls[i] += 1
                prompt = [*request.tokens.tolist(), 7]
                last[i] = sim.add(prompt, min(lengths[i], room), sharings[i])
    return sim


def test_a_program_whose_prefix_is_cached_comes_first_but_not_for_ever() -> None:
    sim = Simulation(100, context_length=1024, max_overtaking=8)  # a step outweighs 128 tokens
    first = sim.add([1] * 20, 2, CacheScope(reservation=Reservation((), 60)))
    other = sim.add([2] * 20, 2, CacheScope(reservation=Reservation((), 60)))
    alike = sim.add([*[1] * 20, 3], 2, CacheScope(reservation=Reservation((), 60)))
    for _ in sim.run():
        pass
    sim.scheduler.release(first.cache_scope.reservation)  # type: ignore[arg-type]
    assert [*sim.scheduler.waiting.values()] == [alike]
    late = sim.add([*[1] * 20, 4], 2, CacheScope(reservation=Reservation((), 60)))
    for _ in sim.run():
        pass
    sim.scheduler.release(alike.cache_scope.reservation)  # type: ignore[arg-type]
    assert [*sim.scheduler.waiting.values()] == [other]
    assert sim.scheduler.num_waiting == 2 and late not in sim.scheduler.waiting.values()


def test_what_programs_do_not_write_is_left_to_others() -> None:
    """As much as the last ones did not use, of what they had room for."""
    admission = ProgramAdmission(lambda: 100, lambda request: 0)
    programs = [Reservation((1, 2), 38, 30) for _ in range(8)]

    def enter(number: int) -> int:
        sharing = CacheScope(reservation=programs[number])
        return len(admission.enter(Request(number, [1], SamplingParams(), 1, sharing)))

    assert [enter(i) for i in range(6)] == [1, 1, 0, 0, 0, 0]
    assert admission.reserved == 2 + 2 * 38
    assert len(admission.release(programs[0], num_tokens=15)) == 3  # half of 30: 23 slots each
    assert admission.reserved == 2 + 4 * 23
    assert len(admission.release(programs[1])) == 1  # it failed
    assert len(admission.release(programs[2], num_tokens=30)) == 0
    assert admission.reserved == 2 + 3 * 38


def retracted(sim: Simulation) -> int:
    return sum(isinstance(event, RequestRetracted) for event in sim.events)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("policy", ["lpm", "fcfs"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_programs_that_reserve_are_not_retracted(lengths: str, policy: str, overlap: bool) -> None:
    options: dict[str, Any] = {"policy": policy, "overlap": overlap, "max_step_tokens": 40}
    before = run_chains(LENGTHS[lengths], reserves=False, **options)
    after = run_chains(LENGTHS[lengths], reserves=True, **options)
    assert retracted(before) > 0
    assert retracted(after) == 0
    assert {tuple(r.tokens) for r in after.requests.values()} == {
        tuple(r.tokens) for r in before.requests.values()
    }
    assert after.scheduler.admission.reserved == len(after.scheduler.admission) == 0
    assert after.scheduler.cache.tree.locked == after.scheduler.cache.in_flight == 0


def test_programs_begin_in_the_order_in_which_they_came() -> None:
    """The one that is larger than the pool too: none overtakes it."""
    sim = run_chains(LENGTHS["one larger than the pool"], reserves=True, policy="fcfs")
    order = [e.request for e in sim.events if isinstance(e, RequestAdmitted)]
    assert [number for number in order if number < 20] == list(range(20))


def test_what_reserves_nothing_gives_way() -> None:
    """A program's requests stay where others must be retracted."""
    sim = Simulation(100, max_step_tokens=100)
    reserved = CacheScope(reservation=Reservation((), 60))
    sim.add([1] * 20, 40, reserved)
    for first in (2, 3, 4):
        sim.add([first] * 8, 60)
    for _ in sim.run():
        pass
    gone = {e.request for e in sim.events if isinstance(e, RequestRetracted)}
    assert gone and 0 not in gone


def test_an_aborted_request_makes_room_for_the_next_in_line() -> None:
    sim = Simulation(100)
    sharings = [CacheScope(reservation=Reservation((), own)) for own in (80, 90, 20)]
    first, large, small = (sim.add([i] * 5, 10, one) for i, one in enumerate(sharings))
    assert sim.scheduler.num_waiting == 3
    assert [*sim.scheduler.waiting.values()] == [first]
    sim.scheduler.finish(large)
    assert [*sim.scheduler.waiting.values()] == [first, small]
    assert sim.scheduler.num_waiting == 2


def test_a_held_program_is_admitted_without_room_if_nothing_runs() -> None:
    """The first in line alone, and the next program as soon as all fit again."""
    admission = ProgramAdmission(lambda: 100, lambda request: 0)
    programs = [Reservation((), own) for own in (80, 60, 30)]
    requests = [
        Request(number, [1], SamplingParams(), 1, CacheScope(reservation=program))
        for number, program in enumerate(programs)
    ]
    assert [admission.enter(request) for request in requests] == [requests[:1], [], []]
    assert admission.admit_first() == [requests[1]]
    assert admission.reserved == 140
    assert admission.release(programs[0]) == [requests[2]]
    assert admission.admit_first() == []
