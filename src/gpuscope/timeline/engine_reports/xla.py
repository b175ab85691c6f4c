"""XLA's profile in its own form (`*.xplane.pb` of JAX, TensorFlow, PyTorch/XLA).

Format: openxla/xprof, `xplane.proto`: planes (a device, or the host's threads) of lines (a stream,
a thread) of events, whose names and further facts ("stats") stand in tables of their plane. Unlike
the `.trace.json.gz` beside it, it ties launches to what they started (`correlation_id`), has grids,
and the operation of the program that each kernel was compiled from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.document.wire import fields, whole, within, words
from gpuscope.program.types import Op, Phase
from gpuscope.timeline.engine_reports.reports import Event, Report
from gpuscope.timeline.kineto.rocprof import copy_name
from gpuscope.timeline.kineto.vocabulary import MODULE_MARK
from gpuscope.timeline.types import DEVICE_KINDS, Timeline

_BEGIN = re.compile(rb"\x0a[\s\S]{1,8}\x12[\x05-\x7f](?:/host:|/device:|Task Environment)")
_DEVICE = re.compile(r"/device:(GPU|TPU):(\d{1,5})$")
_HOST = re.compile(r"/host:(?:CPU|CUPTI|ROCTRACER)$")
_STREAM = re.compile(r"Stream #?(\d{1,9})")
_CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]")
_COPY = re.compile(r"Memcpy|Copy(?:Device|Host)|Memset", re.I)
_PYTHON = re.compile(r"\$(\S+?\.py):(\d+) (\S+)")
_SHAPE = re.compile(r"grid:(\d{1,10}),(\d{1,10}),(\d{1,10}) block:(\d{1,5}),(\d{1,5}),(\d{1,5})")
_BYTES = re.compile(r"\bsize:(\d{1,18})\b")
_WRAPPED = re.compile(r"\w+\(|\)")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")

_Facts = dict[str, Any]


@dataclass(slots=True)
class _Plane:
    """A device or a host: what its tables and lines say."""

    name: str = ""
    lines: list[bytes] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    own: list[bytes] = field(default_factory=list)


def _events(raw: bytes) -> Iterator[Event]:
    """Device work of all planes, then the host's threads."""
    planes = list(_planes(raw))
    brought: set[int] = set()
    for number, plane in enumerate(planes):
        device = _DEVICE.match(plane.name)
        for event in _on_device(plane, device, number) if device else ():
            brought.add(event["args"].get("correlation", -1))
            yield event
    for number, plane in enumerate(planes):
        if _HOST.match(plane.name):
            yield from _on_host(plane, number, brought)


def _devices(raw: bytes) -> Iterator[Event]:
    """The devices, as a trace of Kineto's describes them."""
    for plane in _planes(raw):
        device = _DEVICE.match(plane.name)
        if device:
            said = _facts(plane.own, plane.stats)
            yield {
                "id": int(device[2]),
                "name": str(said.get("gpu_device_name") or said.get("device_type_string") or ""),
                "totalGlobalMem": said.get("memory_size", 0),
                "numSms": said.get("core_count", 0),
            }


def _planes(raw: bytes) -> Iterator[_Plane]:
    for number, message in fields(raw):
        if number == 1:
            found = _Plane()
            for part, value in within(message):
                if part == 2:
                    found.name = words(value)
                elif part in (3, 6) and isinstance(value, bytes):
                    (found.lines if part == 3 else found.own).append(value)
                elif part in (4, 5):
                    key, name = _entry(value)
                    (found.events if part == 4 else found.stats)[key] = name
            yield found


def _entry(message: int | bytes) -> tuple[int, str]:
    """One entry of a table: its number, and its name (that to display, where there is one)."""
    both = dict(within(message))
    told = dict(within(both.get(2, b"")))
    return whole(both.get(1, 0)), words(told.get(4, b"")) or words(told.get(2, b""))


def _facts(messages: list[bytes], names: dict[int, str]) -> _Facts:
    """The stats of an event or a plane by name: whole numbers and texts."""
    found: _Facts = {}
    for message in messages:
        said = dict(fields(message))
        name = names.get(whole(said.pop(1, 0)), "")
        for number, value in said.items():
            if number in (3, 4):
                found[name] = whole(value)
            elif number == 5:
                found[name] = words(value)
            elif number == 7:
                found[name] = names.get(whole(value), "")
    return found


def _on_device(plane: _Plane, device: re.Match[str], pid: int) -> Iterator[Event]:
    for number, line in enumerate(plane.lines):
        title, events = _line(plane, line)
        stream = _STREAM.match(title)
        if not stream and not (device[1] == "TPU" and title == "XLA Ops"):
            continue  # rows that sum the same work up by module, step or scope
        tid = int(stream[1]) if stream else number
        for event, facts in events:
            args = {"device": int(device[2]), "stream": tid, **_said(facts)}
            category = _category(event, facts)
            name = copy_name(event["name"]) if category == "gpu_memcpy" else event["name"]
            told = {"name": name, "cat": category, "pid": pid, "tid": tid, "args": args}
            yield {**event, **told}


def _category(event: Event, facts: _Facts) -> str:
    name = str(event["name"])
    if not facts.get("memcpy_details") and not _COPY.match(name):
        return "kernel"
    return "gpu_memset" if name.lower().startswith("memset") else "gpu_memcpy"


def _said(facts: _Facts) -> Event:
    """What Kineto says of device work: its launch, its grid and block, its bytes."""
    args: Event = {}
    if facts.get("correlation_id"):
        args["correlation"] = facts["correlation_id"]
    shape = _SHAPE.search(str(facts.get("kernel_details") or ""))
    if shape:
        sizes = [int(each) for each in shape.groups()]
        args |= {"grid": sizes[:3], "block": sizes[3:]}
    size = _BYTES.search(str(facts.get("memcpy_details") or ""))
    return args | ({"bytes": int(size[1])} if size and int(size[1]) else {})


def _on_host(plane: _Plane, pid: int, brought: set[int]) -> Iterator[Event]:
    for tid, line in enumerate(plane.lines):
        for event, facts in _line(plane, line)[1]:
            at: Event = {**event, "pid": pid, "tid": tid, "args": {}}
            call = facts.get("correlation_id")
            python = _PYTHON.match(event["name"])
            if call and _CALL.match(event["name"]):
                if call in brought:
                    yield from _compiled_from(at, facts)
                yield {**at, "cat": "cuda_runtime", "args": {"correlation": call}}
            elif "step_num" in facts:
                yield {**at, "cat": "user_annotation", "name": f"ProfilerStep#{facts['step_num']}"}
            elif python:
                name = f"{python[1]}({python[2]}): {python[3]}"
                yield {**at, "cat": "python_function", "name": name}
            elif "hlo_op" in facts:  # XLA on a CPU: the thread itself works
                yield from _compiled_from(at, facts)
            elif event["dur"] > 0:
                yield {**at, "cat": "other"}


def _compiled_from(at: Event, facts: _Facts) -> Iterator[Event]:
    """What a call does: the operation of the program, and the scopes that it stands in."""
    operation, scope, _ = _operation(facts)
    if scope:
        yield {**at, "cat": "user_annotation", "name": MODULE_MARK + scope}
    if operation:
        yield {**at, "cat": "cpu_op", "name": operation}


def _operation(facts: _Facts) -> tuple[str, str, Phase]:
    """The operation of the program, the scopes that it stands in, and its phase.

    They are one path: "jit(step)/transpose(jvp(Model))/mlp/dot_general" is of the backward pass.
    """
    path = str(facts.get("name") or facts.get("hlo_op") or "").split("/")
    inner = (_WRAPPED.sub("", part) for part in path[:-1] if not part.startswith("jit("))
    scope = ".".join(part for part in inner if _IDENTIFIER.fullmatch(part))
    backward = any(part.startswith("transpose(") for part in path)
    return path[-1], scope, "backward" if backward else "forward"


def _with_operations(raw: bytes, timeline: Timeline) -> Timeline:
    """Kernels with the operation that they were compiled from, launched in the recording or not."""
    known: dict[int, tuple[str, str, Phase]] = {}
    for plane in _planes(raw):
        for line in plane.lines if _DEVICE.match(plane.name) else ():
            for _, facts in _line(plane, line)[1]:
                if facts.get("correlation_id") and "hlo_op" in facts:
                    known[facts["correlation_id"]] = _operation(facts)
    events, ops = timeline.events, list(timeline.ops)
    places: dict[tuple[str, str, Phase], int] = {}
    column = events.op.copy()
    for row in np.flatnonzero(events.kind < DEVICE_KINDS).tolist():
        said = known.get(int(events.correlation[row]), ("", "", "forward"))
        if said[0]:
            if said not in places:
                places[said] = len(ops)
                name, scope, phase = said
                ops.append(Op(len(ops), name, "default", module=scope, phase=phase))
            column[row] = places[said]
    return replace(timeline, ops=tuple(ops), events=replace(events, op=column))


def _line(plane: _Plane, message: bytes) -> tuple[str, list[tuple[Event, _Facts]]]:
    """A line's name, and its events with their facts; times are exact to the nanosecond."""
    title, begin_ns = "", 0
    listed = []
    for number, value in fields(message):
        if number == 11 or (number == 2 and not title):
            title = words(value)
        elif number == 3:
            begin_ns = whole(value)
        elif number == 4 and isinstance(value, bytes):
            listed.append(value)
    made = []
    for message in listed:
        said = {number: value for number, value in fields(message) if number != 4}
        name = plane.events.get(whole(said.get(1, 0)), "")
        if name and (2 in said or 3 in said):
            at = begin_ns + whole(said.get(2, 0)) // 1000
            stats = [v for n, v in fields(message) if n == 4 and isinstance(v, bytes)]
            times = {"ts": f"{at // 1000}.{at % 1000:03d}", "dur": whole(said.get(3, 0)) / 1e6}
            made.append(({"ph": "X", "name": name, **times}, _facts(stats, plane.stats)))
    return title, made


REPORTS = (
    Report(
        "xplane",
        _BEGIN,
        _events,
        Text(
            "XLA's profile holds kernels by stream, the calls that launch them, and the operation "
            "that each was compiled from. Shapes, memory, and which rank of a job a host is are "
            "not in it; kernels of a command buffer (CUDA graph) have no operation."
        ),
        Text("Record steps on a GPU or TPU between jax.profiler.start_trace and stop_trace."),
        _devices,
        _with_operations,
    ),
)
