"""The head of a live view states the order of parts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from sgnb.events import EventLog, PartsOrdered
from tests.browser.test_tree_and_time import page as page
from tests.browser.test_tree_and_time import show
from tests.viz.make_log import Program, WordEngine

pytestmark = pytest.mark.slow


def test_the_head_states_the_order(page: Page) -> None:
    log = EventLog()
    program = Program(WordEngine(log), "r1", "ships")
    program.branch("0")
    log.emit(PartsOrdered("r1", "0", (1, 0, 2), 1900, False))
    program.add("0", "Which ship came first?")
    list(program.gen("0", "answer", " The Maria."))
    show(page, log)
    head = page.get_by_text("parts in the order 2, 1, 3: 1,900 more tokens cached")
    expect(head.first).to_be_visible()
