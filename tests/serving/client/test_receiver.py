"""The receiver of spans, over real sockets: what it keeps, and what it refuses."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import Callable

import pytest
from otlp_bytes import post

from gpuscope.errors import InvalidValueError
from gpuscope.serving.client import receiver
from gpuscope.serving.client.receiver import Receiver
from gpuscope.serving.client.spans import JSON, PROTOBUF


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def with_one(told: Callable[[Receiver], object]) -> tuple[Receiver, object]:
    """A receiver, while something is sent to it on another thread; and what came back."""

    async def run() -> tuple[Receiver, object]:
        made = Receiver(free_port())
        await made.open()
        found = await asyncio.to_thread(told, made)
        made.close()
        return made, found

    return asyncio.run(run())


@pytest.mark.parametrize("pack", [None, gzip.compress, zlib.compress])
def test_bodies_are_kept_unpacked(pack: Callable[[bytes], bytes] | None) -> None:
    how = {None: "", gzip.compress: "gzip", zlib.compress: "deflate"}[pack]
    body = b"abc" * 1000

    def send(made: Receiver) -> list[int]:
        sent = pack(body) if pack else body
        return [post(made.port, sent, kind, how, "/v1/traces") for kind in (PROTOBUF, JSON)]

    made, statuses = with_one(send)
    assert statuses == [200, 200]
    assert made.take() == [(PROTOBUF, body), (JSON, body)]
    assert (made.take(), made.refused) == ([], 0)


def raw(made: Receiver, sent: bytes) -> bytes:
    """What is answered to any bytes."""
    with socket.create_connection(("127.0.0.1", made.port), 10) as stream:
        stream.sendall(sent)
        stream.shutdown(socket.SHUT_WR)
        found = b""
        while more := stream.recv(1 << 16):
            found += more
    return found


def test_one_connection_carries_many() -> None:
    one = f"POST / HTTP/1.1\r\nContent-Type: {JSON}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    made, answer = with_one(lambda made: raw(made, one * 3))
    assert answer.count(b"200 OK") == 3
    assert len(made.take()) == 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"405"),
        (b"POST / HTTP/1.1\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: text/html\r\n\r\nab", b"415"),
        (b"POST /v1/metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", b"404"),
        (b"\x00\xff" * 40 + b"\r\n\r\n", b"405"),
        (b"x" * 100_000, b""),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\nab", b""),
        (b"", b""),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, status: bytes) -> None:
    def told(made: Receiver) -> bytes:
        try:
            return raw(made, sent)
        except ConnectionError:  # it ended before all was sent
            return b""

    made, answer = with_one(told)
    assert answer[9:12] == status
    assert made.take() == []


def test_packed_bodies_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb, cut = gzip.compress(b"\0" * (receiver.MOST_BODY + 1)), gzip.compress(b"a" * 99)[:-9]
    made, found = with_one(
        lambda made: [post(made.port, body, how="gzip") for body in (bomb, cut, b"none")]
    )
    assert found == [413, 400, 400]
    assert (made.take(), made.refused) == ([], 3)
    monkeypatch.setattr(receiver, "MOST_KEPT", 5000)
    made, found = with_one(lambda made: [post(made.port, b"a" * 2000) for _ in range(4)])
    assert found == [200, 200, 413, 413]


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none(port: int) -> None:
    with pytest.raises(InvalidValueError, match="no port"):
        asyncio.run(Receiver(port).open())


def test_a_port_that_another_has() -> None:
    def again(made: Receiver) -> str:
        with pytest.raises(InvalidValueError) as told:
            asyncio.run(Receiver(made.port).open())
        return str(told.value)

    made, said = with_one(again)
    assert f"Port {made.port} cannot be listened at" in str(said)
