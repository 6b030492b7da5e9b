"""Images, videos and sounds as token ids and rows, with a fake encoder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine.items import EncoderQueue, EngineItem, ItemTable, PlacedItem, PromptItems
from sgnb.engine.items.item import ProcessorOutput
from sgnb.engine.loop.journal import Journal
from sgnb.engine.model.decoder_rows import DecoderRows, MaskedRows, RowSubstitution, read_rows
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.engine.step_input import EmbeddingSpan
from sgnb.errors import MediaError, RequestError
from sgnb.events import EventLog, ItemsEncoded, TokensNamed
from sgnb.sampling import SamplingParams
from sgnb.segment import Segment

VOCAB, HIDDEN = 50, 3


class Content:
    """An item of `size` tokens."""

    def __init__(self, name: str, size: int, blocks: Sequence[tuple[int, int]] = ()) -> None:
        self.kind, self.digest, self.size, self.blocks = "image", name.encode(), size, blocks
        self.label = f"image {name}"


class FakeEncoder:
    """Rows with the size of the item and the index of each token."""

    modalities = frozenset({"image"})
    placeholder = 7
    refused: ClassVar[dict[str, str]] = {}
    row_bytes = HIDDEN * 4

    def __init__(self) -> None:
        self.processed: list[str] = []
        self.encoded: list[list[int]] = []
        self.failing: set[int] = set()  # sizes

    def key(self, content: Any) -> bytes:
        return content.digest  # type: ignore[no-any-return]

    def process(self, content: Any) -> ProcessorOutput:
        self.processed.append(content.label)
        return ProcessorOutput(content.size, {"size": content.size}, content.blocks)

    def encode(self, items: Sequence[EngineItem]) -> None:
        self.encoded.append([item.count for item in items])
        if any(item.count in self.failing for item in items):
            raise MediaError("no such image", "give another")
        for item in items:
            values = [[item.count, i, 0.5] for i in range(item.count)]
            item.rows, item.inputs = DecoderRows(torch.tensor(values)), None
            item.positions = np.stack([np.arange(item.count) // 2, np.zeros(item.count, np.int64)])
            item.advance = item.count // 3 + 1


def test_equal_content_has_equal_ids() -> None:
    encoder = FakeEncoder()
    table = ItemTable(encoder, VOCAB)
    cat, dog, same = Content("cat", 4), Content("dog", 3), Content("cat", 4)
    ids = [table.find(content).ids.tolist() for content in (cat, dog, same, cat)]
    assert ids == [[50, 51, 52, 53], [54, 55, 56], [50, 51, 52, 53], [50, 51, 52, 53]]
    assert encoder.processed == ["image cat", "image dog"], "known content skips the processor"
    assert table.end_id == 57
    names = [table.name(token) for token in (50, 53, 54)]
    assert [(n.first_id, n.count, n.number, n.label) for n in names] == [
        (50, 4, 1, "image cat"), (50, 4, 1, "image cat"), (54, 3, 2, "image dog"),
    ]  # fmt: skip


def test_threads_give_one_id_per_content() -> None:
    table, barrier = ItemTable(FakeEncoder(), VOCAB), threading.Barrier(6)
    contents = [Content(name, size) for size, name in enumerate("abcdefgh", 2)]
    found: list[list[int]] = []

    def ask(order: int) -> None:
        barrier.wait()
        found.append([table.find(c).first_id for c in contents[order:] + contents[:order]])

    threads = [threading.Thread(target=ask, args=(order,)) for order in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(sorted(ids)) for ids in found}) == 1
    spans = sorted((table.find(c).first_id, c.size) for c in contents)
    ends = [first + size for first, size in spans]
    assert [first for first, _ in spans] == [VOCAB, *ends[:-1]], "ids neither overlap nor skip"


def test_items_of_a_prompt() -> None:
    table = ItemTable(FakeEncoder(), VOCAB)
    cat = Content("cat", 4)
    prompt = [Segment("a"), Segment("", "media", item=cat), Segment("b", "data")]
    changed = table.segments(prompt)
    assert changed[0] is prompt[0] and changed[2] is prompt[2]
    assert changed[1] == Segment("", "media", (50, 51, 52, 53))
    assert table.segments(prompt[:1]) == prompt[:1]


def test_new_contents_are_processed_once_on_threads() -> None:
    encoder = FakeEncoder()
    table, contents = ItemTable(encoder, VOCAB), [Content(str(i % 5), 3) for i in range(20)]
    table.prepare(contents)
    assert sorted(encoder.processed) == [f"image {i}" for i in range(5)]
    assert table.end_id == VOCAB + 15
    table.prepare(contents)
    assert len(encoder.processed) == 5


def test_items_in_a_row() -> None:
    table = ItemTable(FakeEncoder(), VOCAB)
    cat, dog = Content("cat", 4), Content("dog", 3)
    table.find(cat)
    ids = table.find(dog).ids.tolist()
    tokens = np.array([1, *range(50, 54), 2, *ids, *ids, 3], np.int32)
    items = table.place(tokens)
    assert items is not None
    assert [(p.begin, p.end, p.content) for p in items.items] == [
        (1, 5, cat), (6, 9, dog), (9, 12, dog),
    ]  # fmt: skip
    assert items.text_tokens(tokens).tolist() == [1, 7, 7, 7, 7, 2, 7, 7, 7, 7, 7, 7, 3]
    assert table.place(np.array([1, 2], np.int32)) is None


@pytest.mark.parametrize("tokens", [[1, 50, 51], [1, 51, 52, 53], [50, 51, 53, 52], [50, 51, 52]])
def test_a_part_of_an_item_is_refused(tokens: list[int]) -> None:
    table = ItemTable(FakeEncoder(), VOCAB)
    cat = Content("cat", 4)
    table.find(cat)
    with pytest.raises(RequestError, match="a part of the 4 tokens"):
        table.place(np.array(tokens, np.int32))


def test_ids_of_forgotten_content_are_refused() -> None:
    table = ItemTable(FakeEncoder(), VOCAB)
    ids = table.find(Content("cat", 4)).ids
    with pytest.raises(RequestError, match="no longer in memory"):
        table.place(ids)
    again, other = Content("cat", 4), Content("cat", 4)
    assert table.find(again).ids.tolist() == table.find(other).ids.tolist() == ids.tolist()
    del again
    assert table.place(ids) is not None, "one of two equal images is still there"
    del other
    with pytest.raises(RequestError, match="no longer in memory"):
        table.place(ids)


def placed_prompt(sizes: list[int], gaps: list[int]) -> tuple[list[PlacedItem], int]:
    """Return encoded items with texts of `gaps` tokens before, between and behind the items."""
    encoder, at, placed = FakeEncoder(), gaps[0], list[PlacedItem]()
    for size, gap in zip(sizes, gaps[1:], strict=True):
        content = Content(str(at), size)
        placed.append(
            PlacedItem(at, EngineItem(content, VOCAB + at, encoder.process(content)), content)
        )
        at += size + gap
    encoder.encode([each.item for each in placed])
    return placed, at


@given(st.data())
def test_positions_and_rows_of_any_span(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    count = len(sizes) + 1
    gaps = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    placed, length = placed_prompt(sizes, gaps)
    items = PromptItems(length, placed, 7)

    # Oracle: token by token.
    positions, rows, following = list[list[int]](), dict[int, list[float]](), 0
    begins = {each.begin: each.item for each in placed}
    at = 0
    while at < length + 6:
        item = begins.get(at)
        if item is None:
            positions.append([following, following])
            following, at = following + 1, at + 1
            continue
        assert item.positions is not None
        for i in range(item.count):
            positions.append((item.positions[:, i] + following).tolist())
            rows[at + i] = [item.count, i, 0.5]
        following += item.advance
        at += item.count

    start = data.draw(st.integers(0, length + 4))
    end = data.draw(st.integers(start + 1, length + 5))
    span = np.broadcast_to(items.rotary_span(start, end), (2, end - start))
    assert span.T.tolist() == positions[start:end]
    found = {
        start + span.begin + i: row
        for span in items.spans(start, end)
        for i, row in enumerate(span.rows.embeddings.tolist())  # type: ignore[attr-defined]
    }
    assert found == {i: row for i, row in rows.items() if start <= i < end}


class Setting:
    """A queue with running and waiting requests of one item each."""

    def __init__(self, max_bytes: int, max_tokens: int = 10**6) -> None:
        self.encoder, self.running = FakeEncoder(), list[PlacedItem]()
        self.table = ItemTable(self.encoder, VOCAB)
        self.queue = EncoderQueue(self.table, max_bytes, max_tokens, lambda: self.running)

    def prompt(self, *contents: Content) -> PromptItems:
        items = self.table.place(np.concatenate([self.table.find(c).ids for c in contents]))
        assert items is not None
        return items


ROW = FakeEncoder.row_bytes


def test_an_item_is_encoded_once_and_kept() -> None:
    setting = Setting(100 * ROW)
    cat, dog = Content("cat", 4), Content("dog", 3)
    first, second = setting.prompt(cat, dog), setting.prompt(dog)
    assert not setting.queue.ready(first, 0) and not setting.queue.ready(second, 0)
    assert setting.queue.run()[1] == [] and not setting.queue
    assert setting.encoder.encoded == [[4, 3]]
    assert setting.queue.ready(first, 0) and setting.queue.ready(second, 0)
    assert setting.queue.ready(setting.prompt(cat), 0)
    assert setting.queue.statistics() == {
        "encoded_items": 2, "encoded_tokens": 7, "encoder_hits": 1, "encoder_bytes": 7 * ROW,
    }  # fmt: skip
    setting.queue.flush()
    assert setting.queue.statistics()["encoder_bytes"] == 0
    assert setting.queue.ready(first, 7), "a cached prompt needs no rows"
    assert not setting.queue.ready(first, 6)
    assert setting.queue.run()[1] == [] and setting.encoder.processed[2:] == ["image dog"]


def test_a_step_encodes_few_tokens() -> None:
    setting = Setting(100 * ROW, max_tokens=6)
    contents = [Content(str(i), size) for i, size in enumerate((4, 2, 9, 1))]
    assert not setting.queue.ready(setting_items := setting.prompt(*contents), 0)
    while setting.queue:
        assert setting.queue.run()[1] == []
    assert setting.encoder.encoded == [[4, 2], [9], [1]]
    assert setting.queue.ready(setting_items, 0)


def test_a_failing_item_fails_alone() -> None:
    setting = Setting(100 * ROW)
    setting.encoder.failing = {3}
    contents = [Content("cat", 4), Content("dog", 3), Content("cow", 5)]
    prompts = [setting.prompt(content) for content in contents]
    for prompt in prompts:
        setting.queue.ready(prompt, 0)
    encoded, [(item, error)] = setting.queue.run()
    assert [item.count for item in encoded] == [4, 5]
    assert item.count == 3 and isinstance(error, MediaError)
    assert [setting.queue.ready(prompt, 0) for prompt in prompts] == [True, False, True]


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["run", "wait", "end"])), max_size=40))
def test_rows_of_running_and_prepared_requests_stay(steps: list[tuple[int, str]]) -> None:
    """The cache keeps to its size except for rows in use, and each request becomes ready."""
    limit = 12 * ROW
    setting = Setting(limit, max_tokens=5)
    contents = [Content(str(i), 1 + i % 4) for i in range(8)]
    waiting: dict[int, PromptItems] = {}
    for number, action in steps:
        if action == "wait":
            waiting.setdefault(number, setting.prompt(contents[number], contents[number - 1]))
        elif action == "end":
            waiting.pop(number, None)
            setting.running = [p for p in setting.running if p.content is not contents[number]]
        elif setting.queue:
            setting.queue.run()
        ready = [key for key, prompt in waiting.items() if setting.queue.ready(prompt, 0)]
        for key in ready:
            setting.running += waiting.pop(key).items
        assert all(placed.item.rows is not None for placed in setting.running)

    setting.running.clear()
    for _ in range(100):
        if setting.queue:
            setting.queue.run()
            assert setting.queue.num_bytes <= limit + 8 * ROW
        waiting = {k: prompt for k, prompt in waiting.items() if not setting.queue.ready(prompt, 0)}
    assert not waiting and not setting.queue


def rows_of(length: int, seed: int) -> DecoderRows:
    rng = torch.Generator().manual_seed(seed)
    mask = torch.rand(length, generator=rng) < 0.6
    layers = tuple(torch.rand(int(mask.sum()), HIDDEN, generator=rng) for _ in range(2))
    return DecoderRows(
        torch.rand(length, HIDDEN, generator=rng),
        {"kinds": torch.randint(1, 9, (length,), generator=rng), "mask": mask},
        {"deep": MaskedRows("mask", layers)},
    )


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_rows_in_the_call_of_a_decoder(first: int, second: int, data: st.DataObject) -> None:
    """Spans of two items in a step of ten rows, against arrays filled token by token."""

    class Decoder(torch.nn.Module):
        def forward(self, **arguments: Any) -> dict[str, Any]:
            return arguments

    decoder = Decoder()
    substitution = RowSubstitution(decoder)
    cut = data.draw(st.integers(0, first - 1))
    spans = [
        EmbeddingSpan(1, rows_of(first, 1).part(cut, first)),
        EmbeddingSpan(2 + first, rows_of(second, 2)),
    ]
    embeddings = torch.rand(1, 14, HIDDEN)
    with substitution.spans(spans):
        got = decoder(inputs_embeds=embeddings, use_cache=False)
        with_own = decoder(inputs_embeds=embeddings, kinds=torch.full((1, 14), 5))
        assert with_own["kinds"][0, 0] == 5, "the model's own values for text stay"
    expected, kinds, mask = embeddings.clone(), torch.zeros(1, 14).long(), torch.zeros(1, 14).bool()
    deep: list[list[Any]] = [[], []]
    for (begin, _), whole, low in zip(
        spans, (rows_of(first, 1), rows_of(second, 2)), (cut, 0), strict=True
    ):
        count = 0
        for i in range(len(whole.embeddings)):
            if i >= low:
                expected[0, begin + i - low] = whole.embeddings[i]
                kinds[0, begin + i - low] = whole.aligned["kinds"][i]
                mask[0, begin + i - low] = whole.aligned["mask"][i]
            if whole.aligned["mask"][i]:
                for layer, tensors in enumerate(whole.picked["deep"].rows):
                    if i >= low:
                        deep[layer].append(tensors[count].tolist())
                count += 1
    assert torch.equal(got["inputs_embeds"], expected) and torch.equal(got["kinds"], kinds)
    assert torch.equal(got["mask"], mask) and [d.tolist() for d in got["deep"]] == deep
    assert set(decoder(inputs_embeds=embeddings)) == {"inputs_embeds"}, "text is left alone"
    substitution.remove()
    with substitution.spans(spans):
        assert decoder(inputs_embeds=embeddings)["inputs_embeds"] is embeddings


def test_reading_rows() -> None:
    rows = rows_of(5, 3)
    arguments = {
        "inputs_embeds": rows.embeddings[None], "kinds": rows.aligned["kinds"][None],
        "mask": rows.aligned["mask"][None], "deep": list(rows.picked["deep"].rows),
        "use_cache": False, "position_ids": torch.arange(5)[None], "odd": None, "flag": True,
    }  # fmt: skip
    read = read_rows(arguments)
    assert torch.equal(read.embeddings, rows.embeddings)
    assert {name: t.tolist() for name, t in read.aligned.items()} == {
        name: t.tolist() for name, t in rows.aligned.items()
    }
    assert [t.tolist() for t in read.picked["deep"].rows] == [
        t.tolist() for t in rows.picked["deep"].rows
    ]
    with pytest.raises(ValueError, match="argument odd has no entry per token"):
        read_rows(arguments | {"odd": torch.zeros(3, 4)})


@given(st.data())
def test_steps_end_outside_blocks(data: st.DataObject) -> None:
    """A step with a block of an item has the whole block, and the parts cover the step."""
    cow = Content("cow", 9, [(1, 4), (5, 8)])
    table = ItemTable(FakeEncoder(), VOCAB)
    gap = data.draw(st.integers(0, 3))
    ids = table.find(cow).ids.tolist()
    tokens = np.array([*[1] * gap, *ids, 2, *ids], np.int32)
    items = table.place(tokens)
    assert items is not None
    blocks = [(gap + b, gap + e) for b, e in ((1, 4), (5, 8), (11, 14), (15, 18))]
    start, limit = 0, data.draw(st.integers(1, 6))
    while start < len(tokens):
        end = items.cut(start, min(start + limit, len(tokens)))
        assert end > start and (end <= start + limit or (start, end) in blocks)
        parts = items.parts(start, end)
        assert [part[0] for part in parts] + [end] == [start] + [part[1] for part in parts]
        inside = [(b, e) for b, e in blocks if b < end and e > start]
        assert [(b, e) for b, e, is_block in parts if is_block] == inside
        start = end


def test_a_sequence_for_each_block() -> None:
    table = ItemTable(FakeEncoder(), VOCAB)
    cow = Content("cow", 5, [(1, 4)])
    tokens = np.array([1, *table.find(cow).ids.tolist(), 2, 3], np.int32)
    seeing, text = (Request(i, tokens, SamplingParams(), 4) for i in range(2))
    seeing.items = table.place(tokens)
    seeing.slots[:8], text.slots[:8] = np.arange(8), np.arange(8, 16)
    step = attention_input(Batch([text, seeing], [7, 1], [1, 7]))
    assert step.starts.tolist() == [7, 1, 2, 5] and step.lengths.tolist() == [1, 1, 3, 3]
    assert list(step.whole) == [False, False, True, False]
    assert step.new_slots.tolist() == [15, 1, 2, 3, 4, 5, 6, 7]
    assert [slots.tolist() for slots in step.kv_indices[1:]] == [
        [0, 1],
        [0, 1, 2, 3, 4],
        [*range(8)],
    ]
    plain = attention_input(Batch([text, seeing], [7, 7], [1, 1]))
    assert plain.starts.tolist() == [7, 7] and not any(plain.whole)


def test_the_log_names_an_item_before_the_first_use() -> None:
    table, log = ItemTable(FakeEncoder(), VOCAB), EventLog()
    journal = Journal(log, None, table)
    cat, dog = table.find(Content("cat", 4)), table.find(Content("dog", 3))
    journal.name(np.concatenate([[7, 3], dog.ids, [3], cat.ids[1:]]))
    journal.name(np.concatenate([cat.ids, dog.ids, [7]]))
    journal.encoded([cat, dog], 0.25)
    dog_name, cat_name, encoded, text = sorted(
        (record.event for record in log.read().records),
        key=lambda event: (isinstance(event, TokensNamed), isinstance(event, ItemsEncoded),
                           -getattr(event, "number", 0)),
    )  # fmt: skip
    assert isinstance(text, TokensNamed) and text.ids == (3, 7)
    assert (cat_name.first_id, cat_name.count, cat_name.number, cat_name.label) == (
        50, 4, 1, "image cat",
    )  # fmt: skip
    assert (dog_name.first_id, dog_name.count, dog_name.number) == (54, 3, 2)
    assert cat_name.content == b"cat".hex() and cat_name.processor_seconds >= 0
    assert encoded == ItemsEncoded((50, 54), 7, 0.25)
    assert table.names([3, 51, 56, 50, 99]) == [cat_name, dog_name]


def test_ids_follow_the_order_and_not_the_processor() -> None:
    class SlowFirst(FakeEncoder):
        def process(self, content: Any) -> ProcessorOutput:
            if content.label == "image cat":
                dog_is_done.wait(10)
            processed = super().process(content)
            dog_is_done.set()
            return processed

    dog_is_done = threading.Event()
    table = ItemTable(SlowFirst(), VOCAB)
    contents = [Content("cat", 4), Content("dog", 3)]
    table.prepare(contents)
    assert [table.find(content).first_id for content in contents] == [50, 54]
