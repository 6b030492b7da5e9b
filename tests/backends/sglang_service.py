"""SGLang's protocol on loopback, answered by the bundled model."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import sgnb as sgl
from sgnb import models

from .service import started

TINY = str(Path(models.__file__).parent / "tiny")
KEY = "sk-sglang-3f9c1d7e5b"
LOGPROBS = ("return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs")


class SGLangService:
    def __init__(self, engine: sgl.Engine) -> None:
        self.engine = engine
        self.bodies: list[dict[str, Any]] = []
        self.flushed = 0
        service = self

        class Handler(_Handler):
            pass

        Handler.service = service
        self._server = started(Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: SGLangService

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            return self._send({"error": {"message": f"not {self.headers['Authorization']}"}}, 401)
        info = {
            "/get_model_info": {"model_path": "tiny", "tokenizer_path": TINY},
            "/server_info": {"version": "0.5.10"},
        }
        self._send(info[self.path])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/flush_cache":
            self.service.flushed += 1
            return self._write(b"Cache flushed.\n", "text/plain")
        self.service.bodies.append(body)
        sampling = {**body["sampling_params"]}
        seed = sampling.pop("sampling_seed", None)
        sampling |= {name: body[name] for name in LOGPROBS if name in body}
        prompt = body.get("text", body.get("input_ids"))
        many = isinstance(prompt, list)
        generate = self.service.engine.generate
        try:
            if not body.get("stream"):
                made = generate(prompt, sampling, seed=seed)
                said = [_said(output) for output in (made if many else [made])]
                return self._send(said if many else said[0])
            outputs = generate(prompt, sampling, seed=seed, stream=True)
        except sgl.errors.SgnbError as error:
            return self._send({"error": {"message": str(error)}}, 400)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for output in outputs:
            self.wfile.write(b"data: " + json.dumps(_said(output)).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _send(self, said: Any, status: int = 200) -> None:
        self._write(json.dumps(said).encode(), "application/json", status)

    def _write(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _said(output: Any) -> dict[str, Any]:
    return {"text": output["text"], "meta_info": output["meta_info"]}
