"""Clients of the package `openai`, the HTTP transport of OpenAI and SGLang endpoints."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ...errors import OptionError, ServiceError
from .endpoint import Failure
from .failures import missing, translated
from .guard import install
from .loop import LoopThread
from .secrets import Secrets

SHORTEST_SECRET = 8
"""Minimum number of characters of a secret in a header; "Bearer" and language names are shorter."""


def package() -> Any:
    try:
        import openai
    except ImportError as error:
        missing("openai", error)
    install()
    return openai


def make_client(
    base_url: str | None, api_key: str | None, options: dict[str, Any], is_azure: bool = False
) -> Any:
    """Return an async client without retries or timeout. Raises OptionError."""
    openai = package()
    if base_url is not None and api_key is None and "OPENAI_API_KEY" not in os.environ:
        api_key = "none"  # the client requires a key, local servers do not
    make = openai.AsyncAzureOpenAI if is_azure else openai.AsyncOpenAI
    place = {} if base_url is None else {"base_url": base_url}
    try:
        client = make(api_key=api_key, max_retries=0, timeout=None, **place, **options)
    except Exception as error:  # invalid options, or proxies and certificates of the environment
        hint = "give api_key=, or set OPENAI_API_KEY; other options are those of openai.AsyncOpenAI"
        raise OptionError(f"no client can be made: {error}", hint) from None
    if client.base_url.scheme not in ("http", "https") or not client.base_url.host:
        message = f"base_url={place_of(client)!r} is no address"
        raise OptionError(message, 'give it with its scheme: "http://localhost:8000/v1"')
    if not (client.api_key.isascii() and client.api_key.isprintable()):
        raise OptionError("the API key has characters that no key has", "is a line's end in it?")
    return client


def get(client: Any, path: str, seconds: float) -> Any:
    """Return the JSON at a path, and close the client.

    Args:
        client: From `make_client`.
        seconds: For the whole answer.

    Raises:
        ServiceError: No JSON came in time.
    """
    place = f"the server at {place_of(client)}"

    async def ask() -> Any:
        with translated(place, secrets_of(client)):
            async with asyncio.timeout(seconds):
                return await client.get(path, cast_to=object)

    loop = LoopThread("sgnb-api-get", client.close)
    try:
        return loop.run(ask)
    except Failure as failure:
        message = failure.error.message
    finally:
        loop.close()
    raise ServiceError(message, "is the server up, and is this its address?")


def secrets_of(client: Any) -> Secrets:
    """Return the key of a client, and the words of its headers and address."""
    url, azure = client.base_url, getattr(client, "_azure_ad_token", None)
    texts = [client.api_key, azure, url.password, url.query.decode()]
    for value in map(str, (client._custom_headers | client._custom_query).values()):
        texts += [word for word in (value, *value.split()) if len(word) >= SHORTEST_SECRET]
    return Secrets(text for text in texts if isinstance(text, str) and text != "none")


def place_of(client: Any) -> str:
    """Return the client's address without user, password or query."""
    url = client.base_url
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.host}{port}{url.path}".rstrip("/")
