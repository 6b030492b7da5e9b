"""`RuntimeEndpoint` says to an SGLang server what the reference's does, and gives what an engine
here gives."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.errors import OptionError, ServiceError

from .service import Service
from .sglang_service import KEY, TINY, SGLangService


@pytest.fixture(scope="module")
def engine():
    with sgl.Engine("tiny") as engine:
        yield engine


@pytest.fixture
def service(engine):
    service = SGLangService(engine)
    yield service
    service.close()


@pytest.fixture
def backend(service):
    return sgl.RuntimeEndpoint(service.url, KEY, chat_template=TINY)


@sgl.function
def talk(s, **options):
    s += sgl.user("What is the capital of Japan?")
    s += sgl.assistant(sgl.gen("a", max_tokens=16, temperature=0, **options))
    s += sgl.user("Say it as a number.")
    s += sgl.assistant("It is " + sgl.gen("b", dtype=int, max_tokens=8, temperature=0))


@pytest.mark.parametrize("stream", [False, True])
def test_a_program_gives_what_it_gives_here(engine, backend, stream) -> None:
    here, there = talk.run(backend=engine), talk.run(backend=backend, stream=stream)
    assert there.text() == here.text()
    if stream:
        assert len(list(there.text_iter("a"))) >= 1
    own, other = here.get_meta_info("a"), there.get_meta_info("a")
    for key in ("prompt_tokens", "completion_tokens", "finish_reason"):
        assert other[key] == own[key]
    assert backend.usage().total.tokens.completion > 0


@pytest.mark.parametrize(
    "options",
    [
        {"regex": "[A-Z][a-z]+"},
        {"regex": " [A-Z][a-z]+ "},
        {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        {"ebnf": 'root ::= "yes" | "no"'},
        {"return_logprob": True, "top_logprobs_num": 2, "return_text_in_logprobs": True},
        {"seed": 3, "min_tokens": 2, "stop_regex": "x", "ignore_eos": True},
    ],
)
def test_options_pass_through(engine, backend, options) -> None:
    @sgl.function
    def ask(s):
        s += "The capital of Japan is " + sgl.gen("a", max_tokens=12, **options)

    here, there = ask.run(temperature=0, backend=engine), ask.run(temperature=0, backend=backend)
    assert there["a"] == here["a"]
    own, other = here.get_meta_info("a"), there.get_meta_info("a")
    if "return_logprob" in options:
        rows = own["output_token_logprobs"]
        assert [row[1:] for row in other["output_token_logprobs"]] == [list(r[1:]) for r in rows]
        assert [len(top) for top in other["output_top_logprobs"]] == [2] * len(rows)


METHODS = [
    sgl.token_length_normalized,
    sgl.greedy_token_selection,
    sgl.unconditional_likelihood_normalized,
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prompt", ["The capital of Japan is", "x" * 3 + " The capital is "])
def test_choices_are_scored_on_their_own_tokens(engine, backend, method, prompt) -> None:
    @sgl.function
    def choose(s):
        s += prompt
        s += sgl.select("c", [" Paris", " Tokyo", " Tokyo and Kyoto"], choices_method=method)

    here, there = choose.run(backend=engine), choose.run(backend=backend)
    assert there["c"] == here["c"]
    own, other = here.get_meta_info("c"), there.get_meta_info("c")
    assert [s.tokens for s in other["choice_scores"]] == [s.tokens for s in own["choice_scores"]]
    assert other["scores"] == pytest.approx(own["scores"], abs=0.02)


def test_nothing_before_the_choices(backend) -> None:
    @sgl.function
    def choose(s):
        s += sgl.select("c", ["Paris", "Tokyo"])

    with pytest.raises(sgl.errors.RequestError, match="no text before its choices"):
        choose.run(backend=backend)["c"]


def test_the_server(service, backend) -> None:
    assert sgl.get_server_info(backend) == {"model": "tiny", "version": "0.5.10"}
    sgl.flush_cache(backend)
    assert service.flushed == 1
    assert KEY not in repr(backend)


def test_the_wrong_address(service) -> None:
    with pytest.raises(ServiceError, match="refused") as caught:
        sgl.RuntimeEndpoint(service.url, "sk-another-key")
    assert "sk-another-key" not in str(caught.value)
    with Service() as other, pytest.raises(ServiceError):
        sgl.RuntimeEndpoint(other.url)
    with pytest.raises(ServiceError, match="check that the server runs"):
        sgl.RuntimeEndpoint("http://127.0.0.1:9")


def test_what_only_an_engine_takes(backend) -> None:
    with pytest.raises(OptionError, match="does not support thinking"):
        talk.run(thinking=True, regex="a", backend=backend)["a"]
