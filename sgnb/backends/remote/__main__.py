"""Serve a model to notebooks on other machines until an interrupt: `python -m sgnb.backends.remote
MODEL --listen tcp://HOST:PORT [--option NAME=VALUE ...]`. Prints the address and the token."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...engine import Engine
from ...errors import SgnbError
from .engine_host import EngineHost
from .registry import listen, new_token, tokenizer_source


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until an interrupt, or until the engine stops. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sgnb.backends.remote", description=__doc__)
    parser.add_argument("model", help="folder, hub id, or tiny")
    parser.add_argument("--listen", default="tcp://127.0.0.1:0", help="address of the socket")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an engine option"
    )
    asked = parser.parse_args(arguments)
    options = dict(map(read_option, asked.option))
    try:
        listener, address = listen("", asked.listen)  # first: a load can take minutes
        with listener, Engine(asked.model, **options) as engine:
            host = EngineHost(engine, listener, new_token(), tokenizer_source(asked.model))
            print(f"{address}\ntoken: {host.token}", flush=True)
            with suppress(KeyboardInterrupt):
                while not engine.closed:
                    time.sleep(0.5)
            host.close()
    except SgnbError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read_option(text: str) -> tuple[str, Any]:
    """Return the name and the value of an option; a value that is no JSON is a text."""
    name, _, value = text.partition("=")
    with suppress(ValueError):
        return name.replace("-", "_"), json.loads(value)
    return name.replace("-", "_"), value


if __name__ == "__main__":
    sys.exit(main())
