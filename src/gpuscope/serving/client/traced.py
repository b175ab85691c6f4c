"""A server's own times of our requests, by the spans that it exports (`gpuscope load --otlp`).

Each request carries a `traceparent` (W3C Trace Context) of its own; the server's span is of the
same trace. Names are vLLM's (`vllm/tracing`, 0.11 to 0.27; SGLang's are the same), in seconds:

    time_in_queue           the engine has it, and did not begin
    time_in_model_prefill   begun, until its first token
    time_in_model_decode    first token until last
    time_to_first_token     from the server's reading it until its front process has that token
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from gpuscope.document.quantities import Count
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.serving.client.receiver import HOST, Receiver
from gpuscope.serving.client.spans import read_spans
from gpuscope.serving.result import FINISHED, Served, Serving

WAIT_S = 8.0
"""For spans after the last answer: exporters send every 5 s (OTEL_BSP_SCHEDULE_DELAY)."""

SLACK_S = 0.5
"""By which a server's time may exceed the request's own: no clock of ours is in it."""

_LATENCY = "gen_ai.latency."
_QUEUE = _LATENCY + "time_in_queue"
_PREFILL = _LATENCY + "time_in_model_prefill"
_DECODE = _LATENCY + "time_in_model_decode"
_FIRST = _LATENCY + "time_to_first_token"

_EVERY_S = 0.05


@dataclass(slots=True)
class Traced:
    """Names a trace for each request, and finds the server's spans of it.

    Attributes:
        receiver: that the spans come to.
        found: figures of a request's spans, by its row.
        others: spans of other traces.
        damaged: messages that are none.
    """

    receiver: Receiver
    found: dict[int, dict[str, float]] = field(default_factory=dict)
    others: int = 0
    damaged: int = 0
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(8))

    def header(self, row: int) -> str:
        """The line of a request's head that names its trace."""
        return f"traceparent: 00-{self._salt.hex()}{row:016x}-{row + 1:016x}-01"

    def read(self) -> None:
        """What came until now."""
        for kind, body in self.receiver.take():
            try:
                spans = read_spans(body, kind)
            except MisfitError:
                self.damaged += 1
                continue
            for span in spans:
                if span.trace[:8] != self._salt or len(span.trace) != 16:
                    self.others += 1
                    continue
                figures = self.found.setdefault(int.from_bytes(span.trace[8:], "big"), {})
                for name, value in span.figures.items():
                    figures.setdefault(name, value)

    async def wait(self, rows: Collection[int]) -> None:
        """Until each of these has its span, or none can be expected any more."""
        until = time.perf_counter() + WAIT_S
        self.read()
        while not all(row in self.found for row in rows) and time.perf_counter() < until:
            await asyncio.sleep(_EVERY_S)
            self.read()

    def added_to(self, run: Serving, rows: Collection[int]) -> Serving:
        """A run with what the server says of its requests.

        Args:
            run: as the client saw it.
            rows: of the load, in the order of the run's requests.
        """
        served = run.served
        columns = {
            name: np.array([self.found.get(row, {}).get(name, np.nan) for row in rows])
            for name in (_QUEUE, _PREFILL, _DECODE, _FIRST)
        }
        took = served.finished_s - served.sent_s
        with np.errstate(invalid="ignore"):
            wrong = [(times < 0) | (times > took + SLACK_S) for times in columns.values()]
        sound = (served.status == FINISHED) & ~np.any(wrong, axis=0)
        queue, prefill, decode, first = (
            np.where(sound, times, np.nan) for times in columns.values()
        )
        front = np.maximum(first - queue - prefill, 0.0)
        told = replace(
            served,
            queue_s=_known(queue),
            prefill_s=_known(prefill),
            decode_s=_known(decode),
            front_s=_known(front),
        )
        notes = (*run.notes, *self._notes(told, int(np.any(wrong, axis=0).sum())))
        return replace(run, served=told, notes=notes)

    def _notes(self, told: Served, wrong: int) -> list[Text]:
        notes = []
        rows = int((told.status == FINISHED).sum())
        known = int(np.isfinite(told.queue_s).sum())
        if not self.found and self.others:
            notes.append(
                Text(
                    "{count} spans came, none of this run: the server, or what is before it, does"
                    " not take over the header traceparent.",
                    count=Count(self.others),
                )
            )
        elif not self.found and self.receiver.grpc:
            notes.append(
                Text(
                    "The server speaks gRPC to --otlp. Start it with:"
                    " OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"
                )
            )
        elif not self.found:
            notes.append(
                Text(
                    "No span came. Start the server with: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="
                    "http/protobuf vllm serve ... --otlp-traces-endpoint {url}",
                    url=f"http://{HOST}:{self.receiver.port}/v1/traces",
                )
            )
        elif known < rows:
            notes.append(
                Text(
                    "{count} finished requests have no span with the engine's times.",
                    count=Count(rows - known),
                )
            )
        if wrong:
            notes.append(
                Text(
                    "{count} spans name times that their requests did not take: left out.",
                    count=Count(wrong),
                )
            )
        if self.damaged + self.receiver.refused:
            notes.append(
                Text(
                    "{count} messages to --otlp were no spans, or too long: left out.",
                    count=Count(self.damaged + self.receiver.refused),
                )
            )
        return notes


def _known(column: np.ndarray) -> np.ndarray:
    """A column; empty where nothing in it is known."""
    return column if np.isfinite(column).any() else np.zeros(0)
