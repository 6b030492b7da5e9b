"""A program with forks on a model with recurrent layers: what comes after a join goes on from the
state at the fork."""

from __future__ import annotations

from typing import Any

from transformers import AutoTokenizer

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.engine.engine import Engine
from sgnb.events import RequestAdmitted

from ..hybrid_models import hybrid_model

DOCUMENT = "The river is long and its water is cold in every season of the year. " * 6


@sgnb.function
def ask(s: Any) -> None:
    s += DOCUMENT
    forks = s.fork(3)
    for place, fork in zip(("source", "mouth", "middle"), forks, strict=True):
        fork += f"Tell me of the {place}:" + sgnb.gen("answer", max_tokens=4, ignore_eos=True)
    forks.join()
    s += "In short:" + sgnb.gen("short", max_tokens=4, ignore_eos=True)


def test_what_follows_a_join_goes_on_at_the_fork() -> None:
    tokenizer = AutoTokenizer.from_pretrained(sgnb.models.path("tiny"))
    model = hybrid_model("qwen3_next", vocab_size=len(tokenizer), max_position_embeddings=1024)
    with Engine(model, tokenizer=tokenizer) as engine:
        state = ask.run(backend=LocalExecutor(engine), temperature=0)
        assert state["short"]
        events = [record.event for record in engine.log.read().records]
        found = [(e.cached, e.again) for e in events if isinstance(e, RequestAdmitted)]
        document = len(tokenizer(DOCUMENT)["input_ids"])
    assert found[0] == (0, 0) and len(found) == 4
    assert set(found[1:]) in ({(document, 0)}, {(document - 1, 0)})  # its last token may differ
