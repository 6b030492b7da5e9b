"""The other side of a socket is untrusted: bounded frames, typed errors, no evaluation."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.backends.remote import client_session as session
from sgnb.backends.remote import wire
from sgnb.backends.remote.client import HostClient, host_clock_offset
from sgnb.backends.remote.engine_host import engine_facts
from sgnb.backends.remote.event_wire import WireEvent, decode_event
from sgnb.backends.remote.item_wire import WireItem, read_item, write_item
from sgnb.backends.remote.output_wire import EMPTY, WireOutput, decode_output, encode_output
from sgnb.backends.remote.registry import (
    HostRecord,
    choose,
    find_hosts,
    folder,
    read_record,
    write_record,
)
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.backends.remote.request_wire import WireRequests, read_params, write_params
from sgnb.backends.remote.step_wire import FromHost, WireStep
from sgnb.backends.remote.wire import (
    Ask,
    Connection,
    Reply,
    WireError,
    WireFailure,
    error_of,
    failure_of,
)
from sgnb.engine import Engine, Output
from sgnb.engine.cache.sequence import SHARED
from sgnb.engine.request.output import TokenRecord
from sgnb.engine.request.request_state import NO_ORIGIN
from sgnb.errors import EngineError, GrammarError, OptionError, RequestError
from sgnb.events import EVENT_KINDS, RecordsLost, TextStreamed
from sgnb.media.items import Audio, Image, Video
from sgnb.sampling import SamplingParams

from .conftest import TOKEN, dial

Attach = Callable[[], RemoteEngine]


def pair() -> tuple[Connection, socket.socket]:
    one, two = socket.socketpair()
    one.settimeout(20.0)
    two.settimeout(20.0)
    return Connection(one, "the test"), two


def test_a_large_frame_is_refused_before_memory_is_taken() -> None:
    connection, other = pair()
    other.sendall(struct.pack(">I", wire.MAX_FRAME + 1))
    with pytest.raises(WireError, match="exceeds"):
        connection.receive()
    connection.close()
    other.close()


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x05ab"])
def test_a_cut_frame_is_an_end(data: bytes) -> None:
    connection, other = pair()
    other.sendall(data)
    other.close()
    with pytest.raises(EOFError):
        connection.receive()
    connection.close()


ANY_DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text()
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=50)
@given(st.binary(max_size=60) | ANY_DATA.map(msgspec.msgpack.encode))
def test_any_message_decodes_or_is_a_wire_error(frame: bytes) -> None:
    for kind in (Ask, FromHost, wire.Hello, wire.Welcome | Reply):
        try:
            wire.decoder(kind, "the test")(frame)
        except WireError as error:
            assert "the test" in error.message


@given(st.sampled_from(sorted(EVENT_KINDS)), st.lists(ANY_DATA, max_size=12))
def test_any_event_decodes_or_is_a_wire_error(kind: str, values: list[Any]) -> None:
    try:
        event = decode_event(WireEvent(0.0, kind, values))
    except WireError:
        return
    assert type(event) is EVENT_KINDS[kind]


@settings(max_examples=30)
@given(method=st.text(max_size=12) | st.sampled_from(
    [*session.PLAIN_METHODS, *session.STEPPER_METHODS, "submit", "abort",
     "abort_submission", "add_item", "drop_item", "find_part_order", "grammar_spec",
     "seam_warnings", "__class__", "close"]),
    arguments=st.lists(ANY_DATA, max_size=8))  # fmt: skip
def test_a_host_survives_any_call(
    engine: Engine, address: str, tokenizer: Any, method: str, arguments: list[Any]
) -> None:
    if method in ("pause", "restore_pins"):
        return
    client = RemoteEngine(dial(address), TOKEN, "fuzz", tokenizer)
    try:
        client._client.call(method, *arguments)
    except (EngineError, ValueError):  # typed: refused, or the connection ended
        pass
    finally:
        client.close()
    assert not engine.closed


def test_a_wrong_token_is_refused(address: str, tokenizer: Any) -> None:
    with pytest.raises(WireError, match="token"):
        RemoteEngine(dial(address), "another", "test", tokenizer)


def test_another_version_is_refused(address: str) -> None:
    connection = Connection(dial(address), "test")
    connection.receive()
    connection.send_now(wire.Hello(99, b"", b""))
    reply = wire.decoder(Reply, "test")(connection.receive())
    assert reply.failure.kind == "WireError" and "version 99" in reply.failure.message
    connection.close()


def test_a_false_host_is_refused(engine: Engine) -> None:
    """A host without the token learns no token from a client, and cannot pass as the host."""
    one, two = socket.socketpair()

    def impostor() -> None:
        connection = Connection(two, "client")
        connection.send_now(wire.Challenge(wire.VERSION, b"n" * 32))
        hello = connection.receive()
        assert TOKEN.encode() not in hello
        facts = engine_facts(engine, "tiny")
        connection.send_now(wire.Welcome(b"x" * 32, 1, 0.0, facts))

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(WireError, match="token"):
        RemoteEngine(one, TOKEN, "impostor")
    thread.join()
    two.close()


def test_a_silent_peer_is_no_client(address: str, attach: Attach) -> None:
    sock = dial(address)
    assert attach().stats()["free"] > 0
    sock.close()


def test_a_slow_client_loses_events_and_no_result(
    engine: Engine, address: str, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not read delays nobody; later it gets each result, and a count of lost
    events."""
    sock = dial(address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow, quick = Connection(sock, "the host"), attach()
    wire.greet_host(slow, TOKEN)
    requests = WireRequests(
        first_tag=1,
        prompts=[np.array([5, 6], np.int32).tobytes()] * 8,
        params=[{"max_new_tokens": 3, "ignore_eos": True}],
        which=[0] * 8,
        stream=True,
        origins=[NO_ORIGIN] * 8,
        cache_scopes=[SHARED] * 8,
        given_outputs=[[]] * 8,
    )
    monkeypatch.setattr(engine.log, "_spare", 1_000_000)  # the log soon drops records
    for _ in range(100):
        engine.log.emit(TextStreamed("", "", "x" * 50_000))
    slow.send_now(Ask(1, "submit", [requests]))
    assert quick.generate("a neighbour", max_new_tokens=3).finish_reason in ("length", "stop")

    decode = wire.decoder(FromHost, "the host")
    ends, lost = set[int](), 0
    while len(ends) < 8:
        message = decode(slow.receive())
        if isinstance(message, WireStep):
            lost += message.lost
            ends |= {output.tag for output in message.outputs if output.finish_reason == "length"}
    assert ends == set(range(1, 9)) and lost > 0
    slow.close()


def test_lost_records_are_reported(engine: Engine, attach: Attach) -> None:
    remote = attach()
    remote._receive(7, [], [])
    assert RecordsLost(7) in [record.event for record in remote.log.read().records]


def test_a_lost_host_ends_waiting_calls() -> None:
    one, two = socket.socketpair()
    ends: list[EngineError] = []
    client = HostClient(Connection(one, "engine host 'h'"), lambda *step: None, ends.append)
    client.start()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            client.call("stats")
        except EngineError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    two.recv(10)
    two.close()
    thread.join(20)
    assert "engine host 'h'" in str(errors[0]) and "sgnb.load" in str(errors[0])
    assert ends and errors[0] is not ends[0]
    with pytest.raises(EngineError, match="lost"):
        client.call("stats")


@pytest.mark.parametrize(
    "error", [RequestError("a", "b"), GrammarError("c"), EngineError("d", "e")], ids=type
)
def test_errors_survive(error: Any) -> None:
    other = error_of(failure_of(error))
    assert (type(other), other.message, other.hint) == (type(error), error.message, error.hint)


def test_unknown_errors_are_engine_errors() -> None:
    for kind in ("KeyError", "SystemExit", "annotations", "traceback", "warnings", "shown"):
        assert type(error_of(WireFailure(kind, "x"))) is EngineError


TEXTS = st.text(max_size=8)
OUTPUTS = st.builds(
    Output,
    text=TEXTS,
    token_ids=st.lists(st.integers(0, 9), max_size=5),
    prompt_tokens=st.integers(0, 9),
    cached_tokens=st.integers(0, 9),
    finish_reason=st.sampled_from([None, "stop"]),
    stopped_by=st.none() | st.integers(0, 9) | TEXTS,
    logprobs=st.lists(st.floats(-9, 0), max_size=5),
    prompt_logprobs=st.lists(st.none() | st.floats(-9, 0), max_size=3),
    top_logprobs=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.floats(-9, 0)), max_size=2), max_size=2
    ),
    records=st.lists(
        st.builds(
            TokenRecord,
            st.just("free"),
            TEXTS,
            *[st.just(-1)] * 2,
            st.just(0),
            logprob=st.none() | st.floats(-9, 0),
            masked_logprob=st.none() | st.floats(-9, 0),
        ),
        max_size=3,
    ),
    reasoning=TEXTS,
    id=st.just("3"),
)


@settings(max_examples=40)
@given(st.lists(OUTPUTS, min_size=1, max_size=4))
def test_streams_of_differences_restore_each_output(outputs: list[Output]) -> None:
    sent = received = EMPTY
    for output in outputs:
        data = msgspec.msgpack.encode(encode_output(1, output, sent))
        restored = decode_output(
            msgspec.msgpack.decode(data, type=WireOutput), SamplingParams(), None, received
        )
        for name in ("text", "token_ids", "logprobs", "top_logprobs", "records", "stopped_by"):
            assert getattr(restored, name) == getattr(output, name)
        sent, received = output, restored


def test_an_output_that_does_not_fit_is_refused() -> None:
    data = encode_output(1, Output("ab", [1, 2], 1, 0, None), Output("a", [1], 1, 0, None))
    with pytest.raises(ValueError, match="kept"):
        decode_output(data, SamplingParams(), None)


def test_parameters_survive() -> None:
    params = SamplingParams(
        stop=("a", "b"), logit_bias=((1, 2.0),), seed=2**64 + 3, regex="[a-z]", thinking="</t>",
        stop_token_ids=(4,), max_new_tokens=7,
    )  # fmt: skip
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(write_params(params)))
    assert read_params(data) == replace(params, seed=3)
    with pytest.raises(OptionError):
        read_params({"temperature": -1})
    with pytest.raises(OptionError):
        read_params({"temperature": "hot"})


ITEMS = [
    Image(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)),
    Video(np.zeros((2, 2, 2, 3), np.uint8), [0.0, 0.5]),
    Audio(np.linspace(-1, 1, 5, dtype=np.float32), 8000),
]


@pytest.mark.parametrize("item", ITEMS, ids=["image", "video", "audio"])
def test_media_survive(item: Any) -> None:
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(write_item(item)), type=WireItem)
    assert read_item(data) == item and read_item(data).digest == item.digest


@pytest.mark.parametrize(
    "item",
    [
        WireItem("image", [2, 2, 3], b"short"),
        WireItem("image", [-1, 2, 3], bytes(12)),
        WireItem("image", [0, 0, 3], b""),
        WireItem("video", [1, 1, 1, 3], bytes(3), b"1234567"),
        WireItem("audio", [1], bytes(4), rate=-5),
    ],
    ids=["short", "negative", "empty", "times", "rate"],
)
def test_invalid_media_are_refused(item: WireItem) -> None:
    with pytest.raises(WireError):
        read_item(item)


def test_clocks_of_one_machine_are_one() -> None:
    assert host_clock_offset(1.5, 1.0, 2.0) == 0.0
    assert host_clock_offset(100.0, 1.0, 2.0) == pytest.approx(-98.5)


class TestRegistry:
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SGNB_HOSTS", str(tmp_path / "hosts"))

    def record(self, name: str, pid: int = os.getpid()) -> HostRecord:
        return HostRecord(name, "unix:/none", "t", pid, "tiny", "{}", "host")

    def test_the_folder_is_the_users_alone(self) -> None:
        assert not find_hosts()
        assert not (folder().stat().st_mode & 0o077)
        path = write_record(self.record("a"))
        assert not (path.stat().st_mode & 0o077)
        folder().chmod(0o755)
        with pytest.raises(EngineError, match="other users"):
            folder()

    def test_a_link_is_refused(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        real = tmp_path / "real"
        real.mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(real)
        monkeypatch.setenv("SGNB_HOSTS", str(tmp_path / "link"))
        with pytest.raises(EngineError):
            folder()

    def test_dead_hosts_are_forgotten(self) -> None:
        write_record(self.record("alive"))
        write_record(self.record("dead", 2**22 - 3))
        assert [host.name for host in find_hosts()] == ["alive"]
        assert read_record("dead") is None
        assert choose("").name == "alive"

    def test_names_are_explained(self) -> None:
        with pytest.raises(OptionError, match="no engine host is running"):
            choose("")
        for name in ("tiny-a", "tiny-b"):
            write_record(self.record(name))
        with pytest.raises(OptionError, match="several"):
            choose("")
        with pytest.raises(OptionError, match="did you mean 'tiny-a'"):
            choose("tiny-aa")

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 3}', "x" * 20, "\x00"])
    def test_damaged_records_are_absent(self, text: str) -> None:
        (folder() / "bad.json").write_text(text)
        assert read_record("bad") is None and find_hosts() == []
