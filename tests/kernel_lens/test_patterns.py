"""What each example is told to change, and what is told of good ones: nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lens_examples import Seen

from gpuscope.document.text import render
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.patterns import remarks
from gpuscope.kernel_lens.recorder import Recorder, Requests, Site
from gpuscope.kernel_lens.summary import stride_bytes
from gpuscope.kernel_lens.types import Launch, Sample

MACHINE = Machine()


@pytest.mark.parametrize(
    ("example", "kernel", "faults"),
    [
        ("coalescing", "copy", []),
        ("coalescing", "strided_copy", ["strided"]),
        ("coalescing", "shifted_copy", ["misaligned"]),
        ("transpose", "naive", ["strided"]),
        ("transpose", "tiled", ["bank_conflict"]),
        ("transpose", "padded", []),
        ("matmul", "straight", ["reread", "reread"]),
        ("matmul", "tiled", []),
        ("branches", "by_warp", []),
    ],
)
def test_the_examples(seen: Seen, example, kernel, faults):
    found = remarks(seen.one(kernel, example), MACHINE)
    assert [remark.fault for remark in found] == faults


def test_branches_and_atomics(seen: Seen):
    faults = [remark.fault for remark in remarks(seen.one("by_lane"), MACHINE)]
    assert sorted(faults) == ["divergence", "divergence", "gaps", "gaps"]
    assert remarks(seen.one("by_loop"), MACHINE)[0].fault == "divergence"
    same, spread = seen.all("histogram")
    assert [remark.fault for remark in remarks(same, MACHINE)] == ["serial_atomics"]
    assert remarks(spread, MACHINE) == ()


def test_remarks_name_line_and_figures(seen: Seen):
    launch = seen.one("naive", "transpose")
    (remark,) = remarks(launch, MACHINE)
    text = launch.functions[0].lines[remark.line - launch.functions[0].first_line]
    assert text.strip() == "target[x, y] = source[y, x]"
    assert "32 sectors a request where 4" in remark.what
    assert "256 bytes apart" in remark.what
    assert "32 个扇区" in render(remark.what, "zh")


def _launch(addresses, active=None, space="global", kind="load", size=4) -> Launch:
    recorder = Recorder(MACHINE)
    launch = recorder.begin("kernel", "numba", (1, 1, 1), (32, 1, 1))
    recorder.allocate("x", 0, 1 << 20, "float32", (1 << 18,))
    addresses = np.atleast_2d(np.array(addresses, dtype=np.int64)) + 512
    on = np.ones(addresses.shape, dtype=bool) if active is None else np.atleast_2d(active)
    zeros = np.zeros(len(addresses), dtype=np.int64)
    recorder.add(Site("k.py", 1, space, kind, "x"), Requests(zeros, zeros, addresses, on, size))
    assert launch.requests
    recorder.end()
    return recorder.launches[0]


def _faults(*args, **options):
    return [remark.fault for remark in remarks(_launch(*args, **options), MACHINE)]


LANES = np.arange(32)


def test_sorts_of_bad_placement():
    assert _faults(LANES * 4) == []
    assert _faults(LANES * 0) == []
    assert _faults(LANES * 12) == ["strided"]
    assert _faults(LANES * 4 + 16) == ["misaligned"]
    assert _faults(LANES // 4 * 256 + LANES % 4 * 4) == ["short_runs"]
    spread = np.random.default_rng(0).permutation(1000)
    assert _faults(spread[LANES] * 64) == ["scattered"]
    assert _faults(spread[LANES // 2] * 64) == ["scattered"]


def test_a_broadcast_is_not_waste():
    """Two rows of a warp read a word each: two sectors, and no placement would need less time."""
    assert _faults(LANES // 16 * 4096) == []


def test_the_guard_of_the_last_block_is_no_divergence():
    recorder = Recorder(MACHINE)
    recorder.begin("kernel", "numba", (20, 1, 1), (32, 1, 1))
    for block in range(20):
        recorder.add_activity("k.py", 3, 7 if block == 19 else 32, 32)
    recorder.end()
    assert remarks(recorder.launches[0], MACHINE) == ()


@settings(deadline=None)
@given(st.integers(-300, 300), st.integers(2, 32))
def test_the_usual_step_of_lanes(step, lanes):
    even = Sample((0, 0, 0), 0, tuple(1_000_000 + step * n for n in range(lanes)))
    assert stride_bytes(even) == (step, True)


def test_no_usual_step():
    odd = Sample((0, 0, 0), 0, (0, 4, 12, 100, None, 96))
    assert stride_bytes(odd) is None
    assert stride_bytes(Sample((0, 0, 0), 0, (8, None))) is None


def test_inactive_lanes_share_the_distance():
    assert stride_bytes(Sample((0, 0, 0), 0, (0, None, 8, None, 16))) == (4, True)
    assert stride_bytes(Sample((0, 0, 0), 0, (0, None, 7, None, 14))) is None
