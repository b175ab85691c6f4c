"""Writes a timeline as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing open.

Follows the "Trace Event Format" document of the Chromium project: complete events ("X") for work,
flow events ("s", "f") from a launch to its device work, counters ("C"), metadata ("M") for names
and order. Each rank has two processes, its host and its device; each lane is a thread.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from gpuscope.atomic import whole_file
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op
from gpuscope.timeline.trace_counters import trace_counters
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Timeline

Record = dict[str, Any]

_STEP_THREAD = 0
"""Thread of the step windows in a rank's device process; lanes follow from 1."""

_MOST_RANKS = 30
"""Ranks of a group that are listed with each of its calls, as PyTorch's profiler does."""

_LAUNCH = EVENT_KINDS.index("launch")


def write_chrome_trace(timeline: Timeline, path: str | Path, *, name: str = "") -> None:
    """Write `timeline` to `path`, gzip-compressed if the name ends in ".gz".

    The file appears only when it is complete: a reader never meets half of it.

    Args:
        timeline: predicted or measured.
        path: where to, e.g. "trace.json" or "trace.json.gz".
        name: what the trace shows, kept in its metadata.

    Raises:
        InputFileError: the place cannot be written to.
    """
    header = {
        "displayTimeUnit": "ns",
        "otherData": {"name": name, "origin": timeline.origin, "notes": list(timeline.notes)},
    }
    with _complete_file(Path(path)) as file:
        file.write(json.dumps(header)[:-1] + ', "traceEvents": [\n')
        separator = ""
        for record in trace_events(timeline):
            file.write(separator + json.dumps(record))
            separator = ",\n"
        file.write("\n]}\n")


def trace_events(timeline: Timeline) -> Iterator[Record]:
    """Every trace event of a timeline; times are microseconds with nanosecond fractions."""
    yield from _metadata(timeline)
    yield from _work(timeline)
    yield from _flows(timeline)
    yield from _counters(timeline)


def host_process(rank: int) -> int:
    """Process id of a rank's host lanes."""
    return 2 * rank + 1


def device_process(rank: int) -> int:
    """Process id of a rank's device lanes, step windows and counters."""
    return 2 * rank + 2


def _place(timeline: Timeline, lane: int) -> tuple[int, int]:
    """Process and thread of a lane."""
    entry = timeline.lanes[lane]
    process = host_process if entry.kind == "host" else device_process
    return process(entry.rank), lane + 1


def _metadata(timeline: Timeline) -> Iterator[Record]:
    """Names and order of processes and threads."""
    ranks = sorted({lane.rank for lane in timeline.lanes} | {step.rank for step in timeline.steps})
    for rank in ranks:
        for process, label in ((host_process(rank), "host"), (device_process(rank), "device")):
            yield _meta(process, 0, "process_name", {"name": f"rank {rank} {label}"})
            yield _meta(process, 0, "process_sort_index", {"sort_index": process})
        if any(step.rank == rank for step in timeline.steps):
            yield _meta(device_process(rank), _STEP_THREAD, "thread_name", {"name": "steps"})
    for number, lane in enumerate(timeline.lanes):
        process, thread = _place(timeline, number)
        yield _meta(process, thread, "thread_name", {"name": lane.name})
        yield _meta(process, thread, "thread_sort_index", {"sort_index": thread})


def _meta(process: int, thread: int, name: str, args: Record) -> Record:
    return {"ph": "M", "pid": process, "tid": thread, "name": name, "args": args}


def _work(timeline: Timeline) -> Iterator[Record]:
    """Complete events: what hosts and devices do, and the step windows."""
    events = timeline.events
    places = [_place(timeline, lane) for lane in range(len(timeline.lanes))]
    calls = _calls(timeline)
    for row, (start, duration, name, kind, lane, op, kernel, correlation) in enumerate(
        zip(
            events.start_ns.tolist(),
            events.duration_ns.tolist(),
            events.name.tolist(),
            events.kind.tolist(),
            events.lane.tolist(),
            events.op.tolist(),
            events.kernel.tolist(),
            events.correlation.tolist(),
            strict=True,
        )
    ):
        process, thread = places[lane]
        record = _complete(process, thread, timeline.names[name], start, duration)
        record["cat"] = EVENT_KINDS[kind]
        record["args"] = _arguments(timeline, op, kernel) | calls.get(row, {})
        if correlation >= 0:
            record["args"]["correlation"] = correlation
        yield record
    for number, step in enumerate(timeline.steps):
        process = device_process(step.rank)
        length = step.end_ns - step.start_ns
        record = _complete(process, _STEP_THREAD, f"step {number}", step.start_ns, length)
        yield {**record, "cat": "step"}


def _calls(timeline: Timeline) -> dict[int, Record]:
    """What is said of predicted communication events, by row, in the words of PyTorch's profiler
    (torch/csrc/distributed/c10d/ParamCommsUtils.hpp), which other tools read."""
    messages = timeline.messages
    if messages is None:
        return {}
    found: dict[int, Record] = {}
    for row, index, sequence in zip(
        messages.event.tolist(),
        messages.collective.tolist(),
        messages.sequence.tolist(),
        strict=True,
    ):
        call = timeline.collectives[index]
        found[row] = {
            "Collective name": call.name,
            "Process Group Name": call.group,
            "Group size": call.group_size,
            "dtype": call.dtype,
            "In msg nelems": call.in_elements,
            "Out msg nelems": call.out_elements,
            "Seq": sequence,
        }
        if len(call.group_ranks) <= _MOST_RANKS:
            found[row]["Process Group Ranks"] = str(list(call.group_ranks))
    return found


def _complete(process: int, thread: int, name: str, start_ns: int, duration_ns: int) -> Record:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": start_ns / 1000,
        "dur": duration_ns / 1000,
    }


def _arguments(timeline: Timeline, op: int, kernel: int) -> Record:
    """What is known about an event's operator and kernel; nothing is made up where it is not."""
    args: Record = {}
    if 0 <= op < len(timeline.ops):
        call = cast(Op, timeline.ops[op])
        args.update(op=call.name, op_index=op, module=call.module, phase=call.phase)
    if 0 <= kernel < len(timeline.kernels):
        args.update(_kernel_arguments(cast(Kernel, timeline.kernels[kernel])))
    return args


def _kernel_arguments(kernel: Kernel) -> Record:
    args: Record = {
        "kind": kernel.kind,
        "flops": kernel.flops,
        "read_bytes": kernel.read_bytes,
        "written_bytes": kernel.written_bytes,
        "grid": kernel.grid,
        "block": kernel.block,
        "waves": kernel.waves,
        "limiter": kernel.limiter,
        "dtype": kernel.dtype,
        "low_us": kernel.low_s * 1e6,
        "high_us": kernel.high_s * 1e6,
        "origin": kernel.origin,
    }
    if kernel.tile:
        args["tile"] = "x".join(map(str, kernel.tile))
    if kernel.occupancy is not None:
        args["occupancy"] = kernel.occupancy
    if kernel.note:
        args["note"] = kernel.note
    return args


def _flows(timeline: Timeline) -> Iterator[Record]:
    """An arrow from each launch to the first device event that it brought.

    Correlations count anew on every rank, so a flow's id is its place in the file.
    """
    events = timeline.events
    launches: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], int] = {}
    for row in (events.correlation >= 0).nonzero()[0].tolist():
        key = (timeline.lanes[int(events.lane[row])].rank, int(events.correlation[row]))
        if events.kind[row] == _LAUNCH:
            launches.setdefault(key, row)
        elif events.kind[row] < DEVICE_KINDS:
            first.setdefault(key, row)
    for number, (key, launch) in enumerate(launches.items()):
        if key not in first:
            continue
        for phase, row in (("s", launch), ("f", first[key])):
            process, thread = _place(timeline, int(events.lane[row]))
            record: Record = {"ph": phase, "id": number, "cat": "launch", "name": "launch"}
            record |= {"pid": process, "tid": thread, "ts": int(events.start_ns[row]) / 1000}
            yield record | ({"bp": "e"} if phase == "f" else {})


def _counters(timeline: Timeline) -> Iterator[Record]:
    """Counters of the device, e.g. memory, and those that follow from each rank's events."""
    ranks = sorted({lane.rank for lane in timeline.lanes})
    told = {counter.name for counter in timeline.counters}
    first = device_process(min(ranks, default=0))
    counters = [(first, counter) for counter in timeline.counters]
    for rank in ranks:
        # A trace of ours that is written again holds them already.
        found = (each for each in trace_counters(timeline, rank) if each.name not in told)
        counters += [(device_process(rank), each) for each in found]
    for process, counter in counters:
        for time_ns, value in zip(counter.time_ns.tolist(), counter.value.tolist(), strict=True):
            yield {
                "ph": "C",
                "pid": process,
                "tid": 0,
                "name": counter.name,
                "ts": time_ns / 1000,
                "args": {counter.unit: value},
            }


@contextmanager
def _complete_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes its name only once it is written without an error."""
    with whole_file(path) as raw:
        if path.suffix == ".gz":
            # No time stamp inside, so that equal timelines give equal files.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                yield from _text(packed)
        else:
            yield from _text(raw)


def _text(raw: Any) -> Iterator[TextIO]:
    """A text layer over a binary file, flushed but not closed at the end."""
    text = io.TextIOWrapper(raw, encoding="utf-8", write_through=False)
    yield text
    text.flush()
    text.detach()
