from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError
from gpuscope.timeline.allocator import CachingAllocator, round_size, segment_size

KIB, MIB = 1 << 10, 1 << 20


def test_three_small_requests_share_one_segment():
    a = CachingAllocator()
    blocks = [a.allocate(600) for _ in range(3)]
    assert [b.nbytes for b in blocks] == [1024] * 3
    assert [b.address for b in blocks] == [0, 1024, 2048]
    assert (a.allocated_bytes, a.reserved_bytes) == (3072, 2 * MIB)


@pytest.mark.parametrize(
    ("requests", "allocated", "reserved"),
    [
        ([1], 512, 2 * MIB),
        ([MIB], MIB, 2 * MIB),
        ([MIB, MIB], 2 * MIB, 2 * MIB),
        ([MIB, MIB, 1], 2 * MIB + 512, 4 * MIB),
        ([MIB + 1], MIB + 512, 20 * MIB),
        ([9 * MIB, 9 * MIB], 18 * MIB, 20 * MIB),
        ([9 * MIB, 9 * MIB, 9 * MIB], 27 * MIB, 40 * MIB),
        ([10 * MIB], 10 * MIB, 10 * MIB),
        ([10 * MIB + 1], 10 * MIB + 512, 12 * MIB),  # the rest, 2 MiB - 512 B, is split off
        ([11 * MIB + 1], 12 * MIB, 12 * MIB),  # a rest below 1 MiB stays in the block
        ([11 * MIB], 12 * MIB, 12 * MIB),  # so does one of exactly 1 MiB
        ([1, MIB + 1], MIB + 1024, 22 * MIB),
    ],
)
def test_known_answers(requests, allocated, reserved):
    a = CachingAllocator()
    for nbytes in requests:
        a.allocate(nbytes)
    assert (a.allocated_bytes, a.reserved_bytes) == (allocated, reserved)


def test_freed_memory_is_used_again_before_a_new_segment():
    a = CachingAllocator()
    a.free(a.allocate(9 * MIB))
    again = a.allocate(5 * MIB)
    assert (again.address, a.reserved_bytes) == (0, 20 * MIB)
    rest = a.allocate(15 * MIB)
    assert (rest.address, a.reserved_bytes) == (5 * MIB, 20 * MIB)


def test_the_smallest_block_that_fits_is_taken():
    a = CachingAllocator()
    big, wall, small, _end = (a.allocate(n * MIB) for n in (8, 2, 4, 6))
    a.free(big)
    a.free(small)
    assert a.allocate(3 * MIB).address == small.address
    assert wall.address == 8 * MIB


def test_a_small_request_never_takes_from_the_large_pool():
    a = CachingAllocator()
    a.free(a.allocate(30 * MIB))
    a.allocate(1000)
    assert a.reserved_bytes == 32 * MIB


def test_streams_do_not_share():
    a = CachingAllocator()
    a.free(a.allocate(9 * MIB, stream=0))
    a.allocate(9 * MIB, stream=1)
    assert a.reserved_bytes == 40 * MIB


def test_a_hole_that_is_too_small_costs_a_new_segment_unless_segments_expand():
    def run(expandable: bool):
        a = CachingAllocator(expandable_segments=expandable)
        first, _wall = a.allocate(20 * MIB), a.allocate(20 * MIB)
        a.free(first)
        a.free(a.allocate(24 * MIB))
        a.allocate(44 * MIB)
        return a.reserved_bytes

    assert run(False) == (20 + 20 + 24 + 44) * MIB
    # One range: the hole of 20 MiB stays, 24 MiB grew to 40 MiB of pages, then to 60.
    assert run(True) == (20 + 20 + 60) * MIB


def test_expandable_end_grows_from_what_is_free():
    a = CachingAllocator(expandable_segments=True)
    a.allocate(15 * MIB)
    assert a.reserved_bytes == 20 * MIB
    grown = a.allocate(10 * MIB)
    assert (grown.address % (1 << 50), a.reserved_bytes) == (15 * MIB, 40 * MIB)


def test_a_full_device_gives_cached_segments_back():
    a = CachingAllocator(capacity_bytes=50 * MIB)
    kept, dropped = a.allocate(20 * MIB), a.allocate(20 * MIB)
    a.free(dropped)
    a.allocate(28 * MIB)
    assert (a.reserved_bytes, a.releases, a.out_of_memory) == (48 * MIB, 1, 0)
    a.allocate(20 * MIB)
    assert (a.reserved_bytes, a.out_of_memory) == (68 * MIB, 1)
    a.free(kept)


def test_refuses_what_cannot_be():
    a = CachingAllocator()
    with pytest.raises(InvalidValueError, match="0 bytes"):
        a.allocate(0)
    with pytest.raises(InvalidValueError, match="negative"):
        CachingAllocator(capacity_bytes=-1)
    block = a.allocate(5)
    a.free(block)
    with pytest.raises(InvalidValueError, match="already free"):
        a.free(block)


sizes = st.one_of(
    st.integers(1, 2000),
    st.integers(1, 64).map(lambda k: k * 64 * KIB),
    st.integers(1, 3).map(lambda k: k * MIB + 1),
    st.integers(1, 40).map(lambda m: m * MIB),
)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), sizes, st.integers(0, 1)),
        st.tuples(st.just("free"), st.integers(0, 1000), st.just(0)),
    ),
    max_size=60,
)


def play(allocator, script, check=lambda live: None):
    live = []
    for move, value, stream in script:
        if move == "allocate":
            live.append((allocator.allocate(value, stream), value))
        elif live:
            allocator.free(live.pop(value % len(live))[0])
        check(live)
    return live


@given(moves, st.booleans())
@settings(max_examples=150, deadline=None)
def test_blocks_are_disjoint_and_add_up(script, expandable):
    a = CachingAllocator(expandable_segments=expandable)

    def check(live):
        spans = sorted((b.address, b.address + b.nbytes) for b, _ in live)
        assert all(left[1] <= right[0] for left, right in pairwise(spans))
        assert a.allocated_bytes == sum(b.nbytes for b, _ in live)
        assert a.reserved_bytes >= a.allocated_bytes
        for block, nbytes in live:
            size = round_size(nbytes)
            assert size <= block.nbytes <= size + MIB
            if size <= MIB or expandable:
                assert block.nbytes == size

    play(a, script, check)


@given(moves)
@settings(max_examples=100, deadline=None)
def test_freeing_everything_leaves_whole_segments(script):
    a = CachingAllocator()
    for block, _ in play(a, script):
        a.free(block)
    assert a.allocated_bytes == 0
    assert sum(a.cached_segments()) == a.reserved_bytes
    assert all(s in (2 * MIB, 20 * MIB) or s % (2 * MIB) == 0 for s in a.cached_segments())


@given(moves)
@settings(max_examples=100, deadline=None)
def test_freeing_everything_leaves_one_range_a_pool_when_expandable(script):
    a = CachingAllocator(expandable_segments=True)
    for block, _ in play(a, script):
        a.free(block)
    assert a.allocated_bytes == 0
    assert len(a.cached_segments()) <= 4
    assert sum(a.cached_segments()) == a.reserved_bytes


@given(moves, st.booleans(), st.integers(0, 80))
@settings(max_examples=100, deadline=None)
def test_a_capacity_holds_unless_a_request_failed(script, expandable, capacity):
    a = CachingAllocator(capacity * MIB, expandable_segments=expandable)
    play(a, script)
    assert a.out_of_memory or a.reserved_bytes <= capacity * MIB


@given(moves)
@settings(max_examples=50, deadline=None)
def test_equal_scripts_give_equal_states(script):
    first, second = CachingAllocator(), CachingAllocator()
    one, two = play(first, script), play(second, script)
    assert [b.address for b, _ in one] == [b.address for b, _ in two]
    assert first.reserved_bytes == second.reserved_bytes


def test_segment_sizes():
    assert [segment_size(n) for n in (512, MIB, MIB + 512, 10 * MIB, 10 * MIB + 512)] == [
        2 * MIB,
        2 * MIB,
        20 * MIB,
        10 * MIB,
        12 * MIB,
    ]
