"""Real traces: unions against plain arithmetic on the JSON, and against figures made elsewhere."""

import gzip
import json
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from kineto_traces import RECORDED, SHARED

from gpuscope.analysis.time_classes import rank_time
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS

REFERENCE = (
    json.loads((SHARED / "reference.json").read_text())
    if (SHARED / "reference.json").exists()
    else []
)
FIELDS = {
    "span_us": "span_s",
    "busy_us": "busy_s",
    "idle_us": "idle_s",
    "compute_union_us": "compute_s",
    "comm_union_us": "communication_s",
    "mem_union_us": "copy_s",
}

WITHOUT_COPIES = "resnet50_num_workers"
"""The figures of these two leave out the categories "Memcpy" and "Memset" of 2021's schema."""


def classes(timeline) -> dict[str, int]:
    """Our classes in nanoseconds."""
    time = rank_time(timeline, timeline.sources[0].rank)
    return {name: round(getattr(time, field) * 1e9) for name, field in FIELDS.items()}


@cache
def timeline_of(path):
    return read_trace(path)


@cache
def text_intervals(path) -> list[tuple[str, str, int, int]]:
    """(category, name, start, end) of the GPU work, in nanoseconds from the decimal text."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    data = json.loads(text, strict=False, parse_float=Decimal)
    events = data["traceEvents"] if isinstance(data, dict) else data
    found = []
    for e in events:
        cat = str(e.get("cat", "")).lower()
        if e.get("ph") == "X" and cat in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            start, length = round(e["ts"] * 1000), round(e["dur"] * 1000)
            found.append((cat, e["name"], start, start + length))
    return found


def union(spans) -> int:
    """Length of a union, the slow and obvious way."""
    total, reach = 0, None
    for start, end in sorted(spans):
        if reach is None or start > reach:
            total += end - start
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total


def by_hand(path, communication: set[str]) -> dict[str, int]:
    """The classes; communication kernels are named by their first 60 characters."""
    work = text_intervals(path)
    every = [(a, b) for _, _, a, b in work]
    kernels = [(n, a, b) for c, n, a, b in work if c == "kernel"]
    span = max(b for _, b in every) - min(a for a, _ in every)
    busy = union(every)
    return {
        "span_us": span,
        "busy_us": busy,
        "idle_us": span - busy,
        "compute_union_us": union((a, b) for n, a, b in kernels if n[:60] not in communication),
        "comm_union_us": union((a, b) for n, a, b in kernels if n[:60] in communication),
        "mem_union_us": union((a, b) for c, _, a, b in work if c != "kernel"),
    }


@pytest.mark.skipif(not REFERENCE, reason="the collected traces are not beside the repository")
@pytest.mark.parametrize("entry", REFERENCE, ids=lambda entry: entry["path"])
def test_unions_equal_the_reference(entry):
    path = SHARED / entry["path"]
    timeline = timeline_of(path)
    ours = classes(timeline)
    # Exactly what the text says, digit for digit.
    assert ours == by_hand(path, set(entry["comm_names"]))
    # The reference was computed in doubles of microseconds. Those near 1.7e15 are multiples of
    # 0.25 us, those near 4e12 of 0.5 ns or 1 ns: it can be off by one such unit at each edge.
    starts = [abs(start) / 1000 for _, _, start, _ in text_intervals(path)]
    unit_ns = float(np.spacing(max(starts))) * 1000
    whole = all(start % 1000 == 0 and end % 1000 == 0 for _, _, start, end in text_intervals(path))
    slack = 0.001 if whole else unit_ns * entry["n_gpu"] + 1
    compared = {"compute_union_us"} if WITHOUT_COPIES in entry["path"] else set(FIELDS)
    for name in compared:
        assert abs(ours[name] - entry[name] * 1000) <= slack, name
    recorded_kinds = timeline.events.kind[timeline.recorded.event]
    kernels = int((recorded_kinds < EVENT_KINDS.index("memcpy")).sum())
    counted = kernels if WITHOUT_COPIES in entry["path"] else len(timeline.recorded)
    assert counted == entry["n_gpu"]


@pytest.mark.skipif(not REFERENCE, reason="the collected traces are not beside the repository")
@pytest.mark.parametrize("entry", REFERENCE, ids=lambda entry: entry["path"])
def test_communication_names_and_overlap_equal_the_reference(entry):
    timeline = timeline_of(SHARED / entry["path"])
    rows = timeline.events.kind == EVENT_KINDS.index("communication")
    names = {timeline.names[n][:60] for n in np.unique(timeline.events.name[rows]).tolist()}
    assert names == set(entry["comm_names"])
    wanted = entry["comm_overlapped_by_compute_pct"]
    if wanted is not None:
        time = rank_time(timeline, timeline.sources[0].rank)
        overlap = 1 - time.exposed_communication_s / time.communication_s
        assert 100 * overlap == pytest.approx(wanted, abs=0.006)


@pytest.mark.skipif(not REFERENCE, reason="the collected traces are not beside the repository")
def test_no_trace_is_refused_and_none_is_cut_off():
    for path in sorted(SHARED.glob("**/*.json.gz")):
        source = timeline_of(path).sources[0]
        assert source.events_read > 0, path
        assert not source.cut_off, path
        assert source.events_skipped == 0, path


RECORDINGS = sorted(RECORDED.glob("**/rank-*.json.gz"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: str(path.relative_to(RECORDED)))
def test_recordings_of_the_project(path):
    timeline = timeline_of(path)
    source, recorded, events = timeline.sources[0], timeline.recorded, timeline.events
    names = {n[:60] for _, n, _, _ in text_intervals(path) if "nccl" in n}
    assert classes(timeline) == by_hand(path, names)
    unmarked = {"resnet50_channels_last", "tensor_parallel_one_rank"}
    assert len(timeline.steps) == (0 if path.parent.name in unmarked else 3)
    assert source.devices[0].name == "NVIDIA H200"
    if "4xh200" in str(path):
        assert (source.rank, source.world_size) == (int(path.stem[5]), 4)
    # Work launched within the recorded window has its launch on the host, which came before.
    linked = recorded.launch >= 0
    assert linked.any()
    begun = events.start_ns[recorded.launch[linked]]
    assert (begun <= events.start_ns[recorded.event[linked]]).all()
    assert (events.kind[recorded.launch[linked]] >= DEVICE_KINDS).all()


def test_collectives_of_a_sharded_run_are_told_in_full():
    timeline = read_trace(RECORDED / "4xh200" / "fsdp" / "rank-1.json.gz")
    told = {
        (c.name, c.group_ranks, c.dtype, c.in_elements, c.out_elements)
        for c in timeline.collectives
        if c.group
    }
    four = (0, 1, 2, 3)
    assert ("all_gather", four, "bfloat16", 4195328, 16781312) in told
    assert ("reduce_scatter", four, "bfloat16", 16781312, 4195328) in told


def test_graph_kernels_are_marked_and_modules_come_from_python_frames():
    decode = read_trace(RECORDED / "h200" / "graph_decode" / "rank-0.json.gz")
    linked = decode.recorded.launch >= 0
    assert linked.sum() == 3600, "three steps of 20 replays of 60 kernels"
    assert (decode.recorded.graph[linked] == 0).all()
    host = read_trace(RECORDED / "h200" / "host_bound" / "rank-0.json.gz")
    layers = {op.module for op in host.ops if op.phase == "forward"}
    assert {f"Sequential_0.Linear_{n}" for n in range(40)} <= layers
    backward = {op.module for op in host.ops if op.phase == "backward"}
    assert {f"Sequential_0.Linear_{n}" for n in range(40)} <= backward
