"""Guards of HTTP clients: each library that openai or litellm may use is guarded, whatever the
options of the client, and a guarded response is within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.api.client_guard import Refusal, guard_class, guard_libraries, guarded
from sgnb.backends.api.transport import guarded_http_client
from sgnb.errors import OptionError, ServiceError

from .attacks import KEY
from .hostile import HostileService

pytest.importorskip("litellm")

REFUSED = {
    "redirect-307": "redirects the request to",
    "redirect-301": "redirects the request to",
    "bomb": "sent a compressed answer",
    "endless-document": "has more than 8,388,608 bytes",
    "endless-values": "arrays and objects",
    "endless-error": "has more than 65,536 bytes",
}
"""Attacks and the reason for which a guarded client refuses the response."""


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[HostileService]:
    service = HostileService(tmp_path_factory.mktemp("hostile") / "file")
    yield service
    service.close()


async def _post_async(make_client: Callable[[], Any], url: str) -> None:
    async with make_client() as client:
        await client.post(url, json={"prompt": "secret"})


async def _post_sync(make_client: Callable[[], Any], url: str) -> None:
    with make_client() as client:
        client.post(url, json={"prompt": "secret"})


async def _stream_async(make_client: Callable[[], Any], url: str) -> None:
    async with make_client() as client, client.stream("POST", url, json={}) as response:
        async for _ in response.aiter_bytes():
            pass


async def _stream_sync(make_client: Callable[[], Any], url: str) -> None:
    with make_client() as client, client.stream("POST", url, json={}) as response:
        for _ in response.iter_bytes():
            pass


POSTS = {
    ("AsyncClient", "post"): _post_async,
    ("AsyncClient", "stream"): _stream_async,
    ("Client", "post"): _post_sync,
    ("Client", "stream"): _stream_sync,
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", REFUSED)
@pytest.mark.parametrize(("class_name", "method"), POSTS)
@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_the_clients_of_litellm_are_guarded(service, name, class_name, method, attack) -> None:
    library = pytest.importorskip(name)
    guard_libraries()
    make_client = partial(getattr(library, class_name), follow_redirects=True, timeout=10)
    _check_refusal(partial(POSTS[class_name, method], make_client), service, attack)


@pytest.mark.parametrize("attack", REFUSED)
def test_the_client_of_openai_is_guarded(service, attack) -> None:
    assert guarded_http_client().follow_redirects is False
    _check_refusal(partial(_post_async, partial(guarded_http_client, timeout=10)), service, attack)


@pytest.mark.parametrize("attack", ["redirect-307", "redirect-301", "bomb"])
def test_sessions_of_aiohttp_are_guarded(service, attack) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    guard_libraries()

    async def post(url: str) -> None:
        async with aiohttp.ClientSession() as session, session.post(url, json={}):
            pass

    _check_refusal(post, service, attack)


def _check_refusal(post: Callable[[str], Any], service: HostileService, attack: str) -> None:
    async def post_guarded() -> None:
        with guarded():
            await post(f"{service.url}/{attack}/v1")

    with pytest.raises(Refusal, match=REFUSED[attack]):
        asyncio.run(post_guarded())
    assert _hits(service) == 0


def _hits(service: HostileService) -> int:
    """Return the number of connections to the other host."""
    httpx = pytest.importorskip("httpx")
    return int(httpx.get(f"{service.url}/hits").json()["hits"])


def test_a_client_that_follows_redirects_in_spite_of_the_option(service) -> None:
    """The last guard: a refused response instead of the answer of another host."""
    httpx: Any = pytest.importorskip("httpx")

    class Stubborn(httpx.AsyncClient):
        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **options)
            elsewhere = httpx.Response(200, request=httpx.Request("GET", "http://elsewhere"))
            elsewhere.history = [response]
            return elsewhere

    def follow(request: Any) -> Any:
        return httpx.Response(307, headers={"location": "http://elsewhere"})

    guard_class(Stubborn)
    transport = httpx.MockTransport(follow)
    post = partial(_post_async, partial(Stubborn, transport=transport))
    with pytest.raises(Refusal, match="redirects the request to elsewhere"), guarded():
        asyncio.run(post("http://here"))


def test_outside_of_the_guard_nothing_changes(service) -> None:
    httpx = pytest.importorskip("httpx")
    guard_libraries()
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        if request.url.host == "here":
            return httpx.Response(307, headers={"location": "http://there"})
        return httpx.Response(200, text="a")

    with httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
        assert client.get("http://here").text == "a"
    assert [request.url.host for request in seen] == ["here", "there"]
    assert "gzip" in seen[0].headers["accept-encoding"]


def test_a_class_is_wrapped_once() -> None:
    httpx = pytest.importorskip("httpx")
    guard_class(httpx.AsyncClient)
    guarded_send = httpx.AsyncClient.send
    guard_class(httpx.AsyncClient)
    guard_class(type("Derived", (httpx.AsyncClient,), {}))
    assert httpx.AsyncClient.send is guarded_send


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_the_http_client_of_a_user_is_guarded(service, name) -> None:
    library: Any = pytest.importorskip(name)

    class Own(library.AsyncClient):
        async def send(self, request: Any, **options: Any) -> Any:
            return await super().send(request, **options)

    for client in (Own(follow_redirects=True), library.AsyncClient(follow_redirects=True)):
        url = f"{service.url}/redirect-307/v1"
        try:
            model = sgl.OpenAI("m", True, base_url=url, api_key=KEY, http_client=client, tries=1)
        except OptionError as error:
            assert "Invalid `http_client` argument" in error.message
            pytest.skip(f"the installed openai takes no client of {name}")
        with pytest.raises(ServiceError, match="redirects are not followed"):
            _ask.run(backend=model).sync()
        model.close()
    assert _hits(service) == 0


@sgl.function
def _ask(s: Any) -> None:
    s += sgl.user("Count.") + sgl.assistant(sgl.gen("a", max_tokens=16))


def test_an_unknown_http_client_is_refused() -> None:
    with pytest.raises(OptionError, match="no method send"):
        sgl.OpenAI("m", True, base_url="http://localhost:1/v1", http_client=object())
