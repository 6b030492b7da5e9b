"""The engine: runs a decoder in this process with a radix-tree KV cache. Knows no programs, no
notebooks, no views.

Terms of the engine, each with the module of its type:

request: a prompt with sampling parameters, and its output (`request/request.py`). A request waits,
    runs, may be preempted (retracted) and waits again, and ends with a finish reason.
step: one forward pass of the model over new tokens of several requests: prefill chunks of prompts
    and one decode token per running request (`loop/engine_loop.py`).
batch: the content of a step: requests, first positions and lengths (`request/batch.py`).
slot: memory for the keys and values of one token in all layers. Page size 1. A slot is free, owned
    by a running request, or owned by the radix tree (`cache/slot_allocator.py`).
node: an edge of the radix tree with its token ids and slots, and the node at its end. Nodes with
    locks are in use and cannot be evicted (`cache/radix.py`).
payload: content of nodes in units of fixed size with ids: KV slots, one per token, and states of
    recurrent layers, attached to the end of a node (`cache/payload.py`).
finish reason: cause of a request's end (`request/output.py`): "stop" (EOS token, stop token, stop
    string, regex, or complete grammar), "length" (token limit), "abort" (stopped from outside), or
    "error"; None while the request runs.

docs/ARCHITECTURE.md has the layers, the path of a request, and further terms. `Engine` is looked up
at first use: the radix tree and the scheduler need no torch.
"""

from typing import Any

from ..whole_import import import_whole

_HOME = {"Engine": "engine", "Output": "request.output"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_whole(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
