"""XLA's profile (xplane): what is read of one recorded on a CPU, and of one built to its format."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from xplanes import message, on_a_gpu, plane, profile

from gpuscope.document.typed import MisfitError
from gpuscope.document.wire import fields
from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.engine_reports import read_report
from gpuscope.timeline.trace_files import find_traces, kind_of
from gpuscope.timeline.types import EVENT_KINDS, Timeline

FOLDER = Path(__file__).parents[1] / "data" / "traces" / "jax"
CPU, VIEWER = FOLDER / "cpu.xplane.pb", FOLDER / "cpu.trace.json.gz"


def found(timeline: Timeline, kind: str) -> list[tuple[str, int, int]]:
    """Name, start and duration in nanoseconds of the events of a kind."""
    events, wanted = timeline.events, EVENT_KINDS.index(kind)
    rows = zip(events.name, events.start_ns, events.duration_ns, events.kind, strict=True)
    return [(timeline.names[n], int(s), int(d)) for n, s, d, k in rows if k == wanted]


def write(folder: Path, raw: bytes, name: str = "host.xplane.pb") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_work_is_tied_to_its_launch_operation_and_scope(tmp_path: Path, packed: bool) -> None:
    raw = on_a_gpu()
    timeline = read_report(write(tmp_path, gzip.compress(raw) if packed else raw))
    assert found(timeline, "kernel") == [("gemm_fusion_dot", 2000, 5000)]
    assert found(timeline, "memcpy") == [("Memcpy DtoH", 9000, 1500)]
    assert [name for name, _, _ in found(timeline, "launch")] == [
        "cuLaunchKernelEx",
        "cuMemcpyDtoHAsync_v2",
    ]
    assert [name for name, _, _ in found(timeline, "python")] == ["train.py(12): step"]
    recorded = timeline.recorded
    assert recorded is not None
    assert (recorded.launch >= 0).all()
    op = timeline.ops[timeline.events.op[timeline.events.kind == 0][0]]
    assert (op.name, op.module) == ("dot_general", "Model.mlp")
    assert [(s.start_ns, s.end_ns) for s in timeline.steps] == [(0, 6000), (6000, 12000)]
    assert timeline.sources[0].devices[0].sm_count == 132


def test_xla_on_a_cpu_is_the_host_s_operators() -> None:
    """Recorded: four marked steps of two products, JAX 0.11 on a processor; both forms agree."""
    assert kind_of(CPU) == "engine"
    own, viewer = load(CPU), load(VIEWER)
    assert any("command buffer" in note for note in own.assumptions)
    assert own.timeline is not None
    assert viewer.timeline is not None
    named = Counter(name for name, _, _ in found(own.timeline, "operator"))
    assert named["ynn_fusion"] == named["ynn_fusion.1"] == 4  # the two products, once a step
    assert named == Counter(name for name, _, _ in found(viewer.timeline, "operator"))
    lengths = [[s.end_ns - s.start_ns for s in run.timeline.steps] for run in (own, viewer)]
    assert len(lengths[0]) == 4
    assert lengths[0] == lengths[1]


def test_a_tpu_s_operations_are_its_kernels(tmp_path: Path) -> None:
    lines = {"XLA Ops": [("fusion.1", 0, 3_000_000, {})], "Steps": [("0", 0, 9_000_000, {})]}
    raw = profile(plane("/device:TPU:1", lines))
    timeline = read_report(write(tmp_path, raw))
    assert found(timeline, "kernel") == [("fusion.1", 0, 3000)]
    assert {lane.device for lane in timeline.lanes if lane.kind == "stream"} == {1}


def test_the_newest_run_of_a_folder_is_read_once(tmp_path: Path) -> None:
    runs = tmp_path / "plugins" / "profile"
    write(runs / "2026_11_27_09_00_00", on_a_gpu())
    newest = write(runs / "2026_11_28_09_00_00", on_a_gpu())
    trace = gzip.compress(b'{"displayTimeUnit": "ns", "traceEvents": []}')
    write(newest.parent, trace, "host.trace.json.gz")
    listed = find_traces(tmp_path)
    assert [file.path for file in listed.files] == [newest]
    assert any("2 runs" in note for note in listed.notes)
    assert any("host.trace.json.gz" in note for note in listed.notes)


def test_what_is_cut_off_or_without_times_is_refused(tmp_path: Path) -> None:
    raw = on_a_gpu()
    with pytest.raises(InputFileError, match="damaged"):
        read_report(write(tmp_path, raw[: len(raw) - 40]))
    with pytest.raises(InputFileError, match="no times") as caught:
        read_report(write(tmp_path, profile(plane("/host:CPU", {}))))
    assert "start_trace" in caught.value.next_step


def test_the_wire_format_by_hand() -> None:
    """The examples of protobuf.dev: 150 is 96 01, "testing" is its length and letters."""
    assert list(fields(bytes.fromhex("089601120774657374696e67"))) == [(1, 150), (2, b"testing")]
    assert list(fields(b"\x0d\1\2\3\4\x11" + bytes(8))) == [(1, b"\1\2\3\4"), (2, bytes(8))]
    assert list(fields(message((1, 2**40), (3, "é")))) == [(1, 2**40), (3, "é".encode())]
    for damaged in (b"\x08", b"\x12\x05ab", b"\x0b", b"\x08" + b"\xff" * 11):
        with pytest.raises(MisfitError):
            list(fields(damaged))


@pytest.mark.parametrize("name", ["h200.xplane.pb", "h200.trace.json.gz"])
def test_xla_on_an_h200(name: str) -> None:
    """Recorded: three marked steps of two batched products and a softmax between, JAX 0.11.2."""
    run = load(FOLDER / name)
    kernels = Counter(name for name, _, _ in found(run.timeline, "kernel"))
    assert sum(kernels.values()) == 9
    assert all(count % 3 == 0 for count in kernels.values())
    assert len(found(run.timeline, "memset")) == 3
    assert len(run.timeline.steps) == 3
    # 244 us a step without the profiler; under it each is waited for.
    assert run.device_busy_s == pytest.approx(241e-6, rel=0.01)
    assert run.step_time_s > 500e-6


def test_kernels_know_their_operation_where_no_launch_was_recorded() -> None:
    """JAX 0.11 on an H200 notes no calls of the driver: the kernels say it themselves."""
    run = load(FOLDER / "h200.xplane.pb")
    assert run.timeline is not None
    timeline = run.timeline
    kernels = timeline.events.kind == EVENT_KINDS.index("kernel")
    assert (timeline.events.op[kernels] >= 0).all()
    assert timeline.sources[0].devices[0].name == "NVIDIA H200"


def test_an_operation_in_a_transposed_scope_is_of_the_backward_pass(tmp_path: Path) -> None:
    facts = {"correlation_id": 3, "name": "jit(step)/transpose(jvp(Model))/mlp/dot_general",
             "hlo_op": "gemm.2"}  # fmt: skip
    lines = {"Stream #1(Compute)": [("gemm", 0, 3_000_000, facts)]}
    timeline = read_report(write(tmp_path, profile(plane("/device:GPU:0", lines))))
    (op,) = timeline.ops
    assert (op.name, op.module, op.phase) == ("dot_general", "Model.mlp", "backward")
