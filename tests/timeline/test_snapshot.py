"""Memory snapshots: known answers by hand, and files that are anything but snapshots."""

from __future__ import annotations

import collections
import contextlib
import copy
import os
import pickle
import resource
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshots import MIB, STATE, TORCH, USER_STEP, block, event, frame, segment, training

from gpuscope.errors import InputFileError
from gpuscope.timeline.snapshot import DeviceMemory, read_snapshot
from gpuscope.timeline.snapshot.frames import category, user_frame
from gpuscope.timeline.snapshot.read import snapshot_of
from gpuscope.timeline.snapshot.unpickle import load_plain


def saved(folder: Path, data: object, protocol: int = 4) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(data, protocol=protocol))
    return path


@pytest.fixture
def memory(tmp_path: Path) -> DeviceMemory:
    return snapshot_of(saved(tmp_path, training())).devices[0]


def test_the_curve_is_exact(memory: DeviceMemory) -> None:
    assert (memory.allocated_bytes // MIB).tolist() == [8, 14, 24, 14, 14, 22, 16, 16, 16, 20]
    assert (memory.reserved_bytes // MIB).tolist() == [34] * 8 + [38, 38]
    assert (memory.time_ns // 1000).tolist() == [0, 0, 10, 20, 21, 30, 40, 40, 50, 50]
    assert memory.timed
    assert memory.history


def test_the_peak_and_what_holds_it(memory: DeviceMemory) -> None:
    assert memory.peak_bytes == 24 * MIB
    assert memory.peak_time_ns == 10_000
    assert memory.at_peak == {"activation": 16 * MIB, "parameter": 8 * MIB}
    assert memory.holders == (
        ("train.py:42 forward", 16 * MIB, 2),
        ("train.py:5 build", 8 * MIB, 1),
    )


def test_the_state_at_the_end(memory: DeviceMemory) -> None:
    assert memory.end_allocated_bytes == 20 * MIB
    assert memory.end_reserved_bytes == 38 * MIB
    assert memory.fragmented_bytes == 16 * MIB
    assert memory.cached_bytes == 2 * MIB
    assert memory.largest_free_bytes == 16 * MIB
    assert memory.out_of_memory == ()


def test_blocks_from_before_the_recording(tmp_path: Path) -> None:
    data = training()
    trace = data["device_traces"][0]
    trace.insert(2, event("free_requested", 96 * MIB, 3 * MIB, 115))
    memory = snapshot_of(saved(tmp_path, data)).devices[0]
    assert memory.peak_bytes == 27 * MIB
    assert memory.at_peak["unknown"] == 3 * MIB
    assert ("before the recording", 3 * MIB, 1) in memory.holders
    assert sum(memory.at_peak.values()) == memory.peak_bytes


def test_without_a_history_it_is_the_moment(tmp_path: Path) -> None:
    data = {**training(), "device_traces": []}
    memory = snapshot_of(saved(tmp_path, data)).devices[0]
    assert not memory.history
    assert memory.peak_bytes == 20 * MIB
    assert memory.at_peak == {"parameter": 8 * MIB, "gradient": 8 * MIB, "optimizer_state": 4 * MIB}
    assert memory.time_ns.tolist() == [0]


def test_times_that_are_not_recorded(tmp_path: Path) -> None:
    data = training()
    for entry in data["device_traces"][0]:
        del entry["time_us"]
    memory = snapshot_of(saved(tmp_path, data)).devices[0]
    assert not memory.timed
    assert memory.peak_bytes == 24 * MIB


def test_out_of_memory_is_told(tmp_path: Path) -> None:
    data = training()
    data["device_traces"][0].append(
        {
            "action": "oom",
            "size": 40 * MIB,
            "device_free": 5 * MIB,
            "stream": 0,
            "frames": STATE,
            "time_us": 160,
        }
    )
    (failure,) = snapshot_of(saved(tmp_path, data)).devices[0].out_of_memory
    assert failure.requested_bytes == 40 * MIB
    assert failure.device_free_bytes == 5 * MIB
    assert failure.allocated_bytes == 20 * MIB
    assert failure.reserved_bytes == 38 * MIB
    assert failure.frame == "train.py:60 step"


def test_several_devices_and_the_format_of_2022(tmp_path: Path) -> None:
    data = training()
    data["segments"].append(segment(0, [block(0, MIB)], device=3))
    assert [d.device for d in snapshot_of(saved(tmp_path, data)).devices] == [0, 3]
    old = [
        {
            "address": 0,
            "total_size": 4 * MIB,
            "blocks": [
                {
                    "size": 3 * MIB,
                    "state": "active_allocated",
                    "history": [{"addr": 0, "real_size": 3 * MIB, "frames": STATE}],
                },
                {"size": MIB, "state": "inactive"},
            ],
        }
    ]
    memory = snapshot_of(saved(tmp_path, old)).devices[0]
    assert memory.at_peak == {"optimizer_state": 3 * MIB}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(tmp_path: Path, protocol: int) -> None:
    path = saved(tmp_path, training(), protocol)
    assert snapshot_of(path).devices[0].peak_bytes == 24 * MIB


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_curve_is_what_an_allocator_would_count(tmp_path_factory, data) -> None:
    """Random allocations and frees; the history begins anywhere and never changes the answer."""
    live: dict[int, int] = {}
    trace, counts = [], [0]
    for number in range(data.draw(st.integers(1, 40))):
        if live and data.draw(st.booleans()):
            address = data.draw(st.sampled_from(sorted(live)))
            trace.append(event("free_requested", address, live.pop(address), number))
        else:
            size = data.draw(st.integers(1, 20)) * 512
            live[number << 20] = size
            trace.append(event("alloc", number << 20, size, number, STATE))
        counts.append(sum(live.values()))
    first = data.draw(st.integers(0, len(trace)))
    blocks = [block(address, size) for address, size in live.items()]
    segments = [segment(0, blocks)] if blocks else []
    snapshot = {"segments": segments, "device_traces": [trace[first:]]}
    if not blocks and first == len(trace):
        return
    path = saved(tmp_path_factory.mktemp("s"), snapshot)
    memory = snapshot_of(path).devices[0]
    assert memory.allocated_bytes.tolist() == counts[first:]
    assert memory.peak_bytes == max(counts[first:])
    assert sum(memory.at_peak.values()) == memory.peak_bytes
    assert sum(nbytes for _, nbytes, _ in memory.holders) == memory.peak_bytes


# -- frames ---------------------------------------------------------------------------------------


def test_the_users_line_comes_before_libraries() -> None:
    library = frame("forward", "/x/site-packages/transformers/models/gpt2.py", 7)
    torch = frame("linear", "/x/site-packages/torch/nn/functional.py", 1)
    native = frame("c10::Allocator", "/pytorch/c10/cuda/CUDACachingAllocator.cpp", 3)
    assert user_frame([native, torch, library, frame("main", "/w/torch_train/run.py", 9)]) == (
        "run.py:9 main"
    )
    assert user_frame([native, torch, library]) == "gpt2.py:7 forward"
    assert user_frame([native, torch]) == "CUDACachingAllocator.cpp:3 c10::Allocator"
    assert user_frame([]) == ""


def test_what_no_frame_tells_is_unknown() -> None:
    assert category([frame("main")]) == "unknown"
    assert category([frame("all_reduce", "/x/site-packages/torch/distributed/x.py")]) == (
        "communication"
    )
    backward = frame("_engine_run_backward", "/x/site-packages/torch/autograd/graph.py")
    assert category([backward]) == "made in backward"


# -- what is not a snapshot -----------------------------------------------------------------------


class _Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_code_in_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    path = saved(tmp_path, {"segments": [_Evil(str(target))]})
    with pytest.raises(InputFileError, match=r"asks for the Python object (posix|nt)\.mkdir"):
        read_snapshot(path)
    assert not target.exists()


@pytest.mark.parametrize("value", [collections.OrderedDict(a=1), Path("x"), 1j, range(3), KeyError])
def test_even_harmless_classes_are_refused(tmp_path: Path, value) -> None:
    with pytest.raises(InputFileError, match="asks for the Python object"):
        load_plain(saved(tmp_path, {"segments": value}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (pickle.dumps({"segments": []})[:-3], "cut off"),
        (b"\x80\x04", "cut off"),
        (b"hello", "not a readable pickle"),
        (b"\x80\xff.", "not a readable pickle"),
        (b"Pabc\n.", "refers to objects outside"),
        (pickle.dumps({"a": 1}), "no list 'segments'"),
        (pickle.dumps([1, 2]), "holds no memory"),
        (pickle.dumps({"segments": [], "device_traces": [[]]}), "holds no memory"),
    ],
)
def test_other_files_are_clear_errors(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.pickle"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=message) as caught:
        snapshot_of(path)
    assert caught.value.next_step


def woven(depth: int) -> bytes:
    """A pickle with a key of pairs in pairs, the same twice each: its hash takes 2^depth steps."""
    pairs = b"".join(b"h%c\x86\x94" % i for i in range(depth))
    return b"\x80\x04}K\x01K\x01\x86\x94" + pairs + b"K\x01s."


@contextlib.contextmanager
def bounded():
    """Memory as a reading apart has it: damaged bytes may ask for all there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        # Claims of many gigabytes in a few bytes: an index of the memo.
        (b"\x80\x04]r\xfe\xff\xff\xff.", "of memory"),
        (woven(40), "takes more than"),
    ],
)
def test_a_small_file_of_great_cost_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str
) -> None:
    """152 bytes kept a reader busy for ever, and another took all memory of its process."""
    monkeypatch.setenv("GPUSCOPE_LIMITS", "0.1")
    path = tmp_path / "small.pickle"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match="costs more to read") as caught:
        read_snapshot(path)
    assert why in caught.value.why
    assert "GPUSCOPE_LIMITS=1" in caught.value.next_step


def test_the_limits_of_a_reading_hit_no_other_thread(tmp_path: Path) -> None:
    """The address space of the whole process was limited while a pickle was read."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    seen = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(resource.getrlimit(resource.RLIMIT_AS))
            time.sleep(0.001)

    thread = threading.Thread(target=look)
    thread.start()
    read_snapshot(saved(tmp_path, training()))
    done.set()
    thread.join()
    assert seen == {before}


@pytest.mark.parametrize(
    "change",
    [
        {"segments": [{"device": 0, "total_size": 512, "blocks": 7}]},
        {"segments": [{"device": -1, "total_size": 512, "blocks": []}]},
        {"segments": [segment(0, [block(0, 2**61) for _ in range(20)])]},
        {"device_traces": [[event("alloc", i, 2**61, 1) for i in range(20)]]},
        {"device_traces": [[event("alloc", 10**30, 512, 10**18) for _ in range(20)]]},
        {"device_traces": [[event("alloc", 0, 512, 1, [frame("f", line=10**5000)])]]},
    ],
)
def test_values_that_no_device_has_are_left_out_or_refused(tmp_path: Path, change) -> None:
    with contextlib.suppress(InputFileError):
        memory = snapshot_of(saved(tmp_path, {**training(), **change})).devices[0]
        assert 0 <= memory.peak_bytes < 2**62


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        snapshot_of(tmp_path / "none.pickle")


def test_wrong_types_inside_are_left_out(tmp_path: Path) -> None:
    data = training()
    data["segments"] += [None, 5, {"blocks": [None, {"size": "x", "state": 3}], "device": "a"}]
    data["device_traces"][0] += [None, {"action": 7}, {"action": "alloc", "size": "big"}]
    memory = snapshot_of(saved(tmp_path, data)).devices[0]
    assert memory.peak_bytes == 24 * MIB
    assert memory.skipped == 3


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_damaged_bytes_give_an_answer_or_a_clear_error(tmp_path_factory, rng) -> None:
    content = bytearray(pickle.dumps(copy.deepcopy(training())))
    for _ in range(rng.randint(1, 6)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    if rng.random() < 0.3:
        del content[rng.randrange(len(content)) :]
    path = tmp_path_factory.mktemp("fuzz") / "s.pickle"
    path.write_bytes(bytes(content))
    with contextlib.suppress(InputFileError, MemoryError), bounded():
        snapshot_of(path)


IN_STEP = [frame("step", f"{TORCH}/optim/adamw.py", 120), USER_STEP]
UPDATE = [frame("_multi_tensor_adamw", f"{TORCH}/optim/adamw.py", 400), *IN_STEP]


def test_what_an_optimizer_made_and_kept_is_its_state(tmp_path) -> None:
    """AdamW's moments were called temporary where the optimizer makes them in `step` itself.

    What computes the update is temporary even where the recording ends within it.
    """
    trace = [
        event("alloc", 0, 8 * MIB, 10, IN_STEP),
        event("alloc", 8 * MIB, 4 * MIB, 20, UPDATE),
        event("alloc", 16 * MIB, 2 * MIB, 30, IN_STEP),
        event("free_requested", 16 * MIB, 2 * MIB, 40),
        event("free_completed", 16 * MIB, 2 * MIB, 40),
    ]
    blocks = [
        block(0, 8 * MIB, frames=IN_STEP),
        block(8 * MIB, 4 * MIB, frames=UPDATE),
        block(12 * MIB, 20 * MIB, "inactive"),
    ]
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment(0, blocks)], "device_traces": [trace, []]}))
    (memory,) = snapshot_of(path).devices
    assert memory.at_peak == {"optimizer_state": 8 * MIB, "temporary": 6 * MIB}


def test_a_real_snapshot() -> None:
    """Two training steps of four 1024-wide layers on an H200 (see tests/data/traces)."""
    path = Path(__file__).parents[1] / "data" / "traces" / "h200" / "snapshot.pickle"
    (memory,) = read_snapshot(path).devices
    assert memory.history
    assert memory.timed
    assert memory.skipped == 0
    assert memory.allocated_bytes[-1] == memory.end_allocated_bytes
    assert memory.peak_bytes == memory.allocated_bytes.max() > memory.end_allocated_bytes
    assert sum(memory.at_peak.values()) == memory.peak_bytes
    assert (memory.reserved_bytes >= memory.allocated_bytes).all()
    # Four weights of 4 MiB with their biases; activations and gradients of 512 x 1024 floats.
    assert memory.at_peak["parameter"] == 4 * (4 * MIB + 4096)
    assert {"activation", "made in backward"} <= set(memory.at_peak)
    lines = {label for label, _, _ in memory.holders}
    assert "record_traces.py:243 snapshot" in lines
    assert any("Backward0" in label for label in lines)


def test_a_dump_of_the_flight_recorder_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="flight recorder") as caught:
        read_snapshot(saved(tmp_path, {"version": "2.4", "entries": []}))
    assert "gpuscope explain error" in caught.value.next_step


def test_the_blocks_are_followed_from_the_begin_to_the_end(memory: DeviceMemory) -> None:
    found = memory.blocks
    assert found is not None
    for at_ns, allocated in zip(
        memory.time_ns[1:].tolist(), memory.allocated_bytes[1:].tolist(), strict=True
    ):
        later = memory.time_ns[memory.time_ns > at_ns]
        if at_ns in memory.time_ns[:-1].tolist() and (memory.time_ns == at_ns).sum() > 1:
            continue  # several entries at one moment: only the last state lasts
        assert len(later) or at_ns == found.end_ns
        there = [
            b.nbytes
            for b in found.blocks
            if (b.born_ns is None or b.born_ns <= at_ns)
            and (b.died_ns is None or b.died_ns > at_ns)
        ]
        assert sum(there) == allocated
    made = [b for b in found.blocks if b.label == "train.py:42 forward"]
    assert made
    assert all(b.category == "activation" and b.stack for b in made)
    assert sum(size for _, size in found.segments) == 38 * MIB
