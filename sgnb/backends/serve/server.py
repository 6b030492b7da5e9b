"""A web server for an engine, on a thread of this process."""

from __future__ import annotations

import logging
import re
import secrets
import socket
import threading
import time
from typing import Any

from ...errors import EngineError, OptionError, shown
from ...sampling import integer, read_option, text
from ..any_engine import AnyEngine

START_SECONDS = 20.0
POLL_SECONDS = 0.02

_LOGGERS = logging.getLogger("uvicorn.error"), logging.getLogger("uvicorn.access")


class EngineServer:
    """Serves an engine on loopback until `close`. The engine stays open.

    Args:
        engine: The engine.
        port: Port on 127.0.0.1; 0 for any free port.
        token: Secret of the clients; by default random.

    Attributes:
        url: Address of the server, without a path.
        token: Value of `api_key` for clients.

    Raises:
        OptionError: The extra `serve` is not installed, the port is invalid or in use, or the token
            does not fit a header.
    """

    def __init__(self, engine: AnyEngine, port: int = 0, token: str = "") -> None:
        try:
            import uvicorn

            from .app import EngineApp
        except ImportError as error:
            message = f"the web framework is not installed: {error}"
            raise OptionError(message, "pip install 'sgnb[serve]'") from error
        from ..template_reader import chat_template

        port = read_option("port", port, "a port, from 0 to 65535", integer(0, 65535))
        token = read_option("token", token, "a text", text)
        if not re.fullmatch(r"[!-~]*", token):
            message = f"the token {shown(token)} does not fit a header"
            raise OptionError(message, "use ASCII letters, digits and signs, without blanks")
        self.token = token or secrets.token_hex(16)
        app = EngineApp(engine, chat_template(engine), self.token).routes()
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            hint = "use another port, or 0 for any"
            raise OptionError(f"port {port} cannot be used: {error}", hint) from error
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        # uvicorn's own set-up replaces the handlers and levels of the user
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="sgnb-serve", daemon=True)
        try:
            for logger in _LOGGERS:
                logger.addFilter(self._is_logged)
            self._thread.start()
            self._wait()
        except BaseException:  # an interrupt too: nobody else can close the server
            self.close()
            raise

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _is_logged(self, record: logging.LogRecord) -> bool:
        """Return False for records of this server, except errors of sgnb before `close`."""
        if threading.current_thread() is not self._thread:
            return True
        return record.levelno >= logging.ERROR and not self._server.should_exit

    def _wait(self) -> None:
        """Wait until the server answers."""
        for _ in range(int(START_SECONDS / POLL_SECONDS)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            time.sleep(POLL_SECONDS)
        raise EngineError(f"the server at {self.url} did not start", "use another port")

    def close(self) -> None:
        """End the server and its requests. Idempotent."""
        self._server.should_exit = True
        try:
            if self._thread.is_alive() and threading.current_thread() is not self._thread:
                self._thread.join(10.0)
        finally:
            for logger in _LOGGERS:
                logger.removeFilter(self._is_logged)
        self._socket.close()

    def __enter__(self) -> EngineServer:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<EngineServer {self.url}/v1, api_key={self.token!r}>"
