"""Bundled model for images: folder, and answers about a chart through sgnb."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from PIL import Image, ImageDraw
from transformers import AutoProcessor

import sgnb as sgl
import sgnb.models

FOLDER = sgnb.models.path("tiny-vision")
COLORS = {"red": (214, 39, 40), "blue": (31, 119, 180), "green": (44, 160, 44)}
VOTES = {"red": 7, "blue": 2, "green": 9}


def chart(values: dict[str, int], size: int = 96) -> Image.Image:
    image = Image.new("RGB", (96, 96), "white")
    pen = ImageDraw.Draw(image)
    for place, (color, value) in enumerate(values.items()):
        left = 14 + 26 * place
        pen.rectangle((left, 90 - 8 * value, left + 16, 90), fill=COLORS[color])
    pen.line((8, 10, 8, 90, 92, 90), fill="black")
    return image.resize((size, size))


@pytest.fixture(scope="module")
def engine() -> Iterator[sgl.Engine]:
    with sgl.load("tiny-vision") as loaded:
        yield loaded


@sgl.function
def look(s, picture, question, schema=None):
    s += sgl.user(sgl.image(picture) + question)
    s += sgl.assistant(sgl.gen("answer", max_tokens=40, temperature=0, json_schema=schema))


def test_the_folder_is_small_and_complete() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 20e6
    assert "## Measured" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_processor_has_the_chat_template_with_image_parts() -> None:
    processor = AutoProcessor.from_pretrained(FOLDER)
    parts = [{"type": "image"}, {"type": "text", "text": "Count the bars."}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True
    )
    expected = "<|bos|><|user|>\n<|image|>Count the bars.<|end|>\n<|assistant|>\n"
    assert (
        text
        == expected
        == processor.tokenizer.apply_chat_template(
            [{"role": "user", "content": "<|image|>Count the bars."}],
            add_generation_prompt=True,
            tokenize=False,
        )
    )
    inputs = processor(text=[text], images=[chart(VOTES)], return_tensors="pt")
    assert inputs["input_ids"][0].tolist().count(processor.image_token_id) == 64


@pytest.mark.parametrize("size", [96, 288])
def test_questions_about_a_chart(engine: sgl.Engine, size: int) -> None:
    answers = {
        "Which bar is the tallest?": "green",
        "Which bar is the shortest?": "blue",
        "How many bars are there?": "3",
        "What is the value of the red bar?": "7",
        "Is the red bar taller than the blue bar?": "yes",
        "Name the colors from left to right.": "red, blue, green",
    }
    rows = [{"picture": chart(VOTES, size), "question": question} for question in answers]
    states = look.run_batch(rows, backend=engine)
    assert [state["answer"] for state in states] == list(answers.values())


def test_another_chart_has_another_answer(engine: sgl.Engine) -> None:
    question = "Which bar is the tallest?"
    charts = [chart({"red": 7, "blue": value}) for value in (2, 9)]
    states = look.run_batch({"picture": charts, "question": [question] * 2}, backend=engine)
    assert [state["answer"] for state in states] == ["red", "blue"]


def test_a_record_of_a_chart(engine: sgl.Engine) -> None:
    schema = {
        "type": "object",
        "properties": {color: {"type": "integer"} for color in VOTES},
        "required": list(VOTES),
        "additionalProperties": False,
    }
    state = look.run(chart(VOTES), "Write the chart as JSON.", schema=schema, backend=engine)
    assert json.loads(state["answer"]) == VOTES


def test_text_without_an_image_is_still_answered(engine: sgl.Engine) -> None:
    @sgl.function
    def capital(s):
        s += sgl.user("What is the capital of France?") + sgl.assistant(sgl.gen("answer"))

    state = capital.run(backend=engine, temperature=0, max_new_tokens=16)
    assert "Paris" in state["answer"]
