"""Traces of XLA's and Ascend's profilers, built after what these write (no recording of theirs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import EVENT_KINDS, Timeline


def named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def event(pid: int, tid: int, name: str, ts: object, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


XLA = [
    named("process_name", 2, 0, "/device:GPU:1"),
    named("process_name", 701, 0, "/host:CPU"),
    named("thread_name", 2, 20, "Stream #20(Compute)"),
    named("thread_name", 2, 21, "Stream #21(MemcpyD2H)"),
    named("thread_name", 2, 1, "XLA Modules"),
    named("thread_name", 701, 5, "python"),
    event(2, 20, "fusion_1", 10.0, 5.0, hlo_op="fusion.1"),
    event(2, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 17.0, 3.0),
    event(2, 21, "MemcpyD2H", 21.0, 2.0),
    event(2, 1, "jit_step", 10.0, 13.0),
    event(701, 5, "PjitFunction(step)", 1.0, 30.0),
    event(701, 5, "train", 0.5, 31.0, step_num="4"),
]

TPU = [
    named("process_name", 3, 0, "/device:TPU:0"),
    named("thread_name", 3, 2, "XLA Ops"),
    named("thread_name", 3, 1, "Steps"),
    event(3, 2, "fusion", 10.0, 5.0),
    event(3, 1, "0", 10.0, 5.0),
]

ASCEND = [
    named("process_name", 100, 0, "Python"),
    named("process_name", 200, 0, "Ascend Hardware"),
    named("process_name", 300, 0, "HCCL"),
    named("thread_name", 200, 3, "Stream 3"),
    event(200, 3, "MatMulV2", "1695696245.123", 55.2, **{"Task Type": "AI_CORE"}),
    event(200, 3, "EVENT_WAIT", "1695696310.0", 9.0, **{"Task Type": "EVENT_WAIT"}),
    event(200, 3, "hcom_allReduce_", "1695696345.123", 20.2, **{"Task Type": "AI_CORE"}),
    event(200, 3, "copy", "1695696370.0", 1.0, **{"Task Type": "MEMCPY_ASYNC"}),
    event(300, 1, "hcom_allReduce_", "1695696345.123", 20.2),
    {**event(100, 9, "aten::mm", "1695696240.1", 5.0), "cat": "cpu_op"},
]


def read(tmp_path: Path, events: list[dict[str, Any]], whole: bool = True) -> Timeline:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events} if whole else events))
    return read_trace(path)


def found(timeline: Timeline) -> set[tuple[str, str, int]]:
    events = timeline.events
    rows = zip(events.name, events.kind, events.duration_ns, strict=True)
    return {(timeline.names[name], EVENT_KINDS[kind], int(ns)) for name, kind, ns in rows}


def test_xla_on_a_gpu(tmp_path: Path) -> None:
    timeline = read(tmp_path, XLA)
    assert found(timeline) == {
        ("fusion_1", "kernel", 5000),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication", 3000),
        ("Memcpy DtoH", "memcpy", 2000),
        ("PjitFunction(step)", "other", 30000),
        ("ProfilerStep#4", "step", 31000),
    }
    assert len(timeline.steps) == 1
    assert {(lane.device, lane.kind) for lane in timeline.lanes if lane.device >= 0} == {
        (1, lane.kind) for lane in timeline.lanes if lane.device >= 0
    }
    assert timeline.sources[0].path == str(tmp_path / "t.json")


def test_xla_on_a_tpu(tmp_path: Path) -> None:
    assert found(read(tmp_path, TPU)) == {("fusion", "kernel", 5000)}


def test_ascend(tmp_path: Path) -> None:
    assert found(read(tmp_path, ASCEND, whole=False)) == {
        ("MatMulV2", "kernel", 55200),
        ("hcom_allReduce_", "communication", 20200),
        ("copy", "memcpy", 1000),
        ("aten::mm", "operator", 5000),
    }


@pytest.mark.parametrize("ts", ["x", None])
def test_device_work_that_cannot_be_used_ends(tmp_path: Path, ts: object) -> None:
    """What is told anew is told once: no trace is rewritten again and again."""
    events = [*XLA[:6], event(2, 20, "k", ts, 1.0), event(701, 5, "f", 1.0, 2.0)]
    assert found(read(tmp_path, events)) == {("f", "other", 2000)}


def test_a_session_s_timeline_of_tensorflow_1(tmp_path: Path) -> None:
    job = "/job:localhost/replica:0/task:0/device:GPU:0"
    path = tmp_path / "timeline.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [
                    named("process_name", 5, 0, f"{job}/stream:14 Compute"),
                    named("process_name", 6, 0, f"{job}/stream:all Compute"),
                    named("process_name", 7, 0, "/job:localhost/replica:0/task:0/cpu:0 Compute"),
                    event(5, 0, "MatMul", 10.0, 5.0),
                    event(6, 0, "MatMul", 10.0, 5.0),
                    event(7, 0, "Placeholder", 1.0, 1.0),
                ]
            }
        )
    )
    timeline = read_trace(path)
    kernels = timeline.events.kind == EVENT_KINDS.index("kernel")
    assert kernels.sum() == 1
    assert [lane.name for lane in timeline.lanes if lane.kind == "stream"] == ["stream 14"]
