"""What is the same work, and what other libraries can do of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

import sgnb
from sgnb.backends import executor_of
from sgnb.benchmark import TECHNIQUES, Measurements, Workload, bench, check_opponents
from sgnb.benchmark.http_peer import HttpPeer
from sgnb.benchmark.measurement import EngineSide
from sgnb.benchmark.peers import LIBRARIES, Outlines, Weights
from sgnb.benchmark.work import CallResult as Made
from sgnb.benchmark.work import Work
from sgnb.errors import OptionError
from sgnb.lang.executor import Call, ScoreCall
from sgnb.sampling import SamplingParams

COUNTRIES = [{"country": "Japan"}, {"country": "Brazil"}, {"country": "Egypt"}]
GREEDY = SamplingParams(temperature=0)


@sgnb.function
def capital(s: Any, country: str) -> None:
    s += "Question: What is the capital of France?\nAnswer: Paris.\n" * 8
    s += f"Question: What is the capital of {country}?\nAnswer:"
    s += sgnb.gen("answer", max_tokens=6, temperature=0, stop="\n")


@sgnb.function
def in_two(s: Any, country: str) -> None:
    s += f"The capital of {country} is" + sgnb.gen("a", max_tokens=4, temperature=0)
    s += sgnb.gen("b", max_tokens=4, temperature=0)


@pytest.fixture(scope="module")
def engine() -> Iterator[sgnb.Engine]:
    with sgnb.Engine("tiny") as engine:
        yield engine


def work(*made: Made, params: SamplingParams = GREEDY) -> Work:
    calls: list[Any] = [Call("prompt", params, "run1", "0", one.name) for one in made]
    return Work(calls, {"0": list(made)}, ["".join(one.texts[0] for one in made)])


@pytest.mark.parametrize(
    "there, same, repeatable, difference",
    [
        (work(Made("a", ("x y",), 2, True)), "text", True, ""),
        (work(Made("a", ("x z",), 2, True)), "text", True,
         "branch 0, a, character 2: 'y' instead of 'z'"),
        (work(Made("a", ("x z",), 2, True)), "tokens", True, ""),
        (work(Made("a", ("x z",), 3, True)), "tokens", True, "branch 0, a: 2 tokens instead of 3"),
        (work(Made("a", ("x z",), 2, False), params=SamplingParams(seed=1)), "text", False, ""),
        (work(Made("a", ("x z",), 3, False), params=SamplingParams(seed=1)), "text", False,
         "branch 0, a: 2 tokens instead of 3"),
        (work(Made("a", ("x y",), 2, True), Made("b", ("",), 0, True)), "text", True,
         "1 calls instead of 2"),
    ],
)  # fmt: skip
def test_what_is_the_same_work(there: Work, same: Any, repeatable: bool, difference: str) -> None:
    assert work(Made("a", ("x y",), 2, True)).difference(there, same, repeatable) == difference


def test_a_choice_that_differs_is_in_the_rows_text() -> None:
    here, there = Work(rows=["same", "It is true"]), Work(rows=["same", "It is false"])
    assert here.difference(there) == "row 1, character 6: 'true' instead of 'false'"


def measured(engine: sgnb.Engine, program: Any, against: list[Any], **options: Any) -> Measurements:
    workload = Workload(program.__name__, program, COUNTRIES, **options)
    found = Measurements(workload, 1)
    bench(executor_of(engine), against, found)
    return found


@sgnb.function
def forked(s: Any) -> None:
    s += "Answer in one word. " * 20
    forks = s.fork(4)
    forks += "Name a city:" + sgnb.gen("city", max_tokens=3, temperature=0, ignore_eos=True)
    forks.join()
    s += sgnb.gen("land", regex="(France|Italy) is a country", temperature=0)


def test_ablations_do_the_same_work_with_other_counts(engine: sgnb.Engine) -> None:
    found, before = Measurements(Workload("forked", forked), 1), engine.options
    against = ["nocache", "nojump", "nofork", "itself"]
    bench(executor_of(engine), against, found)
    assert found.refused == {}
    assert found.count("as it is", "cached_tokens") > 0 == found.count("nocache", "cached_tokens")
    assert found.count("as it is", "jumped_tokens") > 0 == found.count("nojump", "jumped_tokens")
    assert found.count("as it is", "cascade_steps") > 0 == found.count("nofork", "cascade_steps")
    assert found.count("itself", "computed_tokens") == found.count("as it is", "computed_tokens")
    assert engine.options == before and engine.stats()["cached"] == 0


def test_what_cannot_differ_is_not_measured(engine: sgnb.Engine) -> None:
    @sgnb.function
    def plain(s: Any) -> None:
        s += "A story." + sgnb.gen("story", max_tokens=2, temperature=0)

    found = Measurements(Workload("plain", plain), 1)
    bench(executor_of(engine), list(TECHNIQUES), found)
    assert found.samples == [] and found.done == 0
    assert {name: why.removeprefix("cannot differ: ") for name, why in found.refused.items()} == {
        "nocache": "no prompt token was found in the cache",
        "fcfs": "all requests started in the order of arrival",
        "nojump": "no token was forced by a grammar",
        "nofork": "no step read a prefix once for several requests",
        "nooverlap": "the engine does not overlap steps; on a CPU load with overlap=True",
        "text": "no prompt contains generated tokens",
    }


def test_first_come_order_finds_less_in_a_small_cache() -> None:
    @sgnb.function
    def asked(s: Any, text: str) -> None:
        s += text + sgnb.gen("a", max_tokens=1, temperature=0, ignore_eos=True)

    texts = [f"{letter} is a letter. " * 12 for letter in "abcd"]
    rows = [{"text": text + str(i)} for i in range(3) for text in texts]
    with sgnb.Engine("tiny", max_total_tokens=200, max_running_requests=1) as small:
        found = Measurements(Workload("asked", asked, rows), 1)
        bench(executor_of(small), ["fcfs"], found)
        assert small.options.schedule_policy == "lpm"
    assert found.count("fcfs", "computed_tokens") > 2 * found.count("as it is", "computed_tokens")


def test_text_in_place_of_tokens_is_tokenized_again(engine: sgnb.Engine) -> None:
    executor, calls = executor_of(engine), {}
    workload = Workload("in_two", in_two, COUNTRIES)
    for variant in ("", "text"):
        ran = EngineSide(executor, workload.run, "wall", variant, variant).run()
        calls[variant] = [s.kind for call in ran.work.calls for s in call.segments]
    assert "output" in calls[""] and "output" not in calls["text"]


def test_overlap_is_switched_on_one_engine() -> None:
    with sgnb.Engine("tiny", overlap=True) as engine:
        found = measured(engine, capital, ["nooverlap"])
        assert found.refused == {} and engine.options.overlap is True
        engine.switch(overlap=False)
        assert engine._loop.overlap is False
        with pytest.raises(OptionError, match="unknown schedule_policy"):
            engine.switch(schedule_policy="random")  # type: ignore[arg-type]


def test_samples_without_a_seed_are_refused(engine: sgnb.Engine) -> None:
    with pytest.raises(OptionError, match="answer of sampled is sampled without a seed") as e:
        measured(engine, sampled, ["itself"])
    assert "give seed=..., or temperature=0" in e.value.hint
    found = measured(engine, sampled, ["itself"], defaults={"seed": 7})
    assert found.refused == {} and found.seeds == (7,)


@sgnb.function
def sampled(s: Any, country: str) -> None:
    s += f"The capital of {country} is" + sgnb.gen("answer", max_tokens=4)


@pytest.mark.parametrize(
    "library, params, why",
    [
        ("transformers", GREEDY, ""),
        ("transformers", SamplingParams(seed=1, top_p=0.9), ""),
        ("transformers", SamplingParams(temperature=0, regex="a+"), "no equivalent of regex"),
        ("guidance", SamplingParams(temperature=0, regex="a+", stop=("\n",)), ""),
        ("guidance", SamplingParams(seed=1), "greedy text only"),
        ("guidance", SamplingParams(temperature=0, json_schema="{}"), "its own whitespace"),
        ("outlines", SamplingParams(temperature=0, json_schema="{}", json_whitespace=0), ""),
        ("outlines", SamplingParams(temperature=0, stop=("\n",)), "no equivalent of stop"),
        (
            "outlines",
            SamplingParams(temperature=0, frequency_penalty=1.0),
            "equivalent of frequency",
        ),
    ],
)
def test_what_a_library_cannot_do_is_refused(
    engine: sgnb.Engine, library: str, params: SamplingParams, why: str
) -> None:
    executor = executor_of(engine)
    refused = LIBRARIES[library](executor, Weights(executor)).refuses(
        work(Made("a", ("x",), 1, True), params=params)
    )
    assert why in refused and bool(why) == bool(refused)


def test_a_select_is_not_for_libraries(engine: sgnb.Engine) -> None:
    executor = executor_of(engine)
    chosen = Work([ScoreCall("It is", ("true", "false"), False, "run1", "0", "x")])
    for kind in LIBRARIES.values():
        assert "score the choices" in kind(executor, Weights(executor)).refuses(chosen)


def test_what_is_not_installed_is_said(engine: sgnb.Engine, monkeypatch: Any) -> None:
    monkeypatch.setattr(Outlines, "package", "sgnb_no_such_library")
    found = measured(engine, capital, ["outlines"])
    assert found.refused["outlines"] == "not installed: pip install sgnb_no_such_library"


@pytest.mark.parametrize(
    "library",
    [
        "transformers",
        pytest.param("guidance", marks=pytest.mark.slow),
        pytest.param("outlines", marks=pytest.mark.slow),
    ],
)
def test_a_library_does_the_same_work(engine: sgnb.Engine, library: str) -> None:
    pytest.importorskip(library)

    @sgnb.function
    def chosen(s: Any, country: str) -> None:
        s += f"Question: Is {country} a country? yes or no\nAnswer: "
        options = {} if library == "transformers" else {"regex": "(yes|no)"}
        s += sgnb.gen("answer", max_tokens=3, temperature=0, **options)

    found = measured(engine, chosen, [library])
    assert found.refused == {} and library in found.titles[library]
    assert len(found.seconds(library)) == 1


def test_samples_of_a_library_are_its_own_but_as_many(engine: sgnb.Engine) -> None:
    @sgnb.function
    def free(s: Any, country: str) -> None:
        s += f"The capital of {country} is"
        s += sgnb.gen("answer", max_tokens=6, temperature=1.5, seed=3, ignore_eos=True)

    assert measured(engine, free, ["transformers", "itself"]).refused == {}


def test_transformers_stops_where_the_engine_does(engine: sgnb.Engine) -> None:
    """At a stop string, whose rest is cut, in batches of unlike lengths."""

    @sgnb.function
    def stopped(s: Any, country: str) -> None:
        s += (
            f"{country} " * len(country)
            + "\n1."
            + sgnb.gen("a", max_tokens=12, stop=" a", temperature=0)
        )

    assert measured(engine, stopped, ["transformers"]).refused == {}


class Server(BaseHTTPRequestHandler):
    """Speaks as SGLang or as OpenAI does; every answer is `text`."""

    sglang: ClassVar[bool] = True
    text: ClassVar[str] = " Rome."
    models: ClassVar[Any] = {"data": [{"id": "tiny"}]}
    asked: ClassVar[list[tuple[str, Any]]] = []

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        models: dict[str, Any] = {"/get_model_info": {"model_path": "tiny"}} if self.sglang else {}
        models |= {"/v1/models": self.models}
        self._answer(models.get(self.path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        if self.sglang:
            self._answer({"text": self.text, "meta_info": {"completion_tokens": 3}})
        else:
            usage = {"completion_tokens": 3}
            self._answer({"choices": [{"text": self.text}], "usage": usage})

    def _answer(self, body: Any) -> None:
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@pytest.fixture
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    Server.asked.clear()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()
    thread.join()


@sgnb.function
def japan(s: Any, n: int) -> None:
    s += f"{n}. The capital of Japan is" + sgnb.gen("a", max_tokens=5, temperature=0, stop="\n")


@pytest.mark.parametrize("sglang", [True, False])
def test_an_address_is_asked_in_its_own_protocol(
    engine: sgnb.Engine, server: str, monkeypatch: Any, sglang: bool
) -> None:
    monkeypatch.setattr(Server, "sglang", sglang)
    workload = Workload("japan", japan, [(1,)])
    monkeypatch.setattr(Server, "text", japan.run(1, backend=engine)["a"])
    found = Measurements(workload, 1)
    bench(executor_of(engine), [server], found)
    assert found.refused == {} and found.titles[server] == "by the endpoint with 'tiny'"
    path, body = Server.asked[0]
    assert path == ("/generate" if sglang else "/v1/completions")
    told = body["sampling_params"] if sglang else body
    assert (told["temperature"], told["stop"]) == (0, ["\n"])
    assert told["max_new_tokens" if sglang else "max_tokens"] == 5
    assert body["text" if sglang else "prompt"] == "1. The capital of Japan is"


def test_an_address_with_other_answers_is_refused(
    engine: sgnb.Engine, server: str, monkeypatch: Any
) -> None:
    workload = Workload("japan", japan, [(1,)])
    found = Measurements(workload, 1)
    bench(executor_of(engine), [server, "http://127.0.0.1:9"], found)
    assert found.refused[server].startswith("different work: branch 0")
    assert "does not answer" in found.refused["http://127.0.0.1:9"]
    monkeypatch.setattr(Server, "sglang", False)
    monkeypatch.setattr(Server, "models", {"data": []})
    assert "supports neither" in HttpPeer(executor_of(engine), server).missing()


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@host:1",
        "http://host/v1?key=secret",
        "http://[host",
        "http://",
        "http://a b",
    ],
)
def test_an_address_is_a_place_and_no_secret(url: str) -> None:
    with pytest.raises(OptionError, match="not valid") as refused:
        check_opponents([url], "wall")
    assert "secret" not in str(refused.value)
    check_opponents(["http://localhost:30000/v1", "https://[::1]:8000"], "wall")


def test_what_speaks_no_http_is_said(engine: sgnb.Engine, server: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Server, "do_GET", lambda self: self.wfile.write(b"HTTP/1.1 no\r\n\r\n"))
    assert "does not answer" in HttpPeer(executor_of(engine), server).missing()


def test_two_opponents_have_two_names() -> None:
    class Program:
        run_batch = None

        def __init__(self, name: str) -> None:
            self.__name__ = name

    one = Program("one")
    check_opponents([one, one, "nocache", "nocache"], "wall")
    with pytest.raises(OptionError, match="two programs are called 'one'"):
        check_opponents([one, Program("one")], "wall")
    with pytest.raises(OptionError, match="the name 'text' of a program"):
        check_opponents([Program("text")], "wall")
    with pytest.raises(OptionError, match="'nocache' is a single name"):
        check_opponents("nocache", "wall")
    with pytest.raises(OptionError, match="vs is empty"):
        check_opponents([], "wall")


def test_a_run_is_all_rows_on_what_is_measured() -> None:
    for name in ("backend", "save", "as_frame", "generator_style"):
        with pytest.raises(OptionError, match=f"{name}= is not a sampling option"):
            Workload("capital", capital, COUNTRIES, defaults={name: True})


def test_an_iterator_of_rows_is_there_for_every_run(engine: sgnb.Engine) -> None:
    workload = Workload("capital", capital, (row for row in COUNTRIES))
    found = Measurements(workload, 1)
    bench(executor_of(engine), ["itself"], found)
    assert found.refused == {} and found.rows == 3 and found.done == 1


def test_a_grammar_is_only_for_sglang(engine: sgnb.Engine, server: str, monkeypatch: Any) -> None:
    params = SamplingParams(temperature=0, regex="a+")
    wanted = work(Made("a", ("a",), 1, True), params=params)
    for sglang in (True, False):
        monkeypatch.setattr(Server, "sglang", sglang)
        endpoint = HttpPeer(executor_of(engine), server)
        assert bool(endpoint.refuses(wanted)) != sglang
        endpoint.close()
