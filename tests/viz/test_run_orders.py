"""Orders of parts: counted and worded equally in Python and on the page."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from sgnb.events import EventLog, PartsOrdered
from sgnb.viz import Trees
from sgnb.viz.state.run_orders import RunOrders
from sgnb.viz.state.run_state import RunState
from sgnb.viz.static.bundle import picture
from sgnb.viz.static.plain_text import plain_text

from .make_log import Program, WordEngine
from .page import node

ORDERS = [
    PartsOrdered("r1", "0", (0, 1, 2), 0, True),
    PartsOrdered("r1", "0", (1, 0, 2), 1900, False),
    PartsOrdered("r1", "0", tuple(range(13, -1, -1)), 0, True),
    PartsOrdered("r1", "0", (1, 0), 1, False),
]
ORDER_WORDS = [
    "",
    "parts in the order 2, 1, 3: 1,900 more tokens cached",
    "parts of 2 texts in another order: 1,900 more tokens cached",
    "parts of 3 texts in another order: 1,901 more tokens cached",
]


@pytest.mark.parametrize("count", range(len(ORDERS)))
def test_orders_of_parts_are_worded(count: int) -> None:
    orders = RunOrders()
    for event in ORDERS[: count + 1]:
        orders.ordered(event)
    assert orders.line() == ORDER_WORDS[count]
    script = """
      const run = { orders: { count: 0, gained: 0, last: "" } };
      for (const event of given) countOrder(run, event);
      return wordsOfOrders(run);
    """
    events = [asdict(event) for event in ORDERS[: count + 1]]
    assert node(script, ("dom", "orders"), events) == ORDER_WORDS[count]


@pytest.mark.parametrize("number", [1, 2])
def test_the_words_of_an_order(number: int) -> None:
    orders = RunOrders()
    orders.ordered(ORDERS[number])
    words = [ORDER_WORDS[1], "parts in the order 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, …: as in"]
    assert orders.line().startswith(words[number - 1])
    script = """
      const run = { orders: { count: 0, gained: 0, last: "" } };
      countOrder(run, given);
      return wordsOfOrders(run);
    """
    assert node(script, ("dom", "orders"), asdict(ORDERS[number])) == orders.line()


def test_a_run_states_its_own_orders() -> None:
    log = EventLog()
    program = Program(WordEngine(log), "r1", "ships")
    program.branch("0")
    program.add("0", "Which ship came first?")
    log.emit(PartsOrdered("r1", "0", (1, 0), 1900, False))
    log.emit(PartsOrdered("r2", "0", (1, 0), 1900, False))
    state = RunState("r1", Trees())
    for record in log.read().records:
        state.apply(record)
    words = "parts in the order 2, 1: 1,900 more tokens cached"
    assert words in plain_text([state]) and words in picture([state], 60, "name")
