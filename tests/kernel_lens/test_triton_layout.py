"""How elements are dealt to lanes, against what Triton's compiler does.

The expected layouts were printed by Triton 3.7.1 (its TTGIR for compute capability 9.0).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.kernel_lens.triton_layout import _threads, blocked, per_lane, reach_of


def _reach(addresses, masks=None, element_bytes=4, exact=True):
    masks = masks or [np.ones(one.shape, dtype=bool) for one in addresses]
    return reach_of([one.astype(np.int64) for one in addresses], masks, element_bytes, exact)


LINE = np.arange(1024) * 4
SQUARE = np.arange(64)[:, None] * 64 * 4 + np.arange(64)[None, :] * 4


@pytest.mark.parametrize(
    ("size", "elements", "lanes", "warps"),
    [(1024, 4, [32], [4]), (256, 2, [32], [4]), (64, 1, [32], [4])],
)
def test_a_line(size, elements, lanes, warps):
    """sizePerThread 4, 2, 1; threadsPerWarp 32; warpsPerCTA 4."""
    reach = _reach([LINE[:size]])
    assert (reach.order, reach.elements) == ((0,), 4)
    assert per_lane(4, [4], size, 128, is_load=True) == elements
    assert _threads((size,), (0,), elements, 4, 32) == (lanes, warps)


def test_half_precision_takes_eight():
    """A load of fp16 beside a store of fp32: sizePerThread 8 and 4."""
    half = _reach([np.arange(1024) * 2], element_bytes=2)
    assert half.elements == 8
    assert per_lane(8, [8, 4], 1024, 128, is_load=True) == 8
    assert per_lane(4, [8, 4], 1024, 128, is_load=False) == 4


def test_a_strided_load_shares_its_stores_layout():
    """Loads 1 element a time but holds 2, as its store does."""
    reach = _reach([np.arange(256) * 8 * 4])
    assert reach.elements == 1
    assert per_lane(1, [1, 4], 256, 128, is_load=True) == 2


def test_a_square_by_rows_and_by_columns():
    rows = _reach([SQUARE])
    assert (rows.order, rows.elements) == ((1, 0), 4)
    assert _threads((64, 64), (1, 0), 4, 4, 32) == ([2, 16], [4, 1])
    columns = _reach([SQUARE.T])
    assert (columns.order, columns.elements) == ((0, 1), 4)
    assert _threads((64, 64), (0, 1), 4, 4, 32) == ([16, 2], [1, 4])


def test_nothing_contiguous():
    reach = _reach([SQUARE * 3])
    assert (reach.order, reach.elements) == ((1, 0), 1)
    assert _threads((64, 64), (1, 0), 1, 4, 32) == ([1, 32], [2, 2])


def test_an_unaligned_begin_takes_one_at_a_time():
    assert _reach([LINE + 4]).elements == 1
    assert _reach([LINE + 8]).elements == 2


def test_an_unknown_size_proves_nothing():
    """1000 columns: each row begins 16-byte aligned, but the compiler only asks whether 16 divides
    the argument; it does not."""
    rows = np.arange(4)[:, None] * 1000 * 4 + np.arange(64)[None, :] * 4
    assert _reach([rows], exact=True).elements == 4
    assert _reach([rows], exact=False).elements == 1
    whole = np.arange(4)[:, None] * 1024 * 4 + np.arange(64)[None, :] * 4
    assert _reach([whole], exact=False).elements == 4


def test_masks_that_end_within_a_vector_split_it():
    ends = np.arange(1024) < 1022
    assert _reach([LINE], [ends]).mask_elements == 2
    assert _reach([LINE], [np.arange(1024) < 1000], exact=True).mask_elements == 8
    assert _reach([LINE], [np.arange(1024) < 1000], exact=False).mask_elements == 1
    assert _reach([LINE], [np.arange(1024) < 512], exact=False).mask_elements >= 16


POWERS = st.sampled_from([1, 2, 4, 16, 32])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(POWERS, min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([32, 64]),
)
def test_every_element_is_held_and_owned_once(shape, random, elements, warps, lanes):
    order = list(range(len(shape)))
    random.shuffle(order)
    elements = min(elements, shape[order[0]])
    layout = blocked(tuple(shape), tuple(order), elements, warps, lanes)
    size = int(np.prod(shape))
    assert layout.elements.shape[1:] == (elements, warps, lanes)
    assert set(layout.elements.reshape(-1).tolist()) == set(range(size))
    assert sorted(layout.elements[layout.first].tolist()) == list(range(size))
    held = layout.elements.size
    assert held == size or held == elements * warps * lanes or held > size
