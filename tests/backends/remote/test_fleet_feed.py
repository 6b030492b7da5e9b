"""The fleet's index of an engine in a host equals the engine's tree."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sgnb.backends.fleet.block_index import BlockIndex
from sgnb.backends.fleet.tree_feed import prompt_keys
from sgnb.backends.fleet.worker import FleetWorker
from sgnb.backends.local import executor_of
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine
from sgnb.events import EventLog, RecordsLost

from .conftest import TOKEN, dial


def tree_keys(engine: Engine, tokenizer_id: str) -> set[bytes]:
    nodes = {node["id"]: node for node in engine.tree()}
    keys: set[bytes] = set()
    for node in nodes.values():
        path: tuple[int, ...] = ()
        while node:
            path, node = node["tokens"] + path, nodes.get(node["parent"], {})
        keys.update(prompt_keys(tokenizer_id, "", np.array(path, np.int32), engine.vocab_size))
    return keys


def test_the_index_follows_an_engine_in_a_host(
    engine: Engine, address: str, tokenizer: Any
) -> None:
    engine.generate([7] * 300, max_new_tokens=1)  # before the client
    with RemoteEngine(dial(address), TOKEN, "fleet", tokenizer) as remote:
        executor, index = executor_of(remote), BlockIndex()
        worker = FleetWorker(0, executor, index, EventLog())

        def check() -> None:
            deadline = time.monotonic() + 20
            while True:
                assert list(worker.read()) == []
                if index.cached(0) == tree_keys(engine, executor.tokenizer_id):
                    return
                assert time.monotonic() < deadline
                time.sleep(0.02)

        check()
        assert index.cached(0)
        for number in range(3):
            remote.generate([7] * 200 + [9 + number] * 100, max_new_tokens=2)
        check()
        engine.flush_cache()
        remote.log.emit(RecordsLost(1))
        engine.generate([8] * 200, max_new_tokens=1)
        check()
        executor.close()
