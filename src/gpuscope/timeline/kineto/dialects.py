"""Chrome traces of other profilers, in Kineto's words: XLA's (JAX, TensorFlow) and Ascend's.

Neither gives its events categories. What ran on a device stands in a process of its own:
"/device:GPU:0" with a thread a stream, or "XLA Ops" of a TPU (the profiler's trace viewer);
"Ascend Hardware" with a thread a stream (the `trace_view.json` of Ascend's PyTorch profiler).
Beside them stand rows that sum the same work up by module, step or name: they are left out.
XLA's marks of steps on the host (`StepTraceAnnotation`) are told as Kineto's, and where the
processor is the device, the HLO instructions that its threads run as operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gpuscope.timeline.kineto.retold import retold
from gpuscope.timeline.kineto.rocprof import copy_name

_XLA = re.compile(r"^(?:/job:\w+/replica:\d+/task:\d+)?/device:(?:GPU|TPU):(\d+)")
_OF_SESSION = re.compile(r"/device:GPU:\d+/stream:(\w+)")
"""A row of TensorFlow's `timeline` of a session: one a stream, and "all" that repeats them."""
_XLA_HOST = re.compile(r"^(?:/job:\w+/replica:\d+/task:\d+)?/host:CPU")
_ASCEND = re.compile(r"^Ascend Hardware")
_SUMMED = re.compile(r"^(?:HCCL|Communication|Overlap Analysis|AI Core Freq|NPU.MEM|CANN)\b")
"""Rows of Ascend's that tell the same work again, or counters."""

_STREAM = re.compile(r"^Stream #?(\d+)")
_WAITS = ("EVENT_WAIT", "EVENT_RECORD", "NOTIFY_WAIT", "NOTIFY_RECORD", "PLACE_HOLDER")


def is_dialect(names: Iterable[str]) -> bool:
    """Return whether names of processes are those of XLA's or Ascend's."""
    return any(known.match(name) for name in names for known in (_XLA, _XLA_HOST, _ASCEND))


def as_kineto(path: Path) -> bytes | None:
    """Return a trace with Kineto's categories on what can be told; None where it is nothing.

    Raises:
        InputFileError: as `retold` raises.
    """
    return retold(path, translated, "cat", ("kernel", "user_annotation", "cpu_op"))


def translated(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events of XLA's or Ascend's, with the categories that Kineto gives."""
    processes = _named(events, "process_name")
    threads = _named(events, "thread_name")
    for event in events:
        process = processes.get((str(event.get("pid")), ""), "")
        if event.get("ph") == "X" and _XLA_HOST.match(process):
            yield _on_host(event)
            continue
        xla, ascend = _XLA.match(process), _ASCEND.match(process)
        if event.get("ph") != "X" or not (xla or ascend or _SUMMED.match(process)):
            yield event
            continue
        thread = threads.get((str(event.get("pid")), str(event.get("tid"))), "")
        category = ""
        session = _OF_SESSION.search(process)
        if session:
            thread = f"Stream {session[1]}"
        if xla:
            category = _of_xla(str(event.get("name")), thread)
        elif ascend:
            category = _of_ascend(str(event.get("name")), event.get("args"))
        if category:
            number = int(xla[1]) if xla and len(xla[1]) < 6 else 0
            yield _on_device(event, category, number, _STREAM.match(thread))


def _named(events: list[dict[str, Any]], what: str) -> dict[tuple[str, str], str]:
    found = {}
    for event in events:
        args = event.get("args")
        if event.get("ph") == "M" and event.get("name") == what and isinstance(args, dict):
            thread = "" if what == "process_name" else str(event.get("tid"))
            found[str(event.get("pid")), thread] = str(args.get("name"))
    return found


def _on_host(event: dict[str, Any]) -> dict[str, Any]:
    """A mark of a step, or an instruction that the processor runs; others as they are."""
    args = event.get("args")
    if not isinstance(args, dict):
        return event
    number = str(args.get("step_num", ""))
    if number.isdecimal() and len(number) < 16:
        return {**event, "cat": "user_annotation", "name": f"ProfilerStep#{number}"}
    return {**event, "cat": "cpu_op"} if args.get("hlo_op") else event


def _of_xla(name: str, thread: str) -> str:
    """A row's category, "" for one that sums others up."""
    if not (_STREAM.match(thread) or thread == "XLA Ops"):
        return ""
    if name.startswith("Memcpy"):
        return "gpu_memcpy"
    return "gpu_memset" if name.startswith("Memset") else "kernel"


def _of_ascend(name: str, args: object) -> str:
    task = str(args.get("Task Type", "")) if isinstance(args, dict) else ""
    kind = task.upper().replace(" ", "_")
    if kind.startswith(_WAITS) or name.upper().replace(" ", "_").startswith(_WAITS):
        return ""
    if "MEMCPY" in kind or kind == "SDMA":
        return "gpu_memcpy"
    return "communication" if name.startswith("hcom_") or "HCCL" in kind else "kernel"


def _on_device(
    event: dict[str, Any], category: str, device: int, stream: re.Match[str] | None
) -> dict[str, Any]:
    args = event.get("args")
    said = dict(args) if isinstance(args, dict) else {}
    said["device"] = device
    if stream is not None and len(stream[1]) < 9:
        said["stream"] = int(stream[1])
    name = event.get("name")
    way = copy_name(str(name)) if category == "gpu_memcpy" else ""
    name = way if "to" in way else name
    return {**event, "cat": category, "name": name, "args": said}
