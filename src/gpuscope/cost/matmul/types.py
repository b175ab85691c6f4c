"""A matrix product, and the kernel that a library is taken to choose for it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.matmul.tiles import Tile
from gpuscope.cost.types import Limiter


@dataclass(frozen=True, slots=True)
class Problem:
    """C[M, N] = A[M, K] B[K, N], `batch` times.

    Attributes:
        m, n, k: sizes of one product.
        batch: number of products.
        dtype: compute dtype; "tf32" where float32 is rounded for the tensor cores.
        a_bytes, b_bytes, c_bytes: distinct bytes of both operands and of the result, all
            products together (less than M x K x size where a convolution or a broadcast re-uses).
        extra_read_bytes: bias, or the matrix that is added.
        biased: a bias row is added as tiles are written out.
        item_bytes: bytes of one operand element.
        out_bytes: bytes of one element of the result.
        layout: row-major ("N") or transposed ("T") storage of A and of B, e.g. "NT".
        aligned: bytes that every row start is a multiple of (16 suits the fast kernels).
        hot_a, hot_b: the operand is likely in L2 already.
        whole: by the library's batched kernels, which neither cut K nor have forms of their own
            for a small side: of 300 recorded on an H200 none did the first, two the second.
    """

    m: int
    n: int
    k: int
    batch: int
    dtype: str
    a_bytes: float
    b_bytes: float
    c_bytes: float
    item_bytes: float
    out_bytes: float = 2.0
    extra_read_bytes: float = 0.0
    biased: bool = False
    layout: str = "NT"
    aligned: int = 16
    hot_a: bool = False
    hot_b: bool = False
    whole: bool = False

    @property
    def flops(self) -> float:
        """2 per multiply-add."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def least_bytes(self) -> float:
        """Each operand read once, the result written once."""
        return self.a_bytes + self.b_bytes + self.c_bytes + self.extra_read_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """The kernel that the library is taken to choose, and its time.

    Attributes:
        duration_s: launch floor included.
        tile, split: block tile and slices of K.
        grid, waves: blocks, and blocks over multiprocessors.
        compute_s, memory_s: arithmetic (with its loads from L2) alone, memory traffic alone.
        read_bytes, written_bytes: across device memory.
        limiter: what sets the time.
        rounds: tiles that the busiest multiprocessor works through.
        vector: runs on the vector lanes.
        by_turns: blocks add their slices of K up in place, one after the other (`machine.Turns`);
            else a kernel after it adds them up.
    """

    duration_s: float
    tile: Tile
    split: int
    grid: int
    waves: float
    compute_s: float
    memory_s: float
    read_bytes: float
    written_bytes: float
    limiter: Limiter
    rounds: int
    vector: bool
    by_turns: bool = False
