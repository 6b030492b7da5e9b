"""SGLang's path of the function that traces a program."""

from typing import Any

from .decorator import SglFunction
from .graph.graph import Graph


def trace_program(program: SglFunction, arguments: dict[str, Any], backend: Any) -> Graph:
    """Return `program.trace(backend=backend, **arguments)`."""
    return program.trace(backend=backend, **arguments)
