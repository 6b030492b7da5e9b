"""A service on loopback that attacks its client.

`python -m tests.backends.hostile FILE` serves in a separate process, without influence on the
processor time and the open files of the client. The address `/NAME/v1` selects an attack.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .attacks import ATTACKS, Client


class _Handler(BaseHTTPRequestHandler):
    names: dict[str, str] = {}  # noqa: RUF012
    hits: list[str] = []  # noqa: RUF012

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        name = self.path.split("/")[1]
        client = Client(self, body, key or self.headers.get("x-api-key", ""))
        self.close_connection = True
        if name == "hits":
            return client.document({"hits": len(self.hits)})
        attack = ATTACKS[name]
        if self.path.endswith("/get_model_info") and attack.backend in ("sglang", "bench"):
            return client.document({"model_path": "m"} if attack.backend == "sglang" else {})
        with suppress(OSError):  # the client has gone away
            attack.reply(client)

    do_GET = do_POST


def _serve(file: str) -> None:
    trap = socket.create_server(("127.0.0.1", 0))

    def count() -> None:
        while True:
            trap.accept()[0].close()
            _Handler.hits.append("")

    threading.Thread(target=count, daemon=True).start()
    address = f"127.0.0.1:{trap.getsockname()[1]}"
    _Handler.names = names = {"TRAP": address, "FILE": file, "FOLDER": str(Path(file).parent)}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(json.dumps([f"http://127.0.0.1:{server.server_address[1]}", names]), flush=True)
    server.serve_forever(0.05)


class HostileService:
    """The service in a process of its own.

    file: Path of FILE. url: Address without an attack's name. names: Values of TRAP, FILE, FOLDER.
    """

    def __init__(self, file: Path) -> None:
        command = [sys.executable, "-m", "tests.backends.hostile", str(file)]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self._process.stdout is not None
        self.url, self.names = json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
