"""A load on a real server: requests sent at their times, answers timed, a measured `Serving`."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.client import pace
from gpuscope.serving.client.address import parse_address
from gpuscope.serving.client.connection import Answer, Connection, connect, payload
from gpuscope.serving.client.dcgm import Exporter, exporter
from gpuscope.serving.client.energy import Energy
from gpuscope.serving.client.failure import ReplyError
from gpuscope.serving.client.pace import Own, Patient
from gpuscope.serving.client.probe import Door, Known, probe, with_text
from gpuscope.serving.client.prompts import Api, Prompts, Sort
from gpuscope.serving.client.receiver import Receiver
from gpuscope.serving.client.record import Record, as_serving
from gpuscope.serving.client.reply import Reply, judged
from gpuscope.serving.client.scrape import EVERY_S, MOST_PAGES
from gpuscope.serving.client.traced import Traced
from gpuscope.serving.client.triton import Tensors, probe_model
from gpuscope.serving.client.triton import judged as whole
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import FINISHED, Serving

AHEAD_S = 0.25
"""Before its time, a request's connection is made: what it takes is none of the server's work."""

MOST_IN_FLIGHT = 10_000
"""Requests at a time; more is beyond one process."""

MOST_PREPARED = 256
"""Requests of a closed loop that are made ahead."""

PREPARE_S = 0.005
"""After a request is sent, another is made: not in the middle of a wave."""

Tell = Callable[[int], None]
"""Is told how many requests are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is wanted of a run.

    Attributes:
        url: of the server.
        requests: the load.
        model: its name; "" for the one that the server has.
        api: "completions" or "chat".
        prompts: "ids" or "words"; None for what the server takes.
        tokenizer: a local one's file or folder; prompts are text of its tokens then.
        timeout_s: the longest that an answer may take.
        for_s: requests whose time is later are not sent; None for all.
        engine_log: of the server's iterations.
        dcgm: address of the DCGM exporter beside the server.
        otlp: port at which the server's spans are waited for.
    """

    url: str
    requests: Requests
    model: str = ""
    api: Api = "completions"
    prompts: Sort | None = None
    tokenizer: str | None = None
    timeout_s: float = 600.0
    for_s: float | None = None
    engine_log: str | None = None
    dcgm: str | None = None
    otlp: int | None = None


def run_load(asked: Asked, tell: Tell = lambda done: None) -> Serving:
    """Load a server, and return what was measured.

    Raises:
        ServerError: the server cannot be asked.
        NoAnswerError: every request failed.
        UnknownNameError: the server has no such model.
        InvalidValueError: the address or the load cannot be.
    """
    _check(asked)
    selector = Patient()
    with asyncio.Runner(loop_factory=lambda: pace.new_loop(selector)) as runner:
        return runner.run(_Run(asked, selector, tell).go())


def _check(asked: Asked) -> None:
    if not 0 < asked.timeout_s <= 86_400:
        raise InvalidValueError(
            Text("A time limit lies between 0 and 24 hours."), "", Text("Type: --timeout 10m")
        )
    if asked.requests.concurrency > MOST_IN_FLIGHT:
        raise InvalidValueError(
            Text("One client holds {most} requests at most.", most=MOST_IN_FLIGHT),
            "",
            Text("Run several clients, on several machines."),
        )


@dataclass(slots=True)
class _Run:
    asked: Asked
    selector: Patient
    tell: Tell
    own: Own = field(default_factory=Own)
    record: Record = field(init=False)
    pages: list[bytes] = field(default_factory=list)
    devices: Exporter | None = None
    traced: Traced | None = None
    done: int = 0
    start_s: float = 0.0
    door: Door = field(init=False)
    prompts: Prompts | Tensors = field(init=False)
    judge: Callable[[Reply], Text | None] = judged
    rows: Iterator[int] = field(init=False)  # of a closed loop, not yet made
    bodies: deque[tuple[int, bytes]] = field(default_factory=deque)  # made, not yet sent

    async def go(self) -> Serving:
        asked = self.asked
        address = parse_address(asked.url)
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key.isascii() or not key.isprintable():
            raise InvalidValueError(
                Text("OPENAI_API_KEY holds what no header may."), "", Text("Set it anew.")
            )
        self.door = Door(address, address.context(), key, asked.timeout_s)
        self.devices = await exporter(asked.dcgm) if asked.dcgm else None
        if asked.otlp is not None:
            self.traced = Traced(Receiver(asked.otlp))
            await self.traced.receiver.open()
        known = await self._known()
        self.record = Record.of(asked.requests)
        with Energy(address.local) as energy:
            await self._measured()
        if self.traced:
            await self.traced.wait(np.flatnonzero(self.record.status == FINISHED).tolist())
            self.traced.receiver.close()
        return self._result(known, energy.joules)

    async def _known(self) -> Known:
        """What the server takes, and who makes bodies of it."""
        asked = self.asked
        if asked.api == "triton":
            known, self.prompts = await probe_model(self.door, asked.model, asked.requests)
            self.judge = whole
            return known
        known = await probe(self.door, asked.model, asked.api, asked.prompts)
        known = with_text(known, asked.tokenizer)
        self.prompts = Prompts(asked.requests, known.model, known.form, asked.tokenizer)
        return known

    async def _measured(self) -> None:
        """The run itself, between two looks at the server's metrics and its devices'."""
        await self._look()
        watched = [self._keep_looking()] if self.pages else []
        if self.devices:
            await self.devices.look()
            watched.append(self.devices.keep_looking())
        looking = [asyncio.create_task(each) for each in watched]
        self.selector.backlogs_s.clear()
        processor, self.start_s = time.process_time(), time.perf_counter() + AHEAD_S
        try:
            if self.asked.requests.concurrency:
                await self._closed()
            else:
                await self._open()
        finally:
            for each in looking:
                each.cancel()
        self.own.processor_s = time.process_time() - processor
        self.own.wall_s = time.perf_counter() - self.start_s
        self.own.backlogs_s = tuple(self.selector.backlogs_s)
        if self.pages:
            await self._look()
        if self.devices:
            await self.devices.look()

    # -- the two loops ----------------------------------------------------------------------------

    async def _open(self) -> None:
        """Each request at its time, whatever became of those before it."""
        async with asyncio.TaskGroup() as group:
            for row, at_s in enumerate(self.asked.requests.arrival_s.tolist()):
                if self.asked.for_s is not None and at_s > self.asked.for_s:
                    break
                # Tasks are made little by little: a trace may hold a million requests.
                await self._until(at_s - 2 * AHEAD_S)
                group.create_task(self._one(row, at_s))

    async def _one(self, row: int, at_s: float) -> None:
        await self._until(at_s - AHEAD_S)
        body = self._payload(row, keep=False)
        connection: Connection | None = None
        try:
            connection = await self._connect()
            await self._until(at_s)
            await self._exchange(connection, row, at_s, body)
        except ReplyError as error:
            await self._until(at_s)
            self._failed(row, at_s, error.args[0], connection)
        finally:
            if connection:
                connection.close()

    async def _closed(self) -> None:
        """So many places; each sends its next request when its last one is answered."""
        self.rows = iter(range(len(self.asked.requests)))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.asked.requests.concurrency, len(self.asked.requests))):
                group.create_task(self._place())

    async def _place(self) -> None:
        """Between an answer and the next request is nothing but the sending."""
        connection: Connection | None = None
        await self._until(0.0)
        free_s = 0.0
        unread: tuple[int, float, Answer] | None = None
        while (made := self._next()) is not None:
            if self.asked.for_s is not None and free_s > self.asked.for_s:
                break
            row, body = made
            try:
                if connection is None or not connection.usable:
                    connection = None
                    connection = await self._connect()
                self._send(connection, row, free_s, body)
                self._read(unread)
                unread = None
                asyncio.get_running_loop().call_later(PREPARE_S, self._prepare)
                unread = row, free_s, await connection.answer(self.asked.timeout_s)
            except ReplyError as error:
                self._read(unread)
                unread = None
                self._failed(row, free_s, error.args[0], connection)
                await asyncio.sleep(0.01)  # a server that refuses is not stormed
            free_s = self._now()
        self._read(unread)
        if connection:
            connection.close()

    def _next(self) -> tuple[int, bytes] | None:
        """The next request of a closed loop; None: there is none."""
        if not self.bodies:
            self._prepare()
        return self.bodies.popleft() if self.bodies else None

    def _prepare(self) -> None:
        """Make the next request's bytes before they are wanted."""
        row = next(self.rows, None) if len(self.bodies) < MOST_PREPARED else None
        if row is not None:
            self.bodies.append((row, self._payload(row, keep=True)))

    async def _exchange(
        self, connection: Connection, row: int, intended_s: float, body: bytes
    ) -> None:
        self._send(connection, row, intended_s, body)
        self._read((row, intended_s, await connection.answer(self.asked.timeout_s)))

    def _send(self, connection: Connection, row: int, intended_s: float, body: bytes) -> None:
        sent = connection.ask(body) - self.start_s
        self.record.sent(row, intended_s, sent)
        self.own.lateness_s.append(sent - intended_s)

    def _read(self, unread: tuple[int, float, Answer] | None) -> None:
        """Record an answer."""
        if unread is None:
            return
        row, intended_s, answer = unread
        try:
            reply = answer.read()
            problem = self.judge(reply)
        except ReplyError as error:
            reply, problem = answer.reply, error.args[0]
        if problem is None:
            self.record.answered(row, reply, self.start_s)
        else:
            self.record.failed(row, intended_s, self._now(), problem, reply.status)
        self._count()

    # -- small steps ------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.perf_counter() - self.start_s

    async def _until(self, at_s: float) -> None:
        left = at_s - self._now()
        if left > 0:
            await asyncio.sleep(left)

    async def _connect(self) -> Connection:
        return await connect(self.door.address, self.door.context, self.asked.timeout_s)

    def _payload(self, row: int, keep: bool) -> bytes:
        body, more = self.prompts.body(row)
        if self.traced:
            more = (*more, self.traced.header(row))
        door = self.door
        return payload(door.address, self.prompts.path, body, door.key, keep=keep, more=more)

    def _failed(
        self, row: int, intended_s: float, reason: Text, connection: Connection | None
    ) -> None:
        reply = connection.reply if connection else Reply()
        self.record.failed(row, intended_s, self._now(), reason, reply.status)
        self._count()

    def _count(self) -> None:
        self.done += 1
        self.tell(self.done)

    async def _look(self) -> None:
        reply = await self.door.get("/metrics")
        if reply is not None and reply.status == 200 and reply.body:
            self.pages.append(bytes(reply.body))

    async def _keep_looking(self) -> None:
        while len(self.pages) < MOST_PAGES:
            await asyncio.sleep(EVERY_S)
            await self._look()

    def _result(self, known: Known, energy_j: float | None) -> Serving:
        found = as_serving(self.asked, known, self.record, self.own, self.pages, energy_j)
        if self.traced:
            found = self.traced.added_to(found, np.flatnonzero(self.record.status >= 0).tolist())
        return self.devices.added_to(found, self.own.wall_s) if self.devices else found
