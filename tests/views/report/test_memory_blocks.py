"""Memory block by block: adds up to the curve, never overlaps, and tells who asked for it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from run_builders import bare_run, gpt_run

from gpuscope.timeline import memory_blocks as blocks_of
from gpuscope.timeline.memory_blocks import MemoryBlock, memory_blocks
from gpuscope.views.report.memory_blocks import BlockColumns, memory_block_columns
from gpuscope.views.report.memory_curve import memory_curve


def live(columns: BlockColumns, at_ns: int) -> np.ndarray:
    born, died = np.array(columns.born_ns), np.array(columns.died_ns)
    return (born <= at_ns) & ((died < 0) | (died > at_ns))


def test_the_blocks_of_a_moment_add_up_to_the_curve_and_do_not_overlap() -> None:
    run = gpt_run()
    columns, curve = memory_block_columns(run), memory_curve(run)
    assert columns is not None
    assert curve is not None
    assert columns.left_out == 0
    address, nbytes = np.array(columns.address), np.array(columns.nbytes)
    total = np.sum(np.array(curve.allocated_bytes), axis=0)
    for point in range(0, len(curve.time_ns), 7):
        there = live(columns, curve.time_ns[point])
        assert nbytes[there].sum() == total[point]
        placed = sorted(zip(address[there], nbytes[there], strict=True))
        assert all(a + size <= b for (a, size), (b, _) in pairwise(placed))
    assert run.analysis.memory is not None
    assert sum(size for _, size in columns.segments) == run.analysis.memory.reserved_bytes


def test_each_block_tells_its_tensor_and_its_operator() -> None:
    columns = memory_block_columns(gpt_run())
    assert columns is not None
    weights = [
        row
        for row, (kind, label) in enumerate(zip(columns.category, columns.label, strict=True))
        if columns.words[kind] == "parameter" and label >= 0
    ]
    assert weights
    assert all(columns.born_ns[row] == -1 and columns.op[row] == -1 for row in weights)
    made = [row for row, op in enumerate(columns.op) if op >= 0]
    assert made
    assert all(columns.born_ns[row] >= columns.begin_ns for row in made)


def test_of_too_many_those_that_weigh_most_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(blocks_of, "MOST_BLOCKS", 2)
    small = [MemoryBlock(1024 * i, 512, 0, 10, "temporary") for i in range(4)]
    large = MemoryBlock(8192, 4096, None, None, "parameter")
    found = memory_blocks(0, 100, [*small, large], [(0, 4096)])
    assert large in found.blocks
    assert (len(found.blocks), found.left_out, found.left_out_bytes) == (2, 3, 512)
    assert found.segments == ((0, 4096), (8192, 4096))


def test_without_a_program_nothing_is_said() -> None:
    assert memory_block_columns(bare_run()) is None
