"""A stand-in for Triton Inference Server: KServe's v2 over HTTP, as its documents say."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

SIZES = {"FP32": 4, "INT64": 8, "INT32": 4, "BOOL": 1, "BF16": 2, "FP16": 2}


@dataclass
class Triton:
    """What it has, and what it was asked."""

    inputs: list[dict[str, Any]]
    config: dict[str, Any] = field(default_factory=lambda: {"max_batch_size": 8})
    models: tuple[str, ...] = ("net",)
    takes_s: float = 0.003
    fails: int = 0  # each so many-th request; 0: none
    asked: list[dict[str, Any]] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    url: str = ""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def told(self, path: str) -> tuple[int, Any]:
        if path == "/v2":
            return 200, {
                "name": "triton",
                "version": "2.55.0",
                "extensions": ["binary_tensor_data"],
            }
        if path == "/v2/repository/index":
            return 200, [{"name": name, "version": "1", "state": "READY"} for name in self.models]
        name, _, rest = path.removeprefix("/v2/models/").partition("/")
        if name not in self.models:
            return 400, {"error": f"Request for unknown model: '{name}' is not found"}
        found = {"name": name, "platform": "onnxruntime_onnx", "inputs": self.inputs, "outputs": []}
        return 200, self.config if rest == "config" else found

    def infer(self, body: bytes, head: int) -> tuple[int, bytes, int]:
        asked = json.loads(body[:head])
        self.asked.append(asked)
        at = head
        for each in asked["inputs"]:
            size = each["parameters"]["binary_data_size"]
            self.data.append(body[at : at + size])
            at += size
            count = 1
            for one in each["shape"]:
                count *= one
            if each["datatype"] in SIZES and size != count * SIZES[each["datatype"]]:
                return 400, b'{"error": "unexpected total byte size"}', 0
        if at != len(body):
            return 400, b'{"error": "more bytes than tensors"}', 0
        time.sleep(self.takes_s)
        if self.fails and next(self.numbers) % self.fails == 0:
            return 503, b'{"error": "Exceeds maximum queue size"}', 0
        told = json.dumps(
            {
                "model_name": "net",
                "outputs": [
                    {
                        "name": "y",
                        "datatype": "FP32",
                        "shape": [1, 4],
                        "parameters": {"binary_data_size": 16},
                    }
                ],
            }
        ).encode()
        return 200, told + bytes(16), len(told)


@contextmanager
def running(server: Triton) -> Iterator[Triton]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, what = server.told(self.path)
            self.say(status, json.dumps(what).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/infer"):
                length = int(self.headers.get("Inference-Header-Content-Length", 0))
                status, answer, head = server.infer(body, length)
                return self.say(status, answer, head)
            return self.do_GET()

        def say(self, status: int, body: bytes, head: int = 0) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if head:
                self.send_header("Inference-Header-Content-Length", str(head))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quick(ThreadingHTTPServer):
        request_queue_size = 128

    with Quick(("127.0.0.1", 0), Handler) as made:
        server.url = f"http://127.0.0.1:{made.server_address[1]}"
        Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            made.shutdown()
