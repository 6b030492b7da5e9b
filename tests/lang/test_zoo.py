"""Programs of many kinds, as people write them, on the bundled model: each once, at temperature 0
unless it samples, with something that must be true of it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pandas
import pydantic
import pytest

import sgnb as sgl
from sgnb.backends import LocalExecutor
from sgnb.lang import function, set_default_executor

ZOO: dict[str, Callable[[], None]] = {}
"""Kind of program -> a test of one."""


def kind(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(test: Callable[[], None]) -> Callable[[], None]:
        ZOO[name] = test
        return test

    return add


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[Any]:
    with sgl.Engine("tiny") as engine:
        set_default_executor(LocalExecutor(engine))
        yield engine
    set_default_executor(None)


def greedy(program: Callable[..., Any]) -> Any:
    """The program, and its state for arguments."""
    made = function(program)
    return lambda *args, **options: made.run(*args, **{"temperature": 0, **options})


def cached(state: Any, name: str) -> int:
    return int(state.get_meta_info(name)["cached_tokens"])


def line(name: str, **options: Any) -> Any:
    return sgl.gen(name, **{"stop": "\n", "max_tokens": 24, **options})


SHOTS = "".join(
    f"Q: What is the capital of {country}?\nA: {city}\n"
    for country, city in (("Japan", "Tokyo"), ("Italy", "Rome"), ("Egypt", "Cairo"))
)


def ask_shots(s: Any, country: str) -> None:
    s += SHOTS + f"Q: What is the capital of {country}?\nA:" + line("city")


@kind("completion")
def completion() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "The capital of Japan is" + sgl.gen("city", max_tokens=8, stop=".")

    state = program()
    assert state["city"] == " Tokyo" and state.text() == "The capital of Japan is Tokyo"


@kind("few-shot")
def few_shot() -> None:
    run = greedy(ask_shots)
    first, second = run("France"), run("Spain")
    assert (first["city"].strip(), second["city"].strip()) == ("Paris", "Madrid")
    assert cached(second, "city") > 3 * 10, "the examples"


@kind("chat")
def chat() -> None:
    @greedy
    def program(s: Any) -> None:
        s += sgl.system("You are helpful.")
        s += sgl.user("How many legs does a spider have?")
        s += sgl.assistant(sgl.gen("answer", max_tokens=24))

    state = program()
    assert "eight" in state["answer"]
    assert [m["role"] for m in state.messages()] == ["system", "user", "assistant"]
    assert state.messages()[2]["content"] == state["answer"]


@kind("multi-turn chat")
def multi_turn() -> None:
    @greedy
    def program(s: Any) -> None:
        for i, country in enumerate(("France", "Italy", "Spain")):
            s += sgl.user(f"What is the capital of {country}?")
            s += sgl.assistant(sgl.gen(f"answer{i}", max_tokens=16))

    state = program()
    assert [city in state[f"answer{i}"] for i, city in enumerate(("Paris", "Rome", "Madrid"))]
    for i in (1, 2):
        earlier = state.get_meta_info(f"answer{i - 1}")
        own_past = earlier["prompt_tokens"] + earlier["completion_tokens"] - 1
        assert cached(state, f"answer{i}") >= own_past


@kind("roles as blocks")
def blocks() -> None:
    @greedy
    def program(s: Any) -> None:
        with s.user():
            s += "What is "
            s += "12 + 30?"
        with s.assistant():
            s += sgl.gen("answer", max_tokens=16)

    @greedy
    def same(s: Any) -> None:
        s += sgl.user("What is 12 + 30?") + sgl.assistant(sgl.gen("answer", max_tokens=16))

    assert program().text() == same().text() and "42" in program()["answer"]


@kind("JSON by a schema")
def json_schema() -> None:
    class Person(pydantic.BaseModel):
        name: str
        age: int

    @greedy
    def program(s: Any) -> None:
        s += sgl.user("Write a JSON object with name and age for Anna, 30.")
        s += sgl.assistant(sgl.gen("person", json_schema=Person, max_tokens=40))

    assert Person.model_validate_json(program()["person"]).age == 30


@kind("JSON by hand")
def json_by_hand() -> None:
    @greedy
    def program(s: Any) -> None:
        s += 'Anna is 30 years old.\n{"name": "' + sgl.gen("name", stop='"', max_tokens=8)
        s += '", "age": ' + sgl.gen_int("age", max_tokens=4) + "}"

    state = program()
    made = json.loads(state.text().partition("\n")[2])
    assert made == {"name": state["name"], "age": int(state["age"])}


@kind("regex")
def regex() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "The date is " + sgl.gen("date", regex=r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")

    state = program()
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", state["date"])
    assert state.get_meta_info("date")["jumped_tokens"] >= 2


@kind("typed values")
def typed() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "12 + 30 =" + sgl.gen("sum", dtype=int, max_tokens=4)
        s += "\nTrue or False: " + sgl.gen("truth", dtype=bool)
        s += "\nHalf: " + sgl.gen("half", dtype=float, max_tokens=6)

    state = program()
    assert state["truth"] in ("True", "False")
    int(state["sum"]), float(state["half"])


@kind("grammar")
def grammar() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "Moves: " + sgl.gen(
            "moves", ebnf='root ::= ("L" | "R") (" " ("L" | "R"))*', max_tokens=9
        )

    assert re.fullmatch("[LR]( [LR])*", program()["moves"])


@kind("classification by select")
def classification() -> None:
    shots = "Review: I loved it.\nMood: good\nReview: It was awful.\nMood: bad\nReview: {}\nMood:"

    @greedy
    def program(s: Any, review: str) -> None:
        s += shots.format(review) + sgl.select("mood", [" good", " bad"])

    assert [program(text)["mood"] for text in ("I loved this film.", "It was awful, truly.")] == [
        " good",
        " bad",
    ]


@kind("select in three methods")
def select_methods() -> None:
    methods = (
        sgl.token_length_normalized,
        sgl.greedy_token_selection,
        sgl.unconditional_likelihood_normalized,
    )

    @greedy
    def program(s: Any) -> None:
        s += "Q: What is the capital of France?\nA:"
        for i, (fork, method) in enumerate(zip(s.fork(3), methods, strict=True)):
            fork += sgl.select("city", [" Paris", " Rome", " Tokyo"], choices_method=method)
            s[f"city{i}"] = fork["city"]
            assert len(fork.get_meta_info("city")["scores"]) == 3

    state = program()
    assert [state[f"city{i}"] for i in range(3)] == [" Paris"] * 3


@kind("router")
def router() -> None:
    @greedy
    def program(s: Any, question: str) -> None:
        s += "Q: What is 1 + 2?\nKind: sum\nQ: What is the capital of Italy?\nKind: place\n"
        s += f"Q: {question}\n"
        s += "Kind:" + sgl.select("kind", [" sum", " place"])
        s += f"\nQ: {question}\nA:"
        s += sgl.gen("answer", dtype=int) if s["kind"] == " sum" else line("answer")

    state = program("What is 12 + 30?")
    assert state["kind"] in (" sum", " place")
    assert (state["kind"] == " sum") == state["answer"].strip().isdigit()


@kind("chain of thought")
def chain_of_thought() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "Q: Tom has 3 apples and gets 4 more. How many apples does he have?\n"
        s += "A: Let's think step by step." + line("steps", max_tokens=40)
        s += "\nThe answer is" + sgl.gen("answer", regex=" [0-9]{1,3}")

    state = program()
    assert state.text().endswith(f"The answer is{state['answer']}")
    assert cached(state, "answer") >= state.get_meta_info("steps")["prompt_tokens"]


@kind("self-consistency")
def self_consistency() -> None:
    @function
    def program(s: Any) -> Any:
        s += "Q: What is 12 + 30?\nA:"

        def step(i: int) -> Any:
            return sgl.gen("sum", regex=" [0-9]{1,3}", temperature=1.0, seed=i)

        return sgl.majority_vote(s, 5, step, vote=lambda branch: int(branch["sum"]))

    state, again = program.run(), program.run()
    assert sum(state.ret_value.values()) == 5 and state.ret_value == again.ret_value
    assert int(state["sum"]) == state.ret_value.most_common(1)[0][0]


@kind("several samples of one call")
def samples() -> None:
    @function
    def program(s: Any) -> None:
        s += "Q: Name a country.\nA:" + line("country", n=4, temperature=1.0, seed=3)

    state = program.run()
    assert len(state["country"]) == 4 == len(state.get_meta_info("country"))
    assert state.text().endswith(state["country"][0])


@kind("best of n")
def best_of_n() -> None:
    @function
    def program(s: Any) -> Any:
        s += "Once upon a time"

        def step(i: int) -> Any:
            return sgl.gen("story", max_tokens=8, temperature=1.0, seed=i)

        return sgl.best_of_n(s, 4, step, score=lambda branch: len(branch["story"]))

    state = program.run()
    assert max(state.ret_value) == len(state["story"])
    assert state.text() == "Once upon a time" + state["story"]


@kind("judge")
def judge() -> None:
    @greedy
    def program(s: Any) -> Any:
        s += "Q: What is 1 + 1?\nA: 2\nRight? yes\nQ: What is 1 + 1?\nA: 5\nRight? no\n"
        s += "Q: What is the capital of France?\nA: "
        return sgl.judge(s, ["Paris", "Rome"], "\nRight? ", grades=["no", "yes"])

    right, wrong = program().ret_value
    assert 1 <= wrong <= 2 and 1 <= right <= 2 and right != wrong


@kind("judge on several dimensions")
def dimensions() -> None:
    @greedy
    def program(s: Any, essay: str) -> None:
        s += f"Essay: {essay}\n"
        forks = s.fork(3)
        names = ("clarity", "style", "facts")
        forks += [f"Grade for {n}: " + sgl.select("grade", list("12345")) for n in names]
        forks.join()
        s += "Grades: " + ", ".join(s["grade"])

    state = program("The sun is a star. It is hot. It shines on the earth.")
    assert re.search(r"Grades: [1-5], [1-5], [1-5]$", state.text())


@kind("tree of thought")
def tree_of_thought() -> None:
    def total(branch: Any) -> int:
        return sum(map(int, re.findall(r"\+ (\d)", branch.text())))

    @greedy
    def program(s: Any) -> Any:
        s += "Reach 9: 0"
        return sgl.tree_search(
            s,
            propose=lambda b: [f" + {n}" for n in (1, 3, 5)],
            score=lambda b: -abs(9 - total(b)),
            solved=lambda b: total(b) == 9,
        )

    state = program()
    assert state.ret_value and total(state) == 9


@kind("tree of thought judged by the model")
def judged_tree() -> None:
    @function
    def program(s: Any) -> Any:
        s += "A list of animals:"
        return sgl.beam_search(
            s,
            propose=lambda b: [line(f"a{len(b.text())}", max_tokens=4, seed=i) for i in range(3)],
            score=lambda b: "\nGrade: " + sgl.select("grade", list("123")),
            width=2,
            depth=2,
        )

    state = program.run()
    assert state.ret_value in (1, 2, 3)
    assert "Grade" not in state.text() and state.text() == program.run().text()


@kind("skeleton of thought")
def skeleton() -> None:
    @greedy
    def program(s: Any) -> None:
        s += sgl.user("Give three tips for a good sleep.")
        s += sgl.assistant("1." + line("tip1") + "\n2." + line("tip2") + "\n3." + line("tip3"))
        forks = s.fork(3)
        forks += lambda i: (
            sgl.user(f"Tell more about tip {i + 1}.")
            + sgl.assistant(sgl.gen("more", max_tokens=12))
        )
        forks.join()
        s += sgl.user("\n".join(s["more"]))

    state = program()
    shared = state.get_meta_info("tip3")["prompt_tokens"]
    assert len(state["more"]) == 3
    assert all(meta["cached_tokens"] >= shared for meta in state.get_meta_info("more"))


@kind("forks whose text is joined")
def joined_text() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "Capitals:"
        forks = s.fork(3)
        forks += [f"\n{c}:" + line("city") for c in ("France", "Italy", "Japan")]
        forks.join("concate_and_append")
        s += "\n"

    text = program().text()
    assert [part.partition(":")[0] for part in text.splitlines()[1:]] == [
        "France",
        "Italy",
        "Japan",
    ]


@kind("a copy that leaves nothing")
def copies() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "Q: What is the capital of France?\nA:"
        with s.copy() as c:
            c += line("aside")
        s += line("city")

    state = program()
    assert state["aside"] == [state["city"]] and state.text().count("Paris") == 1


@kind("answers from documents")
def retrieval() -> None:
    notes = {"Mila": "Mila lives in Oslo.", "Omar": "Omar lives in Cairo."}

    @greedy
    def program(s: Any, question: str) -> None:
        found = [note for name, note in notes.items() if name in question]
        s += sgl.user("Notes: " + " ".join(found) + f"\n{question}")
        s += sgl.assistant(sgl.gen("answer", max_tokens=16))

    state = program("Where does Omar live?")
    assert "Cairo" in state["answer"] and "Mila" not in state.text()


@kind("map and reduce")
def map_reduce() -> None:
    @greedy
    def program(s: Any, pages: list[str]) -> None:
        s += "Summaries.\n"
        sgl.map_over(
            s, pages, lambda page: f"Text: {page}\nIn short:" + line("short", max_tokens=12)
        )
        s += "\n".join(s["short"]) + "\nAll in all:" + line("summary", max_tokens=12)

    state = program(["The cat sleeps.", "The dog runs.", "It rains."])
    assert len(state["short"]) == 3
    assert all(part in state.text() for part in state["short"])


@kind("retry until valid")
def retry() -> None:
    @function
    def program(s: Any) -> Any:
        s += "A number between 1 and 9:"

        def step(i: int) -> Any:
            return sgl.gen("n", regex=" [0-9]", temperature=2.0, seed=i)

        return sgl.retry(s, step, valid=lambda b: int(b["n"]) % 2 == 0, tries=30)

    state = program.run()
    assert int(state["n"]) % 2 == 0 and 1 <= state.ret_value <= 30
    assert state.text() == "A number between 1 and 9:" + state["n"]


@kind("a loop that the model ends")
def open_loop() -> None:
    @greedy
    def program(s: Any) -> None:
        s += "Countdown: 5"
        for i in range(8):
            s += sgl.gen(f"n{i}", regex=r", [0-9]|\.")
            if s[f"n{i}"] == ".":
                break

    assert re.fullmatch(r"Countdown: 5(, \d)*\.?", program().text())


@kind("programs that call programs")
def nested() -> None:
    capital = function(ask_shots)

    @greedy
    def program(s: Any) -> None:
        states = [capital.run(c, temperature=0) for c in ("France", "Spain")]
        s += "A tour: " + " and".join(state["city"] for state in states)

    assert program().text() == "A tour:  Paris and Madrid"


@kind("a program as a part of another")
def parts() -> None:
    @function
    def qa(s: Any, country: str, name: str) -> str:
        s += f"Q: What is the capital of {country}?\nA:" + line(name) + "\n"
        return str(s[name])

    @greedy
    def program(s: Any) -> Any:
        return [qa(s, "France", name="a"), qa(s, "Italy", name="b")]

    state = program()
    assert state.ret_value == [state["a"], state["b"]] and state.text().count("Q:") == 2


@kind("async")
def asynchronous() -> None:
    @function
    async def program(s: Any, country: str) -> str:
        s += f"Q: What is the capital of {country}?\nA:" + line("city")
        return str(await s["city"])

    async def main() -> list[Any]:
        both = (program.arun(c, temperature=0) for c in ("France", "Japan"))
        return await asyncio.gather(*both)

    states = asyncio.run(main())
    assert [state.ret_value.strip() for state in states] == ["Paris", "Tokyo"]


@kind("streaming")
def streaming() -> None:
    prompt_was_read = threading.Event()

    @function
    def program(s: Any, country: str) -> None:
        s += SHOTS + f"Q: What is the capital of {country}?\nA:"
        prompt_was_read.wait(60)
        s += line("city")

    state = program.run("France", stream=True, temperature=0)
    pieces = []
    for piece in state.text_iter():
        pieces.append(piece)
        prompt_was_read.set()
    assert "".join(pieces) == state.text() == program.run("France", temperature=0).text()
    assert len(pieces) > 1


@kind("batch")
def batch() -> None:
    program = function(ask_shots)
    countries = ["France", "Spain", "Japan", "Egypt"]
    states = program.run_batch([(c,) for c in countries], temperature=0)
    alone = [program.run(c, temperature=0).text() for c in countries]
    assert [state.text() for state in states] == alone
    lazy = program.run_batch(((c,) for c in countries), generator_style=True, temperature=0)
    assert [state.text() for state in lazy] == alone


@kind("data frame")
def data_frame() -> None:
    frame = pandas.DataFrame({"country": ["France", "Japan"], "row": [1, 2]})
    result = function(ask_shots).run_batch(frame, as_frame=True, temperature=0)
    assert [city.strip() for city in result["city"]] == ["Paris", "Tokyo"]
    assert (result["tokens"] > 0).all() and (result["seconds"] > 0).all()
    assert list(result["row"]) == [1, 2]


@kind("bound arguments")
def bound() -> None:
    program = function(ask_shots)
    fixed = program.bind(country="France")
    assert fixed.run(temperature=0).text() == program.run("France", temperature=0).text()


@kind("scoring a given text")
def scoring() -> None:
    @greedy
    def program(s: Any, text: str) -> None:
        s += text
        s += sgl.gen("end", max_tokens=1, return_logprob=True, logprob_start_len=0)

    known = program("The capital of France is Paris.").get_meta_info("end")
    wrong = program("The capital of France is Xylophone.").get_meta_info("end")
    assert len(known["input_token_logprobs"]) > 5
    assert str(known["input_token_logprobs"]) != str(wrong["input_token_logprobs"])


@kind("a story in parts")
def scopes() -> None:
    @greedy
    def program(s: Any) -> None:
        with s.var_scope("story"):
            s += "Once upon a time" + sgl.gen("one", max_tokens=6)
            s += " Then" + sgl.gen("two", max_tokens=6)

    state = program()
    assert state["story"] == state.text() == f"Once upon a time{state['one']} Then{state['two']}"


@pytest.mark.parametrize("name", list(ZOO))
def test_zoo(name: str) -> None:
    ZOO[name]()


def test_the_zoo_is_large() -> None:
    assert len(ZOO) >= 30
