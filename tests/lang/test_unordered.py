"""`unordered`: parts in the order with the longest cached prefix, in every way to run a program."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.backends import executor_of
from sgnb.backends.order_search import parts_prompt
from sgnb.engine.engine import Engine
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.errors import Aborted, OptionError, ProgramError, RecordError, RequestError, TraceError
from sgnb.events import PartsOrdered, decode, encode
from sgnb.lang import CompiledProgram, Graph, Snapshot, function, gen, unordered, user
from sgnb.lang.core.stepping import describe
from sgnb.lang.executor import OrderCall
from sgnb.lang.ir import PartSet, UnreadMedia
from sgnb.part_order import PartOrder
from sgnb.segment import Segment

from ..byte_tokenizers import byte_level, pieces
from ..engine.test_stored_payloads import image as picture_of
from ..engine.test_stored_payloads import multimodal
from .fake import FakeExecutor
from .test_media import BLUE, RED
from .test_media import sees as sees

WORDS = ["river", "stone", "green", "walk", "seven", "paper", "cloud", "under", "bring", "mild"]


def document(number: int, words: int = 30) -> str:
    return f"Note {number}: " + " ".join(random.Random(number).choices(WORDS, k=words)) + "."


DOCUMENTS = [document(number) for number in range(5)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny", context_length=4096, max_total_tokens=20000) as engine:
        yield engine


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames:
        executor_of(request.getfixturevalue("engine")).flush_cache()


@function
def answers(s: Any, documents: Sequence[str], question: str = "Why?") -> None:
    s += user(unordered(*documents, name="order") + "\n\n" + question)
    s += sgl.assistant(gen("answer", max_tokens=4))


@function
def two_notes(s: Any, first: str, second: str) -> None:
    s += "Notes:\n" + unordered(first, f"({second})", separator=" | ") + gen("answer", max_tokens=4)


def run(engine: Engine, documents: Sequence[str], question: str = "Why?") -> Any:
    state = answers.run(documents, question, backend=engine, temperature=0)
    state.sync()
    return state


def cached(state: Any) -> int:
    return int(state.get_meta_info("answer")["cached_tokens"])


def test_a_later_prompt_follows_the_order_in_the_cache(engine: Engine) -> None:
    first = run(engine, DOCUMENTS)
    assert first["order"] == [0, 1, 2, 3, 4]
    shuffled = [DOCUMENTS[i] for i in (3, 0, 4, 2, 1)]
    executor_of(engine)._part_orders.forget()  # the tree alone decides
    second = run(engine, shuffled)
    assert second["order"] == [1, 4, 3, 0, 2]
    assert second.text() == first.text() and second["answer"] == first["answer"]
    assert cached(second) > 0.9 * second.get_meta_info("answer")["prompt_tokens"]
    events = [r.event for r in engine.log.read(0).records if isinstance(r.event, PartsOrdered)]
    assert events[-1].order == (1, 4, 3, 0, 2) and events[-1].gained > 100
    # A subset of the documents: those at the beginning of the earlier prompt come first.
    third = run(engine, [DOCUMENTS[4], document(9), DOCUMENTS[1], DOCUMENTS[0]], "What?")
    assert third["order"] == [3, 2, 0, 1]
    words = "parts in the order 4, 3, 1, 2:"
    assert words in PartOrder(tuple(third["order"]), 1).line()


@settings(max_examples=40)
@given(st.data())
def test_the_text_is_a_permutation_with_the_tokens_of_plain_text(
    engine: Engine, data: st.DataObject
) -> None:
    """And at least as many of its tokens are in the cache as in the given order."""
    executor_of(engine).flush_cache()
    texts = ["a", " b", "c\n", "\n\nd", "No. 7", "é", "", "the end.", " ", *DOCUMENTS[:3]]
    parts = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4))
    separator = data.draw(st.sampled_from(["\n\n", " ", "", ", ", "\n---\n", "x"]))
    head, tail = data.draw(st.sampled_from([("", "?"), ("Read:\n", "\n?"), ("Read: ", " ?")]))
    for _ in range(data.draw(st.integers(0, 3))):
        earlier = data.draw(st.permutations(parts))
        engine.generate(head + separator.join(earlier) + tail, max_new_tokens=1)

    @function
    def program(s: Any) -> None:
        s += head + unordered(*parts, separator=separator, name="order") + tail
        s += gen("answer", max_tokens=1)

    default = engine.cached_length(head + separator.join(parts) + tail)
    orders = {head + separator.join(order) + tail for order in permutations(parts)}
    lengths = {text: engine.cached_length(text) for text in orders}
    state = program.run(backend=engine, temperature=0)
    text = state.text()[: -len(state["answer"]) or None]
    assert text == head + separator.join(parts[i] for i in state["order"]) + tail
    count = state.get_meta_info("answer")["prompt_tokens"]
    assert state.token_ids()[:count] == engine.encode([text])[0]
    assert lengths[text] >= default - 2  # tokens that merge at the last seam


def test_rows_of_a_batch_share_the_order_of_the_first(engine: Engine) -> None:
    generator = random.Random(0)
    rows = [
        {"documents": generator.sample(DOCUMENTS, 5), "question": f"Number {i}?"} for i in range(6)
    ]
    states = answers.run_batch(rows, backend=engine, temperature=0)
    texts = {state.text().partition("Number")[0] for state in states}
    assert len(texts) == 1
    for row, state in zip(rows, states, strict=True):
        assert [row["documents"][i] for i in state["order"]] == rows[0]["documents"]
    prompts = [state.get_meta_info("answer")["prompt_tokens"] for state in states]
    assert sum(prompts) - sum(map(cached, states)) < 2 * prompts[0]


def test_forks_begin_with_the_parts(engine: Engine) -> None:
    @function
    def program(s: Any) -> None:
        s += unordered(*DOCUMENTS, name="order")
        fork = s.fork(2)
        fork += ["\nOne:", "\nTwo:"]
        fork += gen("answer", max_tokens=2)
        fork.join()
        s += unordered("x", "y", name="later")

    state = program.run(backend=engine, temperature=0)
    assert len(state["answer"]) == 2
    assert state["order"] == [0, 1, 2, 3, 4] and state["later"] == [0, 1]


def test_snapshots_and_variables(engine: Engine) -> None:
    run(engine, DOCUMENTS)
    state = run(engine, DOCUMENTS[::-1])
    snapshot = Snapshot.from_json(state.snapshot().to_json())

    @function
    def goes_on(s: Any) -> None:
        s += user("More?") + sgl.assistant(gen("more", max_tokens=2))

    later = goes_on.run(backend=engine, continue_from=snapshot, temperature=0)
    assert later.text().startswith(state.text()) and later["order"] == [4, 3, 2, 1, 0]


def test_an_edit_keeps_the_order_of_the_earlier_run(engine: Engine) -> None:
    run(engine, DOCUMENTS)
    state = run(engine, DOCUMENTS[::-1])
    engine.flush_cache()
    executor_of(engine).flush_cache()
    edited = state.at("answer", 1).fork(" red")
    assert edited["order"] == state["order"] == [4, 3, 2, 1, 0]
    assert " red" in edited["answer"]


def test_compiled_programs(engine: Engine) -> None:
    graph = two_notes.trace()
    assert "unordered({first}, '({second})', separator=' | ')" in str(graph)
    loaded = Graph.from_json(graph.to_json())
    assert loaded == graph and loaded.arguments_in_texts == ("first", "second")
    compiled = CompiledProgram(loaded)
    for first, second in (("a b c", "d e f"), (DOCUMENTS[1], DOCUMENTS[0])):
        expected = two_notes.run(first, second, backend=engine, temperature=0)
        state = compiled.run(first, second, backend=engine, temperature=0)
        assert state.text() == expected.text()
        assert state.token_ids() == expected.token_ids()
    checked = two_notes.compile()
    assert checked.run("x", "y", backend=engine, temperature=0).text().startswith("Notes:\nx | (y)")
    graph.to_svg(), graph.to_dot()


def test_a_trace_does_not_know_the_order() -> None:
    @function
    def cites(s: Any, first: str) -> None:
        s += unordered(first, "two", name="order") + gen("answer")
        s += str(s["order"])

    with pytest.raises(TraceError, match="the order of parts that the run decides"):
        cites.trace()


def test_called_programs_are_inlined(engine: Engine) -> None:
    @function
    def outer(s: Any, text: str) -> None:
        s += two_notes.run(text, "inner", backend=engine, temperature=0)["answer"]

    state = outer.compile().run("hello", backend=engine)
    assert state.text() == two_notes.run("hello", "inner", backend=engine, temperature=0)["answer"]


def test_explain_and_dry_runs_state_the_order(engine: Engine) -> None:
    run(engine, DOCUMENTS)
    nodes = len(engine.tree())
    shuffled = DOCUMENTS[::-1]
    explained = str(answers.explain(shuffled, backend=engine))
    assert "parts in the order 5, 4, 3, 2, 1: " in explained and "more tokens cached" in explained
    from sgnb.magics.dry_report import dry_run

    report = dry_run(answers, engine, (shuffled,), {})
    assert "parts in the order 5, 4, 3, 2, 1: " in repr(report)
    assert report.calls[0].cached_tokens > 0.9 * report.calls[0].prompt_tokens
    assert "parts in the order" in report._html()
    assert len(engine.tree()) == nodes
    # The dry run leaves no trace: the next run with new documents keeps the given order.
    new = [document(number) for number in range(20, 23)]
    dry_run(answers, engine, (new[::-1],), {})
    assert run(engine, new)["order"] == [0, 1, 2]


def test_a_service_gets_the_order_of_the_earlier_prompt(make: Any) -> None:
    service = make()
    first = answers.run(["a", "b", "c"], backend=service)
    assert first["order"] == [0, 1, 2]
    second = answers.run(["c", "a", "b"], backend=service)
    assert second["order"] == [1, 2, 0] and second["answer"] == first["answer"]
    other = make()
    assert answers.run(["c", "a", "b"], backend=other)["order"] == [0, 1, 2]
    assert answers.run(["c", "a", "b"], backend=[service, other])["order"] in ([1, 2, 0], [0, 1, 2])


def test_images_move_with_their_parts(sees: FakeExecutor) -> None:
    @function
    def looks(s: Any, one: Any, two: Any) -> None:
        s += user(unordered("One: " + sgl.image(one), "Two: " + sgl.image(two), name="order"))
        s += sgl.assistant(gen("answer"))

    first = looks.run(RED, BLUE, backend=sees)
    second = looks.run(BLUE, RED, backend=sees)
    assert first["order"] == second["order"] == [0, 1]  # other labels: other parts
    compiled = looks.compile()
    assert "[image]" in str(compiled.graph)
    assert compiled.run(RED, BLUE, backend=sees).text() == first.text()
    assert Graph.from_json(compiled.graph.to_json()) == compiled.graph


def test_a_saved_graph_with_parts_names_no_file() -> None:
    @function
    def looks(s: Any, picture: str) -> None:
        s += unordered(sgl.image(picture), "text") + gen("answer")

    graph = looks.compile().graph
    assert Graph.from_json(graph.to_json()) == graph
    [node] = [node for node in graph.nodes if isinstance(node.op, PartSet)]
    part = UnreadMedia("image", "/etc/passwd", ())
    harmful = replace(node, op=replace(node.op, parts=((part,),)), placeholders=())
    nodes = tuple(harmful if each is node else each for each in graph.nodes)
    with pytest.raises(ProgramError, match="reads a file that no argument names"):
        replace(graph, nodes=nodes).to_json()


@pytest.mark.parametrize("count", [0, 1])
def test_few_parts_ask_nobody(make: Any, count: int) -> None:
    service = make()
    service.order = None
    state = answers.run(["only"] * count, backend=service)
    assert state["order"] == list(range(count))


def test_errors() -> None:
    with pytest.raises(OptionError, match="give each part as an argument"):
        unordered(["a", "b"])
    with pytest.raises(OptionError, match="separator=5 is not a text"):
        unordered("a", separator=5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="name='' is not a name"):
        unordered("a", name="")
    with pytest.raises(ProgramError, match="a part with a gen"):
        unordered("a", "b" + gen("x"))
    with pytest.raises(ProgramError, match="a part with a rolebegin"):
        unordered(user("a"))
    with pytest.raises(ValueError, match="cannot be appended"):
        unordered("a", 5)
    with pytest.raises(ValueError, match="a text cannot hold"):
        f"{unordered('a')}"


def test_the_kinds_of_texts_stay_apart(engine: Engine) -> None:
    @function
    def program(s: Any, argument: str) -> None:
        s += unordered(argument, "<|end|>", sgl.data("<|end|>"), separator="\n", name="order")
        s += gen("answer", max_tokens=1)

    state = program.run("<|end|>x", backend=engine, temperature=0)
    ids = state.token_ids()
    end = engine.encode(["<|end|>"])[0][-1]
    assert ids[: state.get_meta_info("answer")["prompt_tokens"]].count(end) == 1


class Broken(FakeExecutor):
    """An executor whose search for an order fails, waits, or is never answered."""

    how = "raises"

    def order(self, call: OrderCall, sink: Any) -> None:
        if self.how == "raises":
            raise RuntimeError("no order")
        if self.how == "silent":
            self.sink = sink


def test_a_failed_search_keeps_the_given_order(caplog: pytest.LogCaptureFixture) -> None:
    executor = Broken()
    state = answers.run(["b", "a"], backend=executor)
    assert state["order"] == [0, 1] and "search for an order" in caplog.text
    executor.close()


def test_a_stopped_run_does_not_wait_for_an_order() -> None:
    executor = Broken()
    executor.how = "silent"
    state = answers.run(["b", "a"], backend=executor)
    assert not state.wait(0.05)
    state.cancel()
    with pytest.raises(Aborted):
        _ = state["order"]
    executor.sink(PartOrder((1, 0)))  # too late: ignored
    assert state.text() == "USER: "
    executor.close()


def test_a_closed_engine_reports_its_own_error() -> None:
    engine = Engine("tiny", context_length=512)
    answers.run(["a", "b"], backend=engine).sync()
    engine.close()
    state = answers.run(["b", "a"], backend=engine)
    with pytest.raises(Exception, match="closed"):
        state.sync()
    assert sorted(state["order"]) == [0, 1]


def test_stored_prefixes_decide_the_order_after_a_restart(tmp_path: Path) -> None:
    options: Any = {"max_total_tokens": 4096, "disk_cache": str(tmp_path)}
    documents = [document(number, 90) for number in range(4)]
    with Engine("tiny", **options) as engine:
        first = run(engine, documents)
        engine.pin(first.token_ids(), durable=True)
        while not engine.pins()[0]["durable"] >= len(first.token_ids()) // 64 * 64:
            time.sleep(0.01)
    with Engine("tiny", **options) as engine:
        engine.generate([1, 2, 3], max_tokens=2)
        state = run(engine, [documents[i] for i in (2, 0, 3, 1)])
        assert state["order"] == [1, 3, 0, 2] and state["answer"] == first["answer"]
        assert engine.stats()["loaded_tokens"] > 300


def test_images_in_parts_on_an_engine() -> None:
    @function
    def looks(s: Any, pictures: list[Any]) -> None:
        parts = [f"No. {number}: " + sgl.image(picture) for number, picture in pictures]
        s += user(unordered(*parts, separator="; ", name="order") + " tell")
        s += sgl.assistant(gen("answer", max_tokens=2))

    pictures = [(number, picture_of(number)) for number in (1, 2, 3)]
    with multimodal("gemma3", None) as engine:
        first = looks.run(pictures, backend=engine, temperature=0)
        first.sync()
        executor_of(engine)._part_orders.forget()
        second = looks.run(pictures[::-1], backend=engine, temperature=0)
        assert second["order"] == [2, 1, 0] and second.text() == first.text()
        assert cached(second) > 0.9 * second.get_meta_info("answer")["prompt_tokens"]


def test_streams_steps_and_async_programs(engine: Engine) -> None:
    @function
    async def later(s: Any) -> None:
        s += unordered("b", "a", name="order") + gen("answer", max_tokens=2)
        await s["order"]

    state = later.run(backend=engine, temperature=0)
    assert state["order"] == [0, 1]
    streamed = answers.run(DOCUMENTS, backend=engine, stream=True, temperature=0)
    assert "".join(streamed.text_iter()) == streamed.text()
    op = unordered("a", "b")
    assert describe(op) == "2 unordered parts"


def test_a_service_reads_ahead_past_the_parts(make: Any) -> None:
    @function(num_api_spec_tokens=64)
    def program(s: Any) -> None:
        s += "Name:" + gen("name", stop="\n") + "\n" + unordered("x", "y", separator=",")
        s += gen("answer", stop="\n")

    state = program.run(backend=make(), temperature=0)
    assert "\nx,y" in state.text() and state["answer"]


def test_records_of_orders_are_checked(engine: Engine) -> None:
    run(engine, DOCUMENTS)
    run(engine, DOCUMENTS[::-1])
    records = [r for r in engine.log.read(0).records if isinstance(r.event, PartsOrdered)]
    line = encode(records[-1])
    assert decode(line).event == records[-1].event
    with pytest.raises(RecordError, match="not a permutation"):
        decode(line.replace("[4,3,2,1,0]", "[4,3,2,1,1]"))


def test_a_text_that_cannot_be_tokenized_is_an_error_of_the_call(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    state = answers.run(["a", "\ud800"], backend=engine)
    with pytest.raises(RequestError, match="surrogate"):
        state.sync()
    assert state["order"] == [0, 1] and not caplog.text


def test_an_error_of_the_search_keeps_the_given_order(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("sgnb.engine.cache.part_extents.CachedPrompt.measure", fails)
    assert run(engine, DOCUMENTS)["order"] == [0, 1, 2, 3, 4]
    assert "the search for an order of parts failed" in caplog.text


@pytest.mark.parametrize("make", [None, byte_level, pieces], ids=["tiny", "bytes", "pieces"])
@pytest.mark.parametrize("separator", ["\n\n", "\n", " | ", "\n---\n", " "])
def test_pieces_join_to_the_tokens_of_the_text(engine: Engine, separator: str, make: Any) -> None:
    """For ordinary separators, the search finds the tokens of the prompt."""
    encode = engine.encode if make is None else Tokenizer(make()).encode
    generator = random.Random(separator)
    for head in ("", "<|user|>\n", "Read these notes: "):
        documents = generator.sample(DOCUMENTS, 4)
        kinds: Any = "data"
        call = OrderCall(
            segments=(Segment(head),) if head else (),
            parts=tuple((Segment(text, kinds),) for text in documents),
            separator=Segment(separator, kinds),
            branch="0",
        )
        prompt = parts_prompt(encode, call, "")
        for order in permutations(range(4)):
            ids = prompt.head.tolist()
            for place, index in enumerate(order):
                piece = (prompt.later if place else prompt.first)[index]
                ids = ids[: len(ids) - piece.replaced] + piece.tokens.tolist()
            texts = [segment for index in order for segment in (*call.parts[index], call.separator)]
            exact = encode([[*call.segments, *texts, Segment("x", kinds)]])[0]
            assert ids[: -prompt.separator] == exact[: len(ids) - prompt.separator]
