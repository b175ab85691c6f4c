"""Kernels made so that the answer is known, run in Numba's simulator."""

from __future__ import annotations

import pytest
from lens_examples import Seen, access

from gpuscope.kernel_lens.types import Launch


def _activity(launch: Launch, text: str):
    """Activity of the line that holds a text."""
    function = launch.functions[0]
    (number,) = [n for n, line in enumerate(function.lines, function.first_line) if text in line]
    (found,) = [line for line in launch.activity if line.line == number]
    return found


def test_a_plain_copy_is_coalesced(seen: Seen):
    launch = seen.one("copy", "coalescing")
    read, write = access(launch, "source", "load"), access(launch, "target", "store")
    assert read.requests == write.requests == 1024 // 32
    assert read.sectors == read.ideal_sectors == read.launch_sectors == 4096 // 32
    assert write.sectors == 4096 // 32
    assert not read.wasteful
    assert launch.grid == (8, 1, 1)
    assert launch.block == (128, 1, 1)
    assert launch.active_share == 1.0


def test_every_32nd_element_costs_a_sector_each(seen: Seen):
    read = access(seen.one("strided_copy", "coalescing"), "source", "load")
    assert (read.sectors_per_request, read.worst_sectors) == (32, 32)
    assert read.ideal_sectors == read.requests * 4
    assert read.asked_bytes == 4096
    assert read.launch_sectors == 1024


def test_one_element_off_costs_a_sector_more(seen: Seen):
    read = access(seen.one("shifted_copy", "coalescing"), "source", "load")
    assert (read.sectors_per_request, read.ideal_sectors / read.requests) == (5, 4)
    # A block of 4 warps shares the sectors between its warps: 16 and one more.
    assert read.block_sectors == 8 * 17
    assert read.launch_sectors == 128 + 1


def test_the_straight_transposition(seen: Seen):
    launch = seen.one("naive", "transpose")
    assert access(launch, "source", "load").sectors_per_request == 4
    write = access(launch, "target", "store")
    assert (write.sectors_per_request, write.ideal_sectors / write.requests) == (32, 4)
    assert launch.shared_bytes == 0


def test_the_tile_conflicts_32_ways(seen: Seen):
    launch = seen.one("tiled", "transpose")
    assert access(launch, "source", "load").sectors_per_request == 4
    assert access(launch, "target", "store").sectors_per_request == 4
    store, load = access(launch, "tile", "store"), access(launch, "tile", "load")
    assert (store.passes_per_request, store.worst_ways) == (1, 1)
    assert (load.passes_per_request, load.worst_ways) == (32, 32)
    assert load.ideal_passes == load.requests
    assert launch.shared_bytes == 32 * 32 * 4


def test_padding_ends_the_conflict(seen: Seen):
    launch = seen.one("padded", "transpose")
    for kind in ("store", "load"):
        found = access(launch, "tile", kind)
        assert (found.passes_per_request, found.worst_ways) == (1, 1)
    assert launch.shared_bytes == 32 * 33 * 4
    assert not any(found.wasteful for found in launch.accesses)


def test_a_straight_product_asks_for_each_byte_often(seen: Seen):
    launch = seen.one("straight", "matmul")
    for array in launch.arrays[:2]:
        assert array.touched_bytes == 32 * 32 * 4
        assert array.asked_bytes == 32 * 32 * 32 * 4
    # A warp is two rows of 16: two rows of a (a word each), one piece of a row of b.
    assert access(launch, "a", "load").sectors_per_request == 2
    assert access(launch, "b", "load").sectors_per_request == 2


def test_a_tiled_product_reads_each_tile_once(seen: Seen):
    launch = seen.one("tiled", "matmul")
    for name in ("a", "b"):
        load = access(launch, name, "load")
        assert load.asked_bytes == 4 * 2 * 16 * 16 * 4  # blocks, tiles of a block
        assert load.sectors == load.ideal_sectors == load.block_sectors
    for name in ("a_tile", "b_tile"):
        assert access(launch, name, "load").worst_ways == 1
    assert launch.shared_bytes == 2 * 16 * 16 * 4


def test_a_branch_by_lane_halves_the_warp(seen: Seen):
    launch = seen.one("by_lane", "branches")
    for text in ("= 1.0", "= 2.0"):
        line = _activity(launch, text)
        assert (line.visits, line.lanes, line.present, line.partial) == (4, 64, 128, 4)
    assert launch.active_share == pytest.approx((128 + 128 + 64 + 64) / (4 * 128))


def test_a_branch_by_warp_costs_nothing(seen: Seen):
    launch = seen.one("by_warp", "branches")
    assert launch.active_share == 1.0
    assert all(line.partial == 0 for line in launch.activity)


def test_a_ragged_loop(seen: Seen):
    launch = seen.one("by_loop", "branches")
    body = _activity(launch, "= turn")
    assert (body.visits, body.lanes / body.visits) == (4 * 32, 16.5)
    assert body.partial == 4 * 31  # all but the first turn


@pytest.mark.parametrize(("number", "ways"), [(0, 1), (1, 2), (2, 32), (3, 1)])
def test_words_apart(seen: Seen, number: int, ways: int):
    launch = seen.all("strided")[number]
    assert dict(launch.scalars) == {"stride": str((1, 2, 32, 33)[number])}
    for kind in ("store", "load"):
        found = access(launch, "words", kind)
        assert (found.requests, found.passes, found.worst_ways) == (1, ways, ways)


def test_atomics_at_one_address_take_turns(seen: Seen):
    same, spread = seen.all("histogram")
    assert access(same, "bins", "atomic").worst_rounds == 32
    assert access(same, "bins", "atomic").sectors_per_request == 1
    assert access(spread, "bins", "atomic").worst_rounds == 1
    assert access(spread, "bins", "atomic").sectors_per_request == 4


def test_bytes_are_conserved(seen: Seen):
    """What lanes ask for is at least what is touched; each level holds at least the next."""
    for launch in seen.lens.launches:
        for array in launch.arrays:
            assert array.asked_bytes >= array.once_bytes >= array.touched_bytes > 0
            assert array.sectors >= array.block_sectors >= array.launch_sectors
            assert array.launch_sectors * 32 >= array.once_bytes
        on_global = [a for a in launch.accesses if a.space == "global"]
        assert sum(a.asked_bytes for a in on_global) == sum(a.asked_bytes for a in launch.arrays)
        assert sum(a.sectors for a in on_global) == sum(a.sectors for a in launch.arrays)
        for found in launch.accesses:
            assert found.sectors >= found.ideal_sectors
            assert found.passes >= found.ideal_passes
            assert found.lanes <= found.requests * 32
            assert found.cache_lines <= found.sectors or found.space != "global"
