"""What a request costs, against a count one lane and one byte at a time."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.kernel_lens import requests as cost

SIZES = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def warps(draw):
    """Some requests: addresses, who takes part, and the size of an access."""
    size = draw(SIZES)
    lanes = draw(st.sampled_from([4, 8, 32, 64]))
    requests = draw(st.integers(1, 4))
    slots = st.integers(0, draw(st.sampled_from([3, 40, 1000])))
    aligned = draw(st.booleans())
    numbers = draw(
        st.lists(
            st.lists(slots, min_size=lanes, max_size=lanes), min_size=requests, max_size=requests
        )
    )
    on = draw(
        st.lists(
            st.lists(st.booleans(), min_size=lanes, max_size=lanes),
            min_size=requests,
            max_size=requests,
        )
    )
    addresses = np.array(numbers, dtype=np.int64) * (size if aligned else 1)
    return addresses, np.array(on), size


def touched(row, on, size):
    return {a + b for a, active in zip(row, on, strict=True) if active for b in range(size)}


@settings(deadline=None)
@given(warps(), st.sampled_from([4, 32, 64, 128]))
def test_pieces_are_those_of_the_touched_bytes(warp, piece):
    addresses, active, size = warp
    exact = [
        len({byte // piece for byte in touched(row, on, size)})
        for row, on in zip(addresses.tolist(), active.tolist(), strict=True)
    ]
    assert cost.pieces_per_request(addresses, active, size, piece).tolist() == exact


@settings(deadline=None)
@given(warps(), st.sampled_from([4, 32, 128]))
def test_no_request_needs_less_than_its_ideal(warp, piece):
    addresses, active, size = warp
    exact = [
        len(touched(row, on, size))
        for row, on in zip(addresses.tolist(), active.tolist(), strict=True)
    ]
    assert cost.bytes_per_request(addresses, active, size).tolist() == exact
    ideal = cost.ideal_pieces(addresses, active, size, piece)
    assert ideal.tolist() == [-(-n // piece) for n in exact]
    assert (ideal <= cost.pieces_per_request(addresses, active, size, piece)).all()


def paired(row, on, distance):
    pairs = [(n, n ^ distance) for n in range(len(row)) if on[n] and on[n ^ distance]]
    return bool(pairs) and all(row[a] == row[b] for a, b in pairs)


@settings(deadline=None)
@given(warps(), st.booleans(), st.booleans())
def test_passes_are_those_of_the_busiest_bank(warp, merge, equal):
    addresses, active, size = warp
    if equal:
        addresses = addresses.repeat(2, axis=1)[:, : addresses.shape[1]]
    lanes = addresses.shape[1]
    passes, worst, ideal = cost.bank_passes(addresses, active, size, 32, 4, merge)
    for row, on, found, most, least in zip(
        addresses.tolist(), active.tolist(), passes, worst, ideal, strict=True
    ):
        ways = []
        group = cost.phase_lanes(lanes, size, 32, 4)
        if merge and size > 4 and 2 * group <= lanes and (paired(row, on, 1) or paired(row, on, 2)):
            group *= 2
        for begin in range(0, lanes, group):
            part = slice(begin, begin + group)
            words = {byte // 4 for byte in touched(row[part], on[part], size)}
            banks = [word % 32 for word in words]
            ways.append(max((banks.count(bank) for bank in banks), default=0))
        assert (found, most, least) == (sum(ways), max(ways), sum(way > 0 for way in ways))


@settings(deadline=None)
@given(warps())
def test_lanes_at_one_address(warp):
    addresses, active, _ = warp
    exact = []
    for row, on in zip(addresses.tolist(), active.tolist(), strict=True):
        used = [a for a, there in zip(row, on, strict=True) if there]
        exact.append(max((used.count(a) for a in used), default=0))
    assert cost.lanes_at_one_address(addresses, active).tolist() == exact


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=20))
def test_covered_bytes_are_a_union(intervals):
    starts = np.array([a for a, _ in intervals], dtype=np.int64)
    sizes = np.array([n for _, n in intervals], dtype=np.int64)
    exact = {byte for a, n in intervals for byte in range(a, a + n)}
    assert cost.covered_bytes(starts, sizes) == len(exact)


def warp_of(stride_bytes: int, lanes: int = 32) -> np.ndarray:
    return (np.arange(lanes, dtype=np.int64) * stride_bytes)[None, :]


ALL = np.ones((1, 32), dtype=bool)


@pytest.mark.parametrize(
    ("stride_bytes", "sectors"), [(0, 1), (4, 4), (8, 8), (12, 12), (16, 16), (32, 32), (256, 32)]
)
def test_sectors_of_a_strided_read(stride_bytes, sectors):
    """Best practices guide: the 32-byte pieces that hold all lanes' words."""
    assert cost.pieces_per_request(warp_of(stride_bytes), ALL, 4, 32).tolist() == [sectors]


def test_an_unaligned_warp_needs_one_sector_more():
    assert cost.pieces_per_request(warp_of(4) + 4, ALL, 4, 32).tolist() == [5]
    assert cost.ideal_pieces(warp_of(4) + 4, ALL, 4, 32).tolist() == [4]


@pytest.mark.parametrize("stride", range(66))
def test_a_stride_of_words_conflicts_by_its_common_factor(stride):
    """Words s apart meet gcd(s, 32) at a time; all in one word (s = 0) is a broadcast."""
    passes, _, ideal = cost.bank_passes(warp_of(4 * stride), ALL, 4, 32, 4)
    assert passes.tolist() == [gcd(stride, 32) if stride else 1]
    assert ideal.tolist() == [1]


@pytest.mark.parametrize(("size", "groups"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_wide_accesses_take_several_groups_and_no_more(size, groups):
    passes, worst, ideal = cost.bank_passes(warp_of(size), ALL, size, 32, 4)
    assert (passes.tolist(), worst.tolist(), ideal.tolist()) == ([groups], [1], [groups])


def test_a_wavefront_of_64_is_served_in_halves():
    passes, _, ideal = cost.bank_passes(warp_of(4, 64), np.ones((1, 64), bool), 4, 32, 4)
    assert (passes.tolist(), ideal.tolist()) == ([2], [2])


def test_no_lane_no_cost():
    none = np.zeros((1, 32), dtype=bool)
    assert cost.pieces_per_request(warp_of(4), none, 4, 32).tolist() == [0]
    assert cost.bytes_per_request(warp_of(4), none, 4).tolist() == [0]
    assert [n.tolist() for n in cost.bank_passes(warp_of(4), none, 4, 32, 4)] == [[0], [0], [0]]
    assert cost.lanes_at_one_address(warp_of(4), none).tolist() == [0]
    assert cost.covered_bytes(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == 0
