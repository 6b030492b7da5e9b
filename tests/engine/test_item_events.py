"""Events of an engine with images: names before the first use, and the work of the encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgnb import events, media
from sgnb.engine.engine import Engine
from sgnb.segment import Segment
from sgnb.viz.state.log_state import LogState
from tests.multimodal_models import multimodal_model
from tests.multimodal_models.items import picture


def test_an_engine_tells_names_and_encoding() -> None:
    model, processor = multimodal_model("llava")
    images = [media.Image(np.asarray(picture(seed))) for seed in (1, 2)]
    parts = [Segment("", "media", item=image) for image in images]
    prompts = [
        [Segment("see "), parts[0], Segment(" and "), parts[1]],
        [Segment("see "), parts[0], Segment(" and "), parts[0]],
    ]
    with Engine(model, device="cpu", processor=processor) as engine:
        for prompt in prompts:
            ids = engine.encode([prompt])
            engine.generate(ids, temperature=0, max_new_tokens=2, ignore_eos=True)
        records = engine.log.read().records
    seen: list[Any] = [record.event for record in records]
    names = [event for event in seen if isinstance(event, events.MediaNamed)]
    assert [(n.number, n.label) for n in names] == [(1, "image 90×70"), (2, "image 90×70")]
    assert [n.content for n in names] == [image.digest.hex() for image in images]
    assert [n.thumbnail for n in names] == [media.thumbnail(image) for image in images]
    assert all(n.processor_seconds > 0 for n in names)
    first = next(i for i, event in enumerate(seen) if isinstance(event, events.RequestQueued))
    assert seen.index(names[1]) < first
    item_ids = {id for n in names for id in range(n.first_id, n.first_id + n.count)}
    text_ids = [event.ids for event in seen if isinstance(event, events.TokensNamed)]
    assert not item_ids & {id for ids in text_ids for id in ids}

    encoded = [event for event in seen if isinstance(event, events.ItemsEncoded)]
    assert [id for event in encoded for id in event.items] == [n.first_id for n in names]
    assert sum(event.tokens for event in encoded) == sum(n.count for n in names)
    assert all(event.seconds > 0 for event in encoded)
    tree = LogState(records).tree
    labels = "".join(tree.label(node, 10_000) for node in tree.nodes.values() if node.tokens)
    assert "see [image 1: 90×70] and " in labels and "[image 2: 90×70]" in labels
