"""SGLang's path of the shared command line of benchmark programs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any
from unittest import TestCase as CustomTestCase

from .. import OpenAI, RuntimeEndpoint
from ..errors import OptionError
from ..utils import normalize_base_url

__all__ = ["CustomTestCase", "add_common_sglang_args_and_parse", "select_sglang_backend"]


def add_common_sglang_args_and_parse(parser: ArgumentParser) -> Namespace:
    """Add the options of SGLang's benchmark programs, and parse the command line."""
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--backend", default="srt", help="srt, or a name that begins with gpt-")
    parser.add_argument("--device", default="auto", choices=["auto", "cuda", "rocm", "cpu"])
    parser.add_argument("--result-file", default="result.jsonl")
    parser.add_argument("--raw-result-file")
    return parser.parse_args()


def select_sglang_backend(args: Namespace) -> Any:
    """Return the backend of a command line.

    Args:
        args: The options `backend`, `host` and `port`.

    Returns:
        A `RuntimeEndpoint` for "srt", an `OpenAI` for a name with the prefix "gpt-".

    Raises:
        OptionError: for another backend.
    """
    if args.backend.startswith("srt"):
        return RuntimeEndpoint(normalize_base_url(args.host, args.port))
    if args.backend.startswith("gpt-"):
        return OpenAI(args.backend)
    raise OptionError(f"--backend {args.backend!r} is not supported", "give srt or gpt-...")
