"""Drawings, questions and rows of the model that sees."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from transformers import AutoProcessor, LlamaForCausalLM

from training.items import held_out
from training.tokenizer import MODEL
from training.vision import data, drawings, evaluate, matplotlib_charts, network
from training.vision.drawings import COLORS, SIZE, Bars, Number, Shapes
from training.vision.questions import Question, ask


def oracle(what, text: str) -> str | None:
    """The answer, from the words of the question alone; None if the question is not known."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    asked_colors = [word for word in re.findall(r"[a-z]+", text.lower()) if word in COLORS]
    if isinstance(what, Number):
        if "first" in words:
            return what.digits[0]
        return str(len(what.digits)) if "digits" in words else what.digits
    if isinstance(what, Shapes):
        asked_shapes = [shape for shape in drawings.SHAPES if {shape, f"{shape}s"} & words]
        if "json" in words:
            return json.dumps({f"{shape}s": sum(s == shape for s, _ in what.shapes) for shape in drawings.SHAPES})
        found = [pair for pair in what.shapes
                 if pair[0] in (asked_shapes or drawings.SHAPES) and pair[1] in (asked_colors or COLORS)]
        return ("yes" if found else "no") if text.startswith("Is ") else str(len(found))
    values = dict(what.bars)
    if "json" in words:
        return json.dumps(values)
    if "left" in words:
        return ", ".join(name for name, _ in what.bars)
    if "tallest" in words or "shortest" in words:
        return (max if "tallest" in words else min)(values, key=values.get)
    if "taller" in words:
        first, second = asked_colors
        if text.startswith("Is "):
            return "yes" if values[first] > values[second] else "no"
        return max(first, second, key=values.get)
    return str(values[asked_colors[0]]) if asked_colors else str(len(values))


@pytest.mark.parametrize("make", [drawings.bars, drawings.shapes, drawings.number])
def test_an_answer_is_what_the_words_of_the_question_ask_for(make) -> None:
    rng, kinds = Random(make.__name__), set()
    for _ in range(1500):
        what = make(rng)
        question = ask(what, rng)
        kinds.add(question.kind)
        assert question.answer == oracle(what, question.ask), (what, question)
    assert len(kinds) >= 3


def test_the_extreme_that_is_asked_for_is_unique() -> None:
    rng = Random(0)
    tied = Bars((("red", 4), ("blue", 4)))
    assert {ask(tied, rng).kind for _ in range(200)}.isdisjoint({"tallest", "shortest"})


@pytest.mark.parametrize("side", [False, True])
@pytest.mark.parametrize("chart", [False, True])
def test_content_lies_on_the_wanted_side(side: bool, chart: bool) -> None:
    rng = Random(1)
    for _ in range(100):
        what = data.draw_content(rng, from_held_out=side, chart=chart)
        assert held_out(what.key) == side
        assert isinstance(what, Bars) or not chart


def test_training_draws_nothing_that_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def recorded(what, rng):
        seen.append(what)
        return drawings.draw(what, rng)

    monkeypatch.setattr(data, "draw", recorded)
    made = data.Drawings(MODEL, 0, 4, 32, 0.0, 256)
    first, again = made[2], made[2]
    assert len(seen) == 64 and not any(held_out(what.key) for what in seen)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert not torch.equal(first.pixels, made[3].pixels)


def test_shapes_in_another_order_are_the_same_instance() -> None:
    shapes = (("circle", "red"), ("square", "blue"))
    assert Shapes(shapes).key == Shapes(shapes[::-1]).key
    assert Bars((("red", 1), ("blue", 2))).key != Bars((("blue", 2), ("red", 1))).key


def heights(pixels: np.ndarray, what: Bars) -> list[int]:
    """The rows of pixels in which most of a bar's middle column has its color."""
    far = [np.abs(pixels.astype(int) - np.array(COLORS[name])).sum(-1) for name, _ in what.bars]
    near = [distance == np.min(far, axis=0) for distance in far]
    found = []
    for distance, is_nearest in zip(far, near, strict=True):
        column = (is_nearest & (distance < 60)).sum(0)
        found.append(int(column.max()))
    return found


@pytest.mark.parametrize("style", range(12))
def test_bars_are_as_high_as_their_values(style: int) -> None:
    what = Bars((("red", 2), ("green", 5), ("blue", 9)))
    low, middle, high = heights(drawings.draw(what, Random(style)), what)
    assert low < middle < high
    assert middle / high == pytest.approx(5 / 9, abs=0.12)


@pytest.mark.parametrize("style", range(3))
def test_matplotlib_bars_are_as_high_as_their_values(style: int) -> None:
    pytest.importorskip("matplotlib")
    what = Bars((("red", 2), ("green", 5), ("blue", 9)))
    pixels = matplotlib_charts.render(what, Random(style))
    assert pixels.shape == (SIZE, SIZE, 3) and pixels.dtype == np.uint8
    low, middle, high = heights(pixels, what)
    assert low < middle < high
    assert middle / high == pytest.approx(5 / 9, abs=0.12)


@pytest.mark.parametrize("make", [drawings.bars, drawings.shapes, drawings.number])
def test_a_drawing_depends_on_content_and_seed(make) -> None:
    what = make(Random(5))
    first, again, other = (drawings.draw(what, Random(seed)) for seed in (1, 1, 2))
    assert first.shape == (SIZE, SIZE, 3) and first.dtype == np.uint8
    assert (first == again).all() and (first != other).any()
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 1


def test_a_row_is_the_prompt_that_the_processor_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network.write_processor(MODEL, tmp_path)
    network.build(MODEL).config.save_pretrained(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    question = Question("number", "Read the number.", "407")
    monkeypatch.setattr(data, "ask", lambda what, rng: question)
    made = data.Drawings(MODEL, 0, 1, 1, 0.0, 256)
    ids, labels = made.row(Number("407"), Random(0))
    assert processor.tokenizer.chat_template == network.CHAT_TEMPLATE
    parts = [{"type": "image"}, {"type": "text", "text": question.ask}]
    text = processor.apply_chat_template([{"role": "user", "content": parts}], add_generation_prompt=True)
    pixels = drawings.draw(Number("407"), Random(0))
    inputs = processor(text=[text], images=[pixels], return_tensors="pt")
    prompt = inputs["input_ids"][0].tolist()
    assert ids[:len(prompt)] == prompt
    assert prompt.count(network.build(MODEL).config.image_token_id) == network.TOKENS
    scaled = torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 127.5 - 1
    torch.testing.assert_close(inputs["pixel_values"][0], scaled)
    learned = [i for i in labels if i != data.UNTRAINED]
    turns = made.tokenizer.decode(learned, skip_special_tokens=False).split("<|end|>")
    assert turns[-1] == "" and set(turns[:-1]) == {"407"}
    assert all(label in (data.UNTRAINED, token) for label, token in zip(labels, ids, strict=True))


def test_rows_have_one_length_and_one_place_of_the_image() -> None:
    made, rng = data.Drawings(MODEL, 0, 1, 1, 0.0, 256), Random(3)
    rows = [made.row(drawings.content(rng), rng) for _ in range(100)]
    mark = made.tokenizer.token_to_id(network.IMAGE)
    begin = rows[0][0].index(mark)
    for ids, labels in rows:
        assert len(ids) == len(labels) == data.LENGTH
        assert [place for place, token in enumerate(ids) if token == mark] == list(range(begin, begin + network.TOKENS))
        assert any(label != data.UNTRAINED for label in labels)


def test_before_training_text_is_answered_as_by_the_text_model() -> None:
    text = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    built = network.build(MODEL)
    assert {parameter.dtype for parameter in built.parameters()} == {torch.float32}
    ids = torch.randint(8, 4096, (2, 40), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(built(input_ids=ids).logits[..., :4096], text(input_ids=ids).logits)
    count = sum(parameter.numel() for parameter in built.parameters())
    assert 9_000_000 < count < 10_000_000, "20 MB in bfloat16, tokenizer included"


def test_the_table_counts_exact_answers_by_kind() -> None:
    questions = [Question("value", "?", "7"), Question("value", "?", "8"), Question("count", "?", "3")]
    found = evaluate.scores(questions, ["7", "80", "3"])
    assert found == {"all": (2, 3), "value": (1, 2), "count": (1, 1)}
    lines = evaluate.table({"drawings": found}).splitlines()
    assert lines[2] == "| drawings | 3 | 66.7 % | 97 % |"
    assert lines[3] == "| drawings: value | 2 | 50.0 % |  |"
