"""Missing barriers: found where two warps meet, and only there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lens_examples import Seen, needs_numba

from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.patterns import remarks
from gpuscope.kernel_lens.races import ATOMIC, LOAD, STORE, races
from gpuscope.kernel_lens.runner import look
from gpuscope.kernel_lens.source_view import source_view

EVENT = st.tuples(
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([LOAD, STORE, ATOMIC]),
    st.integers(0, 3),
)


@settings(deadline=None)
@given(st.lists(EVENT, max_size=25))
def test_races_are_those_of_all_pairs(events):
    exact: dict[tuple[int, int], set] = {}
    for a, b in itertools.permutations(events, 2):
        met = a[:2] == b[:2] and a[2] != b[2]
        if met and a[3] != LOAD and not a[3] == b[3] == ATOMIC:
            pair = (a[4], b[4]) if b[3] == LOAD else (min(a[4], b[4]), max(a[4], b[4]))
            exact.setdefault(pair, set()).add(a[:2])
    found = races(np.array(events, dtype=np.int64).reshape(-1, 5))
    assert found == {pair: len(words) for pair, words in exact.items()}


KERNELS = """
import numpy as np
from numba import cuda, float32


def reverse(barrier):
    @cuda.jit
    def kernel(x):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        if barrier:
            cuda.syncthreads()
        x[i] = tile[63 - i]
    return kernel


@cuda.jit
def flag(x):
    word = cuda.shared.array(1, float32)
    word[0] = 1
    cuda.syncthreads()
    x[cuda.threadIdx.x] = word[0]


def launch():
    for barrier in (True, False):
        reverse(barrier)[2, 64](np.zeros(64, dtype=np.float32))
    reverse(False)[2, 32](np.zeros(64, dtype=np.float32))
    flag[1, 64](np.zeros(64, dtype=np.float32))
"""


@needs_numba
def test_a_missing_barrier(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    lens = look(str(file))
    good, bad, one_warp, flag = lens.launches
    assert good.races == one_warp.races == ()
    (race,) = bad.races
    lines = KERNELS.splitlines()
    assert lines[race.line - 1].strip() == "tile[i] = x[i]"
    assert lines[race.other_line - 1].strip() == "x[i] = tile[63 - i]"
    assert (race.array, race.words) == ("tile", 2 * 64)
    (worst, *_) = remarks(bad, Machine())
    assert (worst.fault, worst.line) == ("race", race.line)
    assert "no barrier" in worst.what
    notes = [
        line.note
        for line in source_view(bad, bad.functions[0], 32).lines
        if line.note and "no barrier" in line.note
    ]
    assert len(notes) == 2
    assert f"between this and line {race.line}:" in notes[1]
    summary = lens.explanation().summary
    assert "no barrier" in summary[0]
    (twice,) = flag.races
    assert twice.line == twice.other_line


@pytest.mark.parametrize("kernel", ["tiled", "padded", "strided", "histogram"])
def test_good_kernels_have_none(seen: Seen, kernel):
    assert all(launch.races == () for launch in seen.all(kernel))
