"""cuDNN's batch norm, channels innermost: blocks keep their rows and wait for each other.

Two blocks of 512 threads a multiprocessor, all there at once. A block takes a chunk of channels (a
thread 4, or 1 where their number is no multiple of 4; 16 threads across) and every 32nd row. Where
its rows fit into registers and shared memory they are read once: sums, a barrier over all blocks of
the chunk, then the result from what was kept. Chunks for which no blocks are left take turns, each
with a barrier of its own. Where rows do not fit, everything is read again after the barrier.

Grids and which of the two runs are read off the kernel names of recorded calls
(`batchnorm_fwtr_nhwc_semiPersist`, `batchnorm_bwtr_nhwc_semiPersist`, whose arguments tell the rows
in registers, the vector and whether it keeps; cuDNN 9.19, the harvest's recordings): the rule below
gives 183 of 184 of them.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.norm.channel_walk import Traffic, shape_of
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

THREADS, ACROSS = 512, 16
DOWN = THREADS // ACROSS
A_UNIT = 2
"""Blocks of a multiprocessor."""

KEPT = {(False, 4): (2, 9), (False, 2): (5, 19), (True, 4): (3, 6), (True, 2): (3, 9)}
"""By (backward, bytes of a value): rows of a thread in registers, and at most with shared memory.
The most of half precision were not seen: as many bytes of shared memory as float32 has."""


class Cut(NamedTuple):
    """How the work is cut.

    Attributes:
        deep, wide: blocks along the rows, and along the chunks of channels.
        turns: chunks that a block takes, one after the other.
        rows: of a thread in each.
        kept: whether they stay on the chip.
    """

    deep: int
    wide: int
    turns: int
    rows: int
    kept: bool


def cut(channels: int, rows: int, backward: bool, itemsize: float, blocks: int) -> Cut:
    """The grid for so many channels and rows, on a device that holds so many blocks at once."""
    chunks = ceil(channels / (ACROSS * (4 if channels % 4 == 0 else 1)))
    least, most = KEPT[backward, 4 if itemsize == 4 else 2]

    def deep(of_thread: int) -> int:
        return ceil(rows / (DOWN * of_thread))

    if deep(most) > blocks:
        return Cut(blocks, 1, chunks, ceil(rows / (DOWN * blocks)), False)
    wide = min(chunks, blocks // deep(most))
    of_thread = next(r for r in range(least, most + 1) if deep(r) * wide <= blocks)
    return Cut(deep(of_thread), wide, ceil(chunks / wide), min(of_thread, ceil(rows / DOWN)), True)


def persistent_kernel(work: Work, spec: TensorSpec, once: Traffic, *, backward: bool) -> Kernel:
    """The forward pass in training, or the gradient.

    Args:
        work: the operator.
        spec: its input.
        once: bytes, each input read once.
        backward: which of the two.

    A turn takes `base_s`, `row_s` for each row of a thread, and `barrier_s` for each block that the
    barrier waits for: fitted to 160 recorded calls of seen families, which they meet within 5 % in
    the mean (7 % backwards, four channels a thread).
    """
    channels = shape_of(spec)[1]
    m = machine(work)
    way = cut(channels, spec.numel // channels, backward, spec.itemsize, A_UNIT * m.units)
    key = "normalization.batch.persistent" + "_backward" * backward
    get = work.constants.value
    read, hot, out = once.parts
    if not way.kept:
        again = read + hot
        read, hot = (read, hot + again) if again <= m.l2_bytes else (read + again, hot)
    return kernel(
        work,
        Launch(
            f"batch_norm_library{'_backward' * backward}_channels_last",
            "normalization",
            read,
            hot,
            out,
            least_bytes=sum(once.parts),
            items=spec.numel,
            grid=way.deep * way.wide,
            block=THREADS,
            resident=A_UNIT,
            loads=0.0,
            chain_s=way.turns * way.rows * get(f"{key}.row_s"),
            floor_s=way.turns * (get(f"{key}.base_s") + way.deep * get(f"{key}.barrier_s")),
            # What is kept is read, summed and written in steps that do not overlap.
            overlap=1.0 if way.kept else 0.0,
            dtype=spec.dtype,
            family="normalization.batch",
            note=Text("{turns} turns, a barrier over all blocks in each", turns=way.turns),
        ),
    )
