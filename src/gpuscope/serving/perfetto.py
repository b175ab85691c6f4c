"""Writes a serving run as Chrome trace JSON, which https://ui.perfetto.dev opens.

After the "Trace Event Format" document of the Chromium project: a process a replica, with its
iterations as complete events ("X") and its batch, queue and blocks as counters ("C"); a process
of requests, each a nestable asynchronous event ("b", "e") with what it did inside. Microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.atomic import whole_file
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.serving.result import FINISHED, Serving

Event = dict[str, Any]

REQUESTS = 1
"""Process of the requests; replicas follow."""


def write_serving_trace(run: Serving, path: str | Path) -> None:
    """Write it, whole or not at all; compressed where the name ends in ".gz".

    Raises:
        InputFileError: it cannot be written there.
    """
    header = {"displayTimeUnit": "ms", "otherData": {"model": run.model, "origin": run.origin}}
    try:
        with whole_file(path) as raw:
            packed = str(path).endswith(".gz")
            file = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if packed else raw
            file.write((json.dumps(header)[:-1] + ', "traceEvents": [\n').encode())
            for at, event in enumerate(trace_events(run)):
                file.write(((",\n" if at else "") + json.dumps(event)).encode())
            file.write(b"\n]}\n")
            if packed:
                file.close()
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be written.", path=path), str(error), Text("Check the path.")
        ) from error


def trace_events(run: Serving) -> Iterator[Event]:
    """Every event of a run."""
    yield _named(REQUESTS, "requests")
    for each in np.unique(run.iterations.replica).tolist():
        yield _named(REQUESTS + 1 + each, f"replica {each}")
    yield from _iterations(run)
    yield from _requests(run)


def _named(process: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}


def _iterations(run: Serving) -> Iterator[Event]:
    rows = run.iterations
    for at in range(len(rows)):
        process, steps = REQUESTS + 1 + int(rows.replica[at]), int(rows.steps[at])
        prompts, sequences = int(rows.prefill_tokens[at]), int(rows.decode_sequences[at])
        begun, device_us = _us(rows.start_s[at]), _us(rows.device_s[at])
        name = f"{prompts} prompt tokens, {sequences} decode" if prompts else f"{sequences} decode"
        yield {
            "ph": "X", "name": name, "pid": process, "tid": 1, "ts": begun, "dur": device_us,
            "args": {"iterations": steps, "host_us": _us(rows.host_s[at]),
                     "put_off": int(rows.preemptions[at])},
        }  # fmt: skip
        counted = {"sequences": sequences, "waiting": int(rows.waiting[at])}
        for counter, value in (*counted.items(), ("kv_blocks", int(rows.kv_blocks_used[at]))):
            yield {
                "ph": "C", "name": counter, "pid": process, "tid": 0, "ts": begun,
                "args": {counter: value},
            }  # fmt: skip


def _requests(run: Serving) -> Iterator[Event]:
    served = run.served
    for at in np.flatnonzero(served.status == FINISHED).tolist():
        queue = float(served.queue_s[at]) if len(served.queue_s) else 0.0
        begun, first = float(served.intended_s[at]), float(served.first_token_s[at])
        end = float(served.finished_s[at])
        sizes = {"input": int(served.input_tokens[at]), "output": int(served.output_tokens[at])}
        started = min(begun + queue, first)
        spans: tuple[tuple[str, float, float, dict[str, int]], ...]
        spans = ((f"request {at + 1}", begun, end, sizes), ("queue", begun, started, {}),
                 ("prompt", started, first, {}), ("answer", first, end, {}))  # fmt: skip
        for name, start_s, end_s, more in spans:
            same = {"cat": "request", "id": at, "pid": REQUESTS, "tid": 1, "name": name}
            yield {"ph": "b", **same, "ts": _us(start_s), "args": more}
            yield {"ph": "e", **same, "ts": _us(end_s)}


def _us(seconds: float) -> float:
    return round(float(seconds) * 1e6, 3)
