"""SGLang's path of helpers for programs: files of rows and texts, and streams of engines.
Servers are not started here: an engine runs in this process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from .errors import OptionError


def read_jsonl(filename: str) -> Iterator[Any]:
    """Yield the value of each line of a file of JSON lines, without lines that begin with #."""
    with Path(filename).open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                yield json.loads(line)


def dump_state_text(filename: str, states: Iterable[Any], mode: str = "w") -> None:
    """Write the texts of states, or strings, to a file, each below a numbered line."""
    with Path(filename).open(mode, encoding="utf-8") as file:
        for number, state in enumerate(states):
            text = state.text() if hasattr(state, "text") else str(state)
            file.write(f"{'=' * 40} {number} {'=' * 40}\n{text}\n{'=' * 80}\n\n")


def download_and_cache_file(url: str, filename: str | None = None) -> str:
    """Download a file unless the file exists.

    Args:
        url: An address of http or https.
        filename: The target; by default in the folder of temporary files.

    Returns:
        The file's name.

    Raises:
        OptionError: if `url` has another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise OptionError(f"url={url!r} is not an address", "use http:// or https://")
    path = Path(filename or Path(tempfile.gettempdir()) / Path(parts.path).name)
    if not path.exists():
        with urlopen(url) as response:
            content = response.read()
        path.write_bytes(content)
    return str(path)


def normalize_base_url(host: str, port: int) -> str:
    """Return the address of a server, with http as the default scheme."""
    scheme = "" if host.startswith(("http://", "https://")) else "http://"
    return f"{scheme}{host}:{port}"


def print_highlight(html_content: Any) -> None:
    """Print `html_content`."""
    print(html_content)


def stream_and_merge(llm: Any, prompt: Any, sampling_params: Any) -> str:
    """Stream an answer of an engine, and return the text."""
    text = ""
    for chunk in llm.generate(prompt, sampling_params, stream=True):
        text = chunk["text"]
    return text


async def async_stream_and_merge(llm: Any, prompt: Any, sampling_params: Any) -> AsyncIterator[str]:
    """Yield the pieces of an answer of an engine."""
    async for chunk in await llm.agenerate(prompt, sampling_params, stream=True):
        yield chunk.delta


def _refuse_server(*args: Any, **kwargs: Any) -> Any:
    hint = 'an engine runs in this process: sgnb.Engine("...")'
    raise OptionError("sgnb starts no server of SGLang", hint)


launch_server_cmd = wait_for_server = terminate_process = _refuse_server
