"""Downloads, over a server on loopback, which counts as public here."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sgnb.errors import MediaError
from sgnb.media import Image, read_image
from sgnb.media import download as module

from .test_readers import PIXELS, PNG


class Server:
    """Answers each path by a function of the handler."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                outer.answers[self.path](self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path: str = "/x.png", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer(
    data: bytes = PNG, status: int = 200, length: int | None = None, **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if length != -1:
            handler.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return send


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(module, "is_public", lambda address: address.is_loopback)
    yield server
    server.close()


@pytest.mark.parametrize("length", [None, -1])
def test_an_image_is_downloaded(server: Server, length: int | None) -> None:
    server.answers["/a/x.png?y=1"] = answer(length=length)
    assert read_image(server.url("/a/x.png?y=1"), fetch=True) == Image(PIXELS)
    assert server.headers[0]["accept-encoding"] == "identity"
    assert server.headers[0]["host"] == f"127.0.0.1:{server.port}"
    assert not {"cookie", "authorization", "referer"} & server.headers[0].keys()


def test_nothing_is_sent_without_fetch(server: Server) -> None:
    with pytest.raises(MediaError, match=r"downloads are off\n  hint: pass image.x, fetch=True"):
        read_image(server.url())
    assert not server.headers


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (answer(status=302, Location="http://169.254.169.254/"), "redirects to .*169.254"),
        (answer(status=301, Location="/y.png"), "redirects to '/y.png'"),
        (answer(b"no", status=404), "answered 404"),
        (answer(b"no", status=500), "answered 500"),
        (answer(status=206), "answered 206"),
        (answer(b""), "no content"),
        (answer(b"<html>"), "not an image"),
        (answer(b"x", length=20_000_001), "more than 20 MB"),
        (answer(bytes(20_000_001), length=-1), "more than 20 MB"),
        (answer(PNG, length=len(PNG) + 5), "ended before its end"),
        (answer(PNG, Content_Encoding="gzip"), "the encoding 'gzip'"),
        (answer(PNG[:50]), "cannot be decoded"),
    ],
)
def test_answers_that_are_refused(server: Server, send: Callable, message: str) -> None:
    server.answers["/x.png"] = send
    with pytest.raises(MediaError, match=message) as caught:
        read_image(server.url(), fetch=True)
    assert caught.value.hint and str(server.port) in caught.value.message
    assert len(server.headers) == 1, "a redirect is not followed"


@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_answer_that_drips_ends(
    server: Server, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.5)
    drops = []

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        if part == "body":
            handler.wfile.write(b"\r\n")
        for _ in range(100):
            time.sleep(0.1)
            drops.append(b"a")
            handler.wfile.write(drops[-1])
            handler.wfile.flush()

    server.answers["/x.png"] = drip
    with pytest.raises(MediaError, match="cannot be downloaded"):
        read_image(server.url(), fetch=True)
    assert len(drops) < 50


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "240.0.0.1",
        "::", "::1", "fe80::1", "fc00::1", "fd12::3", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe", "2001:db8::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not module.is_public(ipaddress.ip_address(address))
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def resolve(host: str, port: int, **_: object) -> list:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port)),
            (family, socket.SOCK_STREAM, 6, "", (address, port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: pytest.fail("connected"))
    with pytest.raises(MediaError, match="which is not public"):
        read_image("http://images.example.org/x.png", fetch=True)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert module.is_public(ipaddress.ip_address(address))


def test_the_checked_address_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that gives a private address the second time has no effect."""
    asked = []

    def resolve(host: str, port: int, **_: object) -> list:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    real = socket.create_connection
    connected = []

    def connect(address: tuple[str, int], **options: object) -> socket.socket:
        connected.append(address)
        monkeypatch.undo()
        return real(address, **options)

    monkeypatch.setattr(module, "is_public", lambda address: True)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    server.answers["/x.png"] = answer()
    assert read_image(server.url(host="picture.example"), fetch=True) == Image(PIXELS)
    assert asked == ["picture.example"] and connected == [("127.0.0.1", server.port)]
    assert server.headers[0]["host"] == f"picture.example:{server.port}"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://user:secret@example.org/x.png", "has a user name"),
        ("http:///x.png", "is not valid"),
        ("http://example.org:99999/x.png", "is not valid"),
        ("http://exa mple.org/", "is not valid"),
        ("http://example.org/\r\nHost: x", "is not valid|not a path"),
        ("http://[::1/x.png", "is not valid"),
        ("ftp://example.org/x.png", "No such file"),
        ("file:///etc/passwd", "No such file"),
    ],
)
def test_odd_urls(url: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: pytest.fail("connected"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: pytest.fail("resolved"))
    with pytest.raises(MediaError, match=message) as caught:
        read_image(url, fetch=True)
    assert "secret" not in str(caught.value)
    with pytest.raises(MediaError) as caught:
        read_image(url)
    assert "secret" not in str(caught.value)


def test_https_checks_the_certificate(server: Server) -> None:
    with pytest.raises(MediaError, match="cannot be downloaded"):
        read_image(server.url().replace("http:", "https:"), fetch=True)
