"""`transformers serve` with the bundled model, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from sgnb import models

MODEL = str(Path(models.__file__).parent / "tiny")
START_SECONDS = 120.0


class Server:
    """A process of its own; `url` is its OpenAI-compatible address."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        code = "from transformers.cli.transformers import main; main()"
        options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", MODEL, *options, "--log-level", "error"],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.url = f"http://127.0.0.1:{port}/v1"
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError("transformers serve ended; it needs fastapi and uvicorn")
            try:
                urllib.request.urlopen(self.url.removesuffix("/v1") + "/health", timeout=5)
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise TimeoutError(f"no server after {START_SECONDS:g} s")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
