"""Where a server's spans go during a run: OTLP over HTTP, on this machine's own address alone.

Messages are kept as they come and read when the run is over: reading one takes milliseconds, in
which no request could be sent. Whoever is on this machine may send, so that heads, bodies, all of
them together, and connections are limited.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from dataclasses import dataclass, field

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.client.spans import JSON, PROTOBUF

HOST, USUAL_PORT = "127.0.0.1", 4318

MOST_HEAD, MOST_BODY, MOST_KEPT = 1 << 14, 1 << 24, 1 << 26
"""Bytes: of a head, of a body (also unpacked), of all bodies of a run (also unpacked)."""

MOST_CONNECTIONS, IDLE_S = 64, 120.0

_HTTP_2 = b"PRI * HTTP/2.0"
"""With which gRPC begins a connection."""

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    503: "Service Unavailable",
}


class _RefusedError(Exception):
    """A request that is not taken; `args[0]` is its status."""


@dataclass(slots=True)
class Receiver:
    """Takes messages, and keeps them.

    Attributes:
        port: that it listens at.
        bodies: content type and bytes of each, unpacked.
        kept_bytes: of all that came.
        refused: requests that were too long, or of another kind.
        grpc: somebody spoke gRPC, vLLM's way unless told otherwise.
    """

    port: int
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    kept_bytes: int = 0
    refused: int = 0
    grpc: bool = False
    _connections: int = 0
    _listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen.

        Raises:
            InvalidValueError: the port cannot be had.
        """
        if not 0 < self.port < 1 << 16:
            raise InvalidValueError(
                Text("There is no port {port}.", port=self.port),
                "",
                Text("Type: --otlp {usual}", usual=USUAL_PORT),
            )
        try:
            self._listening = await asyncio.start_server(
                self._serve, HOST, self.port, limit=MOST_HEAD
            )
        except OSError as error:
            raise InvalidValueError(
                Text("Port {port} cannot be listened at.", port=self.port),
                Text("Another program has it, or this user may not."),
                Text("Take another one: --otlp {other}", other=USUAL_PORT + 2),
            ) from error

    def close(self) -> None:
        """Listen no more; what came stays."""
        if self._listening is not None:
            self._listening.close()

    def take(self) -> list[tuple[str, bytes]]:
        """What came since somebody asked."""
        found, self.bodies = self.bodies, []
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > MOST_CONNECTIONS:
                _answer(writer, 503, "")
                return
            with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                while await self._one(reader, writer):
                    await writer.drain()
        except TimeoutError:
            pass  # it was idle
        finally:
            self._connections -= 1
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether another may follow."""
        async with asyncio.timeout(IDLE_S):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(_HTTP_2):
                self.grpc = True
                return False
            first, *lines = head.decode("latin-1").split("\r\n")
            parts = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in parts}
            try:
                kind, length = _asked(first, headers)
                if "100-continue" in headers.get("expect", "").lower():
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(length)
                self._keep(kind, _unpacked(body, headers.get("content-encoding", "")))
            except _RefusedError as error:
                self.refused += error.args[0] != 404
                _answer(writer, error.args[0], "")
                return False
        _answer(writer, 200, kind)
        return headers.get("connection", "").lower() != "close"

    def _keep(self, kind: str, body: bytes) -> None:
        if self.kept_bytes + len(body) > MOST_KEPT:
            raise _RefusedError(413)
        self.kept_bytes += len(body)
        self.bodies.append((kind, body))


def _asked(first: str, headers: dict[str, str]) -> tuple[str, int]:
    """Content type and length of a request that may go on."""
    method, _, rest = first.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0].rstrip("/")
    if path.endswith(("/metrics", "/logs")):
        raise _RefusedError(404)  # these are sent by some, and are not wanted
    if method != "POST":
        raise _RefusedError(405)
    length = headers.get("content-length", "")
    if not length.isdecimal():
        raise _RefusedError(411)
    if len(length) > 9 or int(length) > MOST_BODY:
        raise _RefusedError(413)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise _RefusedError(415)
    return kind, int(length)


def _unpacked(body: bytes, how: str) -> bytes:
    if how in ("", "identity"):
        return body
    if how not in ("gzip", "deflate"):
        raise _RefusedError(415)
    unpack = zlib.decompressobj(32 + zlib.MAX_WBITS)  # either head
    try:
        found = unpack.decompress(body, MOST_BODY)
    except zlib.error as error:
        raise _RefusedError(400) from error
    if not unpack.eof:
        raise _RefusedError(413 if unpack.unconsumed_tail else 400)
    return found


def _answer(writer: asyncio.StreamWriter, status: int, kind: str) -> None:
    body = b"{}" if kind == JSON else b""
    writer.write(
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind or 'text/plain'}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: {'keep-alive' if kind else 'close'}"
        "\r\n\r\n".encode()
        + body
    )
