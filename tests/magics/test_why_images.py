"""Cache misses of programs with images."""

from __future__ import annotations

from typing import Any

import sgnb
from sgnb.engine.engine import Engine
from sgnb.magics.session import Session
from tests.multimodal_models import multimodal_model
from tests.multimodal_models.items import picture


@sgnb.function
def ask(s: Any, x: Any, question: str) -> None:
    s += "Look at " + sgnb.image(x) + " and say " + question
    s += sgnb.gen("answer", max_tokens=2, temperature=0)


def test_the_image_and_the_cause_are_named() -> None:
    model, processor = multimodal_model("llava")
    session = Session()
    with Engine(model, device="cpu", processor=processor) as engine:
        session.set_default_backend(engine)
        states = []
        for number in (1, 2):
            states.append(ask.run(x=picture(number), question="one", backend=engine))
            states[-1].sync()
        (lookup,) = session.why_no_hit(states[1]).lookups
        between = session.why_no_hit(*states).difference
        same = session.why_no_hit(states[0], states[0]).difference
        session.unload()
    cause = "other pixels of the same size, 90×70"
    expected = f"image 2 instead of image 1 of the most similar prompt: {cause}"
    assert any(reason.text.startswith(expected) for reason in lookup.reasons)
    assert between is not None and same is not None
    assert between.items == ("image 1", "image 2") and between.cause == cause
    assert same.items == () and same.here == ()
