"""Programs whose model writes ahead (`num_api_spec_tokens`), over a service on loopback that counts
requests and tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import ApiExecutor, OpenAI
from sgnb.errors import Aborted, OptionError, RequestError, ServiceError

from .service import KEY, Fault, Request, Service

CHARACTER = "Name: Ada Lovelace.\nBirthday: December 10, 1815.\nJob: Countess.\n"
SHOWN = "Name: Steve Jobs.\nBirthday: February 24, 1955.\nJob: Apple CEO.\n"


def follows(text: str):  # type: ignore[no-untyped-def]
    """A model that goes on as `text` does, from as much of it as the prompt ends with."""

    def answer(request: Request) -> str:
        if "messages" in request.body:
            return text
        prompt = str(request.body["prompt"])  # a select sends a list
        at = max(i for i in range(len(text) + 1) if prompt.endswith(text[:i]))
        return text[at:]

    return answer


def completion(spec: int | None):  # type: ignore[no-untyped-def]
    @sgl.function(num_api_spec_tokens=spec)
    def character(s, title="a character"):
        s += f"Construct {title} within the following format:\n" + SHOWN
        s += "\nPlease generate new Name, Birthday and Job.\n"
        s += "Name:" + sgl.gen("name", stop="\n") + "\nBirthday:" + sgl.gen("birthday", stop="\n")
        s += "\nJob:" + sgl.gen("job", stop="\n") + "\n"

    return character


@sgl.function(num_api_spec_tokens=64)
def conversation(s, title="a character"):
    s += sgl.system("You are a helpful assistant.")
    s += sgl.user(f"Construct {title} within the following format:")
    s += sgl.assistant(SHOWN)
    s += sgl.user("Please generate new Name, Birthday and Job.\n")
    s += sgl.assistant(
        "Name:"
        + sgl.gen("name", stop="\n")
        + "\nBirthday:"
        + sgl.gen("birthday", stop="\n")
        + "\nJob:"
        + sgl.gen("job", stop="\n")
    )


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(follows(CHARACTER)) as service:
        yield service


def text(service: Service, **options) -> ApiExecutor:  # type: ignore[no-untyped-def]
    return OpenAI("model", False, base_url=service.url, api_key=KEY, **options)


def chat(service: Service, **options) -> ApiExecutor:  # type: ignore[no-untyped-def]
    return OpenAI("model", base_url=service.url, api_key=KEY, **options)


def fields(state) -> list[str]:  # type: ignore[no-untyped-def]
    return [state[name] for name in ("name", "birthday", "job")]


ANSWERS = [" Ada Lovelace.", " December 10, 1815.", " Countess."]


def test_three_fields_are_one_call_with_a_third_of_the_input(service) -> None:
    alone, ahead = text(service), text(service, prices=(1.0, 2.0))
    expected = completion(None).run(backend=alone)
    assert (fields(expected), len(service.requests)) == (ANSWERS, 3)
    sent, service.prompt_tokens = service.prompt_tokens, 0
    service.requests.clear()

    state = completion(64).run(backend=ahead)
    assert state.text() == expected.text()
    assert len(service.requests) == 1
    assert service.prompt_tokens <= 0.4 * sent
    body = service.requests[0].body
    assert "stop" not in body and body["max_tokens"] == 128

    row = ahead.usage().rows()[-1]
    assert (row["calls"], row["requests"], row["ahead"], row["missed"]) == (3, 1, 2, "0")
    assert abs(row["saved prompt"] - (sent - service.prompt_tokens)) <= 3
    own = sum(
        state.get_meta_info(name)["completion_tokens"] for name in ("name", "birthday", "job")
    )
    assert row["extra completion"] == row["completion"] - own > 0
    saved = (row["saved prompt"] - 2 * row["extra completion"]) / 1e6
    assert row["saved cost"] == pytest.approx(saved)
    assert "extra completion" in repr(ahead.usage()) and "ahead" not in repr(alone.usage())


def test_meta_says_what_was_written_ahead(service) -> None:
    state = completion(64).run(backend=text(service))
    name, job = state.get_meta_info("name"), state.get_meta_info("job")
    assert (name["written_ahead"], name["requests"], name["prompt_tokens"]) == (
        False,
        1,
        service.prompt_tokens,
    )
    assert (job["written_ahead"], job["requests"], job["prompt_tokens"]) == (True, 0, 0)
    assert job["finish_reason"] == {"type": "stop", "matched": "\n"}
    assert job["id"] == name["id"] == "a1"
    assert job["completion_tokens"] == 1


def test_a_turn_of_three_fields_is_one_call(service) -> None:
    model = chat(service)
    state = conversation.run(backend=model)
    assert fields(state) == ANSWERS
    assert state.messages()[-1]["content"] == CHARACTER.rstrip("\n")
    [request] = service.requests
    assert [m["role"] for m in request.body["messages"]] == ["system", "user", "assistant", "user"]
    assert "stop" not in request.body
    assert model.usage().total.ahead == 2


def test_blanks_before_a_turn_do_not_count(service) -> None:
    service.answer = follows("\n\n" + CHARACTER)
    assert fields(conversation.run(backend=chat(service))) == ANSWERS


def test_a_turn_that_begins_otherwise_is_asked_for_and_told(service) -> None:
    answers = ["Sure! Here you go.\n", "Of course:\n", CHARACTER]
    service.answer = lambda request: answers[len(service.requests) - 1]
    model = chat(service)
    assert fields(conversation.run(backend=model)) == ANSWERS
    first, *later = [r.body["messages"][-1]["content"] for r in service.requests]
    assert first == "Please generate new Name, Birthday and Job.\n"
    assert all(one.endswith("exactly this text, and continue after it:\nName:")
               for one in later)  # fmt: skip
    total = model.usage().total
    assert total.retries == {"other beginning": 2}
    assert total.saved < 2 * total.tokens.prompt / 3  # two requests were for nothing


def test_a_turn_that_goes_on_otherwise_is_told_how_it_began(service) -> None:
    def answer(request: Request) -> str:
        if "exactly this text" in request.body["messages"][-1]["content"]:
            return CHARACTER
        return "Name: Ada Lovelace.\nAge: 36\n"

    service.answer = answer
    model = chat(service)
    assert fields(conversation.run(backend=model)) == ANSWERS
    assert "Name: Ada Lovelace.\nBirthday:" in service.requests[1].prompt
    assert (len(service.requests), model.usage().total.missed) == (2, {"other text": 1})


def test_a_turn_that_ends_early_is_told_how_it_began(service) -> None:
    answers = iter(["Name: Ada Lovelace.", CHARACTER])
    service.answer = lambda request: next(answers)
    model = chat(service)
    assert fields(conversation.run(backend=model)) == ANSWERS
    assert "exactly this text" in service.requests[1].prompt
    assert not model.usage().total.missed  # nothing was left to miss


def test_a_model_that_never_keeps_to_the_turn_is_an_error(service) -> None:
    service.answer = lambda request: "I would rather not."
    with pytest.raises(ServiceError, match=r"begins with 'Name:'.*I would rather not"):
        conversation.run(backend=chat(service))["name"]
    assert len(service.requests) == 3

    @sgl.function(num_api_spec_tokens=64)
    def age(s):
        s += sgl.user("How old?") + sgl.assistant("Age: " + sgl.gen("age", regex="[0-9]+"))

    service.answer = lambda request: "Age: unknown"
    with pytest.raises(ServiceError, match="in its format, and the model wrote 'Age: unknown'"):
        age.run(backend=chat(service, format_tries=1))["age"]
    assert len(service.requests) == 4


def test_a_turn_is_gone_on_with_where_the_service_can(service) -> None:
    service.answer = lambda request: follows(CHARACTER)(
        Request("", {"prompt": request.body["messages"][-1]["content"]}, {})
    )
    model = chat(service)
    model.endpoint.continues = True
    assert fields(conversation.run(backend=model)) == ANSWERS
    [request] = service.requests
    assert request.body["messages"][-1] == {"role": "assistant", "content": "Name:"}


def test_a_mismatch_falls_back_and_is_counted(service) -> None:
    texts = iter([" Ada.\nBorn: 1815\n", " 1815.\nJob: Countess.\n"])
    service.answer = lambda request: next(texts)
    model = text(service)
    assert fields(completion(64).run(backend=model)) == [" Ada.", " 1815.", " Countess."]
    total = model.usage().total
    assert (total.calls, total.requests, total.ahead) == (3, 2, 1)
    assert total.missed == {"other text": 1}


def test_an_answer_cut_in_a_later_field_goes_to_a_call(service) -> None:
    @sgl.function(num_api_spec_tokens=8)
    def two(s):
        s += "Name:" + sgl.gen("name", stop="\n", max_tokens=8)
        s += "\nBirthday:" + sgl.gen("birthday", stop="\n", max_tokens=8)

    service.answer = follows("Name: Ada.\nBirthday: a b c d e f g.\n")
    model = text(service)
    state = two.run(backend=model)
    assert (state["name"], state["birthday"]) == (" Ada.", " a b c d e f g.")
    assert model.usage().total.missed == {"too short": 1}
    assert len(service.requests) == 2


def test_a_stop_that_never_comes_leaves_the_field_its_own_limit(service) -> None:
    service.answer = lambda request: " word" * 500

    @sgl.function(num_api_spec_tokens=64)
    def one(s, limit):
        s += "Name:" + sgl.gen("name", stop="\n", max_tokens=limit)

    model = text(service)
    short, long = (one.run(limit, backend=model) for limit in (4, 100))
    assert (short["name"], long["name"]) == (" word" * 4, " word" * 100)
    assert short.get_meta_info("name")["finish_reason"]["type"] == "length"
    total = model.usage().total
    assert (total.requests, total.saved < 0, total.extra) == (3, True, 64)


def test_what_may_not_be_a_part_of_a_longer_text_is_asked_for_alone(service) -> None:
    @sgl.function(num_api_spec_tokens=64)
    def several(s):
        s += "Name:" + sgl.gen("name", stop="\n", n=2)
        s += "\nBirthday:" + sgl.gen("birthday")

    several.run(backend=text(service)).sync()
    assert [r.body.get("stop") for r in service.requests] == [["\n"], None]


def test_other_settings_are_another_call(service) -> None:
    @sgl.function(num_api_spec_tokens=64)
    def two(s):
        s += "Name:" + sgl.gen("name", stop="\n", temperature=0)
        s += "\nBirthday:" + sgl.gen("birthday", stop="\n", temperature=1)

    model = text(service)
    two.run(backend=model).sync()
    assert model.usage().total.missed == {"other settings": 1}
    assert [r.body["temperature"] for r in service.requests] == [0, 1]


def test_formats_are_checked_in_what_was_written(service) -> None:
    service.answer = follows('Age: 36\nMood: "calm"\nData: {"a": [1, 2]}\nEnd')

    @sgl.function(num_api_spec_tokens=64)
    def typed(s):
        s += "Age:" + sgl.gen_int("age") + "\nMood:" + sgl.gen("mood", regex='"[a-z]+"')
        s += "\nData:" + sgl.gen("data", json_schema={"type": "object"}) + "\nEnd"

    model = text(service)
    state = typed.run(backend=model)
    assert (state["age"], state["mood"], state["data"]) == ("36", '"calm"', '{"a": [1, 2]}')
    assert len(service.requests) == 1

    service.requests.clear()
    answers = iter(["36\nMood: happy", '"calm"'])
    service.answer = lambda request: next(answers, '{"a": 1}')
    assert typed.run(backend=model)["mood"] == '"calm"'
    assert model.usage().total.missed == {"format": 1}


def test_a_select_is_what_the_model_wrote(service) -> None:
    service.answer = follows("Name: Ada.\nMood: calmer\nWhy: none.\n")
    service.scores = False

    @sgl.function(num_api_spec_tokens=64)
    def mood(s, choices):
        s += "Name:" + sgl.gen("name", stop="\n") + "\nMood: " + sgl.select("mood", choices)
        s += "\nWhy:" + sgl.gen("why", stop="\n")

    model = text(service)
    state = mood.run(["calm", "calmer", "angry"], backend=model)
    assert (state["mood"], state["why"], len(service.requests)) == ("calmer", " none.", 1)
    assert state.get_meta_info("mood")["written_ahead"]
    mood.run(["calm", "angry"], backend=model).sync()  # "calmer" is not "calm"
    assert model.usage().total.missed["no choice"] == 1


def test_a_select_in_a_turn_that_went_otherwise_is_a_clear_error(service) -> None:
    service.answer = lambda request: "Name: Ada.\nMood: fine\n"

    @sgl.function(num_api_spec_tokens=64)
    def mood(s):
        s += sgl.user("Who?")
        s += sgl.assistant(
            "Name:" + sgl.gen("name", stop="\n") + "\nMood: " + sgl.select("mood", ["sad", "glad"])
        )

    state = mood.run(backend=chat(service))
    assert state["name"] == " Ada."
    with pytest.raises(ServiceError, match=r"one of \['sad', 'glad'\].*fine"):
        state["mood"]


@pytest.mark.slow
def test_a_batch_of_fifty_rows(service) -> None:
    service.answer = lambda request: follows(
        CHARACTER.replace("Ada", request.prompt.split("Construct ")[1].split()[0])
    )(request)
    model = text(service, max_parallel=8)
    states = completion(64).run_batch([{"title": f"row{i}"} for i in range(50)], backend=model)
    assert [s["name"] for s in states] == [f" row{i} Lovelace." for i in range(50)]
    assert all(s["job"] == " Countess." for s in states)
    assert len(service.requests) == 50
    [row, _] = model.usage().rows()
    assert (row["calls"], row["requests"], row["ahead"]) == (150, 50, 100)
    assert all(state.program.root.lookahead.unused is None for state in states)


@pytest.mark.parametrize("make", [chat, text])
def test_streams(service, make) -> None:
    service.delay = 0.02
    program = conversation if make is chat else completion(200)
    state = program.run(backend=make(service), stream=True)
    pieces = list(state.text_iter("name"))
    assert "".join(pieces) == " Ada Lovelace."
    assert len(pieces) > 1 or make is text  # may be longer than its max_tokens until it stops
    assert list(state.text_iter("job")) == [" Countess."]
    assert len(service.requests) == 1


def test_a_streamed_field_is_told_no_more_than_it_is(service) -> None:
    service.answer = lambda request: " word" * 50

    @sgl.function(num_api_spec_tokens=64)
    def one(s):
        s += "Name:" + sgl.gen("name", stop="\n", max_tokens=4)

    state = one.run(backend=text(service), stream=True)
    assert "".join(state.text_iter("name")) == " word" * 4 == state["name"]


def test_forks_do_not_share_what_was_written(service) -> None:
    @sgl.function(num_api_spec_tokens=64)
    def forked(s):
        s += "Name:" + sgl.gen("name", stop="\n")
        forks = s.fork(2)
        forks += "\nBirthday:" + sgl.gen("birthday", stop="\n")
        forks += "\nJob:" + sgl.gen("job", stop="\n")
        forks.join()
        s += "\nBirthday:" + sgl.gen("own", stop="\n")

    state = forked.run(backend=text(service))
    assert state["job"] == [" Countess."] * 2
    assert state["own"] == " December 10, 1815."  # the branch has kept it
    assert len(service.requests) == 3


def test_two_models_do_not_share_what_was_written(service) -> None:
    with Service(lambda request: " 1999.\nJob: Clown.\n") as second:
        other = text(second)

        @sgl.function(num_api_spec_tokens=64)
        def both(s):
            s += "Name:" + sgl.gen("name", stop="\n")
            s += "\nBirthday:" + sgl.gen("birthday", stop="\n", backend=other)
            s += "\nJob:" + sgl.gen("job", stop="\n")

        service.answer = lambda request: (
            " Countess.\n" if "1999" in request.prompt else " Ada Lovelace.\nBirthday: 1815.\n"
        )
        state = both.run(backend=text(service))
        assert fields(state) == [" Ada Lovelace.", " 1999.", " Countess."]
        assert (len(service.requests), len(second.requests)) == (2, 1)


def test_a_refused_request_is_sent_again(service) -> None:
    service.fail(Fault("status", 429, (("Retry-After", "0"),)), Fault("kill"))
    model = text(service)
    assert fields(completion(64).run(backend=model)) == ANSWERS
    total = model.usage().total
    assert (total.calls, total.requests, total.ahead) == (3, 3, 2)
    assert sum(total.retries.values()) == 2


def test_an_interrupt_keeps_what_came(service) -> None:
    service.delay = 0.1
    model = text(service)
    state = completion(64).run(backend=model, stream=True)
    first = next(iter(state.text_iter("name")))
    state.cancel()
    with pytest.raises(Aborted):
        state["job"]
    assert state.text().endswith(first.strip())
    assert model.usage().total.stopped == 1


def test_nothing_is_left_of_an_error(service) -> None:
    service.fail(Fault("status", 400))
    state = completion(64).run(backend=text(service))
    with pytest.raises(ServiceError):
        state["name"]
    assert state.program.root.lookahead.unused is None


def test_compiled_programs_speculate(service) -> None:
    for program, make in ((completion(64), text), (conversation, chat)):
        service.requests.clear()
        compiled = program.compile()
        assert fields(compiled.run(backend=make(service))) == ANSWERS
        assert len(service.requests) == 1


def test_a_program_that_is_called_by_another_speculates(service) -> None:
    inner = completion(64)

    def outer(s):
        s["job"] = inner.run(backend=model)["job"]

    model = text(service)
    assert sgl.function(outer).run(backend=model)["job"] == " Countess."
    assert len(service.requests) == 1


def test_without_speculation_a_turn_of_fields_is_refused(service) -> None:
    program = sgl.function(conversation.func)
    with pytest.raises(RequestError, match="num_api_spec_tokens"):
        program.run(backend=chat(service))["name"]
    with pytest.raises(OptionError, match="num_api_spec_tokens=0"):
        sgl.function(num_api_spec_tokens=0)(conversation.func)


def test_token_usage_counts_since_its_reset(service) -> None:
    model = text(service)
    completion(64).run(backend=model).sync()
    usage = model.token_usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        service.prompt_tokens,
        service.completion_tokens,
    )
    usage.reset()
    assert (usage.prompt_tokens, usage.completion_tokens) == (0, 0)
