"""A server of server-sent events that behaves as a test says; on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Server:
    """How it behaves, and what it was asked."""

    behaviour: str = "good"
    gap_s: float = 0.002
    usage: bool = True
    models: tuple[str, ...] = ("tiny",)
    every: int = 1  # every so many-th request is treated so; others are answered
    after: int = 0  # so many requests are answered first
    pages: tuple[str, ...] = ()
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    answered: Callable[[str], None] | None = None  # told the request's traceparent
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._one(head.decode(), reader, writer)
                await writer.drain()
                if b"connection: close" in head.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path = head.split()[1]
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.keys.append(fields.get("authorization", ""))
        if path.endswith("/models"):
            data = [{"id": name, "owned_by": "vllm"} for name in self.models]
            return plain(writer, 200, json.dumps({"data": data}))
        if path == "/version":
            return plain(writer, 200, '{"version": "9.9"}')
        if path == "/metrics":
            page = self.pages[min(len(self.asked) > 3, len(self.pages) - 1)] if self.pages else ""
            return plain(writer, 200 if page else 404, page)
        if head.startswith("GET"):
            status = int(self.behaviour) if self.behaviour.isdigit() else 404
            return plain(writer, status, '{"detail": "Not Found"}')
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        self.asked.append(body)
        treated = len(self.asked) > self.after and len(self.asked) % self.every == 0
        behaviour = self.behaviour if treated else "good"
        await self._answer(behaviour, body, writer)
        if self.answered:
            self.answered(fields.get("traceparent", ""))
        return None

    async def _answer(self, how: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if how.isdigit():
            return plain(writer, int(how), '{"error": {"message": "no such thing \\u001b[2J"}}')
        if how == "no_eos" and "ignore_eos" in body:
            return plain(writer, 422, '{"detail": "Unexpected keys: ignore_eos"}')
        if how == "no_ids" and isinstance(body.get("prompt"), list):
            return plain(writer, 400, '{"error": "prompt must be text"}')
        if how == "not_streaming":
            return plain(writer, 200, '{"choices": [{"text": "all at once"}]}')
        if how == "silent":
            await asyncio.sleep(30)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        if how == "endless_line":
            for _ in range(40):
                chunk(writer, b"data: " + b"x" * (1 << 15))
            return None
        if how == "garbage":
            chunk(writer, b'data: {"choices": [\n\n')
        count = 0 if how == "zero_tokens" else body["max_tokens"]
        for at in range(count):
            await asyncio.sleep(self.gap_s)
            if how == "closing_early" and at == 1:
                return writer.close()
            piece = {"delta": {"content": "a"}} if "messages" in body else {"text": "a"}
            event(writer, {"choices": [{"index": 0, **piece}]})
        prompt = body.get("prompt", "")
        number = len(prompt) if isinstance(prompt, list) else 3 + 2 * len(str(body).split())
        if self.usage and "stream_options" in body:
            event(
                writer,
                {"choices": [], "usage": {"prompt_tokens": number, "completion_tokens": count}},
            )
        chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return None


def plain(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    data = text.encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n".encode()
        + data
    )


def event(writer: asyncio.StreamWriter, what: dict[str, Any]) -> None:
    chunk(writer, b"data: " + json.dumps(what).encode() + b"\n\n")


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextmanager
def running(server: Server) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    made = loop.run_until_complete(asyncio.start_server(server.serve, "127.0.0.1", 0))
    server.port = made.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        made.close()
        loop.close()
