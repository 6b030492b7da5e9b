"""Typed values of variables in states, batches and data frames, and probabilities of a select."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pandas
import pydantic
import pytest

import sgnb as sgl
from sgnb.errors import AnswerError, OptionError, ProgramError, TraceError, UnknownVariableError
from sgnb.lang import function

from .fake import FakeExecutor


class City(pydantic.BaseModel):
    name: str
    people: int = pydantic.Field(ge=0)


@dataclass
class Point:
    x: int
    y: int


@function
def describe(s: Any, schema: Any, n: int = 1) -> None:
    s += "City: " + sgl.gen("city", json_schema=schema, n=n)


ANSWERS: dict[str, tuple[Any, str, Any]] = {
    "model": (City, '{"name": "Lima", "people": 10}', City(name="Lima", people=10)),
    "dataclass": (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    "dict": (dict[str, int], '{"left": 1}', {"left": 1}),
    "list": (list[Point], '[{"x": 1, "y": 2}]', [Point(1, 2)]),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_generated_text_is_a_value_of_its_type(kind: str, make: type[FakeExecutor]) -> None:
    type_, text, value = ANSWERS[kind]
    state = describe.run(type_, backend=make(answer=text))
    assert state["city"] == text and state.get("city", type_) == value
    assert type(state.get("city", type_)) is type(value), kind


def test_samples_and_joined_values_are_lists(make: type[FakeExecutor]) -> None:
    texts = ['{"x": 1, "y": 2}', '{"x": 3, "y": 4}']
    state = describe.run(Point, 2, backend=make(answer=lambda call: texts))
    assert state.get("city", Point) == [Point(1, 2), Point(3, 4)]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [(int, " 12 \n", 12), (float, ".5", 0.5), (bool, "True", True), (str, "12", "12")],
)
def test_the_literals_of_a_dtype(
    type_: Any, text: str, value: Any, make: type[FakeExecutor]
) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("x", dtype=type_)

    assert program.run(backend=make(answer=text)).get("x", type_) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "Lima", "peo', "Invalid JSON"),
        ('{"name": "Lima"}', "people: Field required"),
        ('{"name": "Lima", "people": -1}', "people: Input should be greater than or equal to 0"),
        ("__import__('os').getpid()", "Invalid JSON"),
        ("", "Invalid JSON"),
    ],
)
def test_an_invalid_text_names_variable_type_and_reason(
    text: str, reason: str, make: type[FakeExecutor]
) -> None:
    state = describe.run(City, backend=make(answer=text))
    with pytest.raises(AnswerError) as raised:
        state.get("city", City)
    message = raised.value.message
    assert "s['city'] is" in message and "not a valid City" in message and reason in message
    assert "max_tokens" in raised.value.hint and isinstance(raised.value, ValueError)


def test_mistakes(make: type[FakeExecutor]) -> None:
    state = describe.run(City, backend=make(answer="{}"))
    with pytest.raises(UnknownVariableError):
        state.get("town", City)
    with pytest.raises(OptionError, match="is not a type of values"):
        state.get("city", object())
    with pytest.raises(ProgramError, match="has no probabilities"):
        state.probabilities("city")
    with pytest.raises(OptionError, match=r"types=.* has no effect"):
        describe.run_batch([(City,)], types={"city": City}, backend=make())


def test_a_batch_and_a_data_frame(make: type[FakeExecutor], tmp_path: Any) -> None:
    @function
    def program(s: Any, q: str) -> None:
        s += q + sgl.gen("point", json_schema=Point)

    def answer(call: Any) -> str:
        return "cut" if call.prompt == "bad" else f'{{"x": {len(call.prompt)}, "y": 0}}'

    executor = make(answer=answer)
    states = program.run_batch([("a",), ("bb",)], backend=executor, save=tmp_path / "rows")
    assert states.get("point", Point) == [Point(1, 0), Point(2, 0)]
    saved = program.run_batch([("a",), ("bb",)], backend=executor, save=tmp_path / "rows")
    assert saved.get("point", Point) == [Point(1, 0), Point(2, 0)]
    rows, types = [{"q": "a"}, {"q": "bad"}], {"point": Point}
    frame = program.run_batch(rows, backend=executor, as_frame=True, types=types)
    assert list(frame["point"]) == [Point(1, 0), None]
    assert pandas.isna(frame["error"][0]) and frame["error"][1].startswith("AnswerError: ")
    with pytest.raises(AnswerError):
        program.run_batch(rows, backend=executor).get("point", Point)


def test_an_async_program_awaits_a_typed_value(make: type[FakeExecutor]) -> None:
    @function
    async def program(s: Any) -> Any:
        s += sgl.gen("point", json_schema=Point) + sgl.select("kind", ["a", "bb"])
        return (await s.get("point", Point)), (await s.probabilities("kind"))

    executor = make(answer='{"x": 1, "y": 2}')
    point, chances = asyncio.run(program.arun(backend=executor)).ret_value
    assert point == Point(1, 2) and math.isclose(sum(chances.values()), 1)


def test_a_typed_read_depends_on_generated_data() -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("point", json_schema=Point)
        s += str(s.get("point", Point).x)

    with pytest.raises(TraceError, match=r"generated data: s.get\(\)"):
        program.trace()


def test_the_probabilities_of_a_select(make: type[FakeExecutor]) -> None:
    logprobs = {"yes": [-0.5, -0.25, 0.0], "no": [-1.0, -1.0]}

    @function
    def program(s: Any) -> None:
        s += "Is it?" + sgl.select("answer", ["yes", "no"])

    state = program.run(backend=make(logprobs=logprobs.__getitem__))
    chances = state.probabilities("answer")
    weights = {choice: math.exp(sum(values)) for choice, values in logprobs.items()}
    assert list(chances) == ["yes", "no"]
    for choice, weight in weights.items():
        assert math.isclose(chances[choice], weight / sum(weights.values()))
    assert state.get_meta_info("answer")["probabilities"] == chances
