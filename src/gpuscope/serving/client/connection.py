"""A connection to a server: one request after the other, each byte with its moment.

What comes is stamped at once and read later, in heaps: when hundreds of streams bring a token at
the same moment, the last one's stamp waits for the others' receiving alone, not for their JSON.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.serving.client import failure
from gpuscope.serving.client.address import Address
from gpuscope.serving.client.failure import ReplyError
from gpuscope.serving.client.reply import Reply

HEAP_BYTES = 1 << 15
"""That are kept before they are read."""

_LAST_CHUNK = b"0\r\n\r\n"
_STREAM_END = b"data: [DONE]\n\n\r\n" + _LAST_CHUNK
"""No text of an answer has it: JSON writes a new line as two letters."""


@dataclass(slots=True)
class Answer:
    """What came, some of it unread: reading takes as long as many tokens are in it.

    Attributes:
        reply: as far as it was read.
        heap: the rest.
    """

    reply: Reply
    heap: list[tuple[float, bytes]]

    def read(self) -> Reply:
        """The whole reply.

        Raises:
            ReplyError: it is no answer, or too long.
        """
        heap, self.heap = self.heap, []
        for now_s, data in heap:
            self.reply.feed(now_s, data)
        return self.reply


class Connection(asyncio.Protocol):
    """Carries requests; made by `connect`."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.reply = Reply()
        self._heap: list[tuple[float, bytes]] = []
        self._heaped = 0
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, payload: bytes) -> float:
        """Send a request; return the moment. `answer` gives what comes."""
        assert self.transport is not None
        self.reply = Reply()
        self._heap, self._heaped = [], 0
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(payload)
        return time.perf_counter()

    async def answer(self, timeout_s: float) -> Answer:
        """The answer, as soon as it is there; the next request need not wait until it is read.

        Raises:
            ReplyError: none came, it was broken off, or the time is over.
        """
        assert self._done is not None
        try:
            async with asyncio.timeout(timeout_s):
                await self._done
        except TimeoutError as error:
            self.close()
            with suppress(ReplyError):
                self._read()
            raise ReplyError(failure.TOO_SLOW) from error
        except ReplyError:
            self.close()
            raise
        if not (self._heap or self.reply.reusable):
            self.close()
        heap, self._heap = self._heap, []
        return Answer(self.reply, heap)

    @property
    def usable(self) -> bool:
        """Another request may be sent."""
        return self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        """End it, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes came: stamp them."""
        self._heap.append((time.perf_counter(), data))
        self._heaped += len(data)
        if self._ended(data):
            if self._done is not None and not self._done.done():
                self._done.set_result(None)
            return
        first = not self.reply.status
        if first or self._heaped > HEAP_BYTES or data.endswith(_LAST_CHUNK) or not self._chunked:
            self._settle()

    def _ended(self, data: bytes) -> bool:
        """Whether a stream says so, on a connection that stays: known without reading it."""
        if not data.endswith(_LAST_CHUNK) or not (self._chunked and self.reply.keeps):
            return False
        before = self._heap[-2][1] if len(self._heap) > 1 else b""
        return (before + data).endswith(_STREAM_END)

    @property
    def _chunked(self) -> bool:
        return "transfer-encoding" in self.reply.headers

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side closed it, or the network did."""
        self._settle(closed=True)

    def _settle(self, closed: bool = False) -> None:
        """Read the heap; tell whoever waits if that was all."""
        if self._done is None or self._done.done():
            return
        try:
            self._read()
            if closed:
                self.reply.close()
        except ReplyError as error:
            self._done.set_exception(error)
            return
        if self.reply.done:
            self._done.set_result(None)

    def _read(self) -> None:
        heap, self._heap, self._heaped = self._heap, [], 0
        Answer(self.reply, heap).read()


async def connect(address: Address, context: ssl.SSLContext | None, timeout_s: float) -> Connection:
    """Connect to a server.

    Raises:
        ReplyError: nobody answers, or with a certificate that does not hold.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, made = await loop.create_connection(
                Connection, address.host, address.port, ssl=context
            )
    except (OSError, TimeoutError) as error:  # TLS's and the resolver's errors are OSErrors
        why = " ".join(str(error).split())
        if isinstance(error, ssl.SSLError):
            raise ReplyError(Text("No TLS with this server: {why}", why=why)) from error
        raise ReplyError(failure.UNREACHABLE) from error
    return made


def payload(
    address: Address,
    path: str,
    body: bytes | None,
    key: str = "",
    *,
    keep: bool = False,
    more: Sequence[str] = (),
) -> bytes:
    """A request as bytes: POST of JSON, or GET without a body; `more` lines are of its head."""
    lines = [
        f"{'GET' if body is None else 'POST'} {address.path}{path} HTTP/1.1",
        f"Host: {address.named}",
        "User-Agent: gpuscope",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *([f"Authorization: Bearer {key}"] if key else []),
        *more,
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
