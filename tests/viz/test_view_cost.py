"""The figures of the views' own cost."""

from __future__ import annotations

import time

from sgnb.events import EventLog
from sgnb.viz import Emitter

from .page import node

SCRIPT = """
  let t = 1000;
  globalThis.performance = { now: () => t };
  const cost = newViewCost(), words = [cost.words()];
  cost.receive({ from: 0 }, [{ t: 1 }]);
  words.push(cost.words());
  cost.receive({ now: 2.5, share: 0.0042 }, []);
  words.push(cost.words());
  for (let i = 0; i < 100; i += 1) {
    cost.receive({ now: 2.5, share: 0.0042 }, [{ t: 2.46 }]); // 40 ms old
    t += i < 94 ? 15 : 60;
    cost.drawn();
  }
  words.push(cost.words());
  return words;
"""


def test_words() -> None:
    silent, unknown, cost, delays = node(SCRIPT, ("dom", "view_cost"), None)
    assert silent == unknown == ""
    assert cost == "views: 0.4 % of the processor time"
    assert delays == f"{cost}, drawn within 100 ms"


def test_the_emitter_measures_its_own_thread() -> None:
    emitter = Emitter(EventLog())
    measure = emitter.measure_cost()
    try:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        emitter.flush()
        assert 0 <= measure()["share"] < 0.5
        assert 0 < measure()["now"] <= emitter.log.now()
    finally:
        emitter.close()
