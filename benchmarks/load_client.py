"""How late the load client is by itself, with many streams; beside HTTP libraries.

    PYTHONPATH=src python benchmarks/load_client.py 1000

A server on another process brings every stream a token at the same moments, as an engine does.
Prints one line of JSON a client.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import resource
import sys
import time
from typing import Any, ClassVar

import numpy as np

RATE_PER_S, TOKENS, RAMP_S = 10, 100, 2.0
PIECE = (
    b'data: {"id":"cmpl-0","object":"text_completion","created":1,"model":"m",'
    b'"choices":[{"index":0,'
    b'"text":" a","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}\n\n'
)
CHUNK = b"%x\r\n%s\r\n" % (len(PIECE), PIECE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Streams(asyncio.Protocol):
    """A request, answered token by token."""

    live: ClassVar[dict[Streams, int]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport, self.got = transport, b""

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end:
            return
        if head.startswith(b"GET"):
            text = b'{"data": [{"id": "m"}]}' if b"/models" in head else b"{}"
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
            )
            self.got = b""
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) >= length:
            asked = json.loads(body)
            tokens = asked["max_tokens"]
            usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": tokens}
            last = b"data: %s\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
            self.end = b"%x\r\n%s\r\n" % (len(last), last) + DONE
            self.got = b""
            self.transport.write(HEAD)
            self.live[self] = tokens

    def connection_lost(self, exc: Exception | None) -> None:
        self.live.pop(self, None)


def serve(ready: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Streams, "127.0.0.1", 0, backlog=4096)
        ready.put(server.sockets[0].getsockname()[1])
        at = time.perf_counter()
        while True:
            at += 1 / RATE_PER_S
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            for stream, left in list(Streams.live.items()):
                stream.transport.write(CHUNK if left > 1 else CHUNK + stream.end)
                Streams.live[stream] = left - 1
                if left <= 1:
                    Streams.live.pop(stream, None)

    asyncio.run(main())


def own(port: int, streams: int) -> list[float]:
    from gpuscope.serving.client.load_test import load_test

    found = load_test(
        f"http://127.0.0.1:{port}",
        rate=streams / RAMP_S,
        arrivals="constant",
        count=streams,
        input=16,
        output=TOKENS,
    )
    assert (found.served.status == 0).all()
    return [*(found.served.sent_s - found.served.intended_s)]


def by_library(port: int, streams: int, library: str) -> list[float]:
    body = json.dumps({"model": "m", "prompt": "a", "stream": True, "max_tokens": TOKENS}).encode()
    url, late = f"http://127.0.0.1:{port}/v1/completions", []

    async def one(at: float, ask: Any) -> None:
        await asyncio.sleep(at - time.perf_counter())
        late.append(time.perf_counter() - at)
        await ask()

    async def aiohttp_client(start: float) -> None:
        import aiohttp

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask() -> None:
                async with session.post(url, data=body) as reply:
                    async for data in reply.content.iter_any():
                        for line in data.split(b"\n"):
                            if line.startswith(b"data: {"):
                                json.loads(line[6:])

            await asyncio.gather(*(one(start + n * RAMP_S / streams, ask) for n in range(streams)))

    async def httpx_client(start: float) -> None:
        import httpx

        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=120, limits=limits) as session:

            async def ask() -> None:
                async with session.stream("POST", url, content=body) as reply:
                    async for line in reply.aiter_lines():
                        if line.startswith("data: {"):
                            json.loads(line[6:])

            await asyncio.gather(*(one(start + n * RAMP_S / streams, ask) for n in range(streams)))

    run = {"aiohttp": aiohttp_client, "httpx": httpx_client}[library]
    asyncio.run(run(time.perf_counter() + 0.5))
    return late


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ready: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(ready,), daemon=True)
    server.start()
    port = ready.get(timeout=30)
    clients = {"gpuscope": own}
    for library in ("aiohttp", "httpx"):
        if importlib.util.find_spec(library):
            clients[library] = lambda port, n, library=library: by_library(port, n, library)
    for name, client in clients.items():
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        late = client(port, streams)
        after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        line = {
            "client": name,
            "streams": streams,
            "tokens_per_s_each": RATE_PER_S,
            "lateness_p50_s": round(float(np.percentile(late, 50)), 6),
            "lateness_p99_s": round(float(np.percentile(late, 99)), 6),
            "processor_share": round(cpu / wall, 4),
            "us_per_token": round(cpu / streams / TOKENS * 1e6, 1),
        }
        print(json.dumps(line), flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
