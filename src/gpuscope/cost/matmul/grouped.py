"""Grouped matrix products (mixture of experts): one launch, one product a group.

`_grouped_mm` takes all tokens in one matrix, sorted by expert, with the end row of each group.
The groups' sizes are data; they are taken as equal, but where there are few rows: spread at random,
they leave groups empty, whose operand is not read. A small kernel writes the groups' pointers
first, then persistent blocks walk the tiles of all groups. Shapes (T tokens, G groups):

    A [T, K] x B [G, K, N] -> [T, N]       forward and data gradient: T / G rows a group
    A [M, T] x B [T, N]    -> [G, M, N]    weight gradient: T / G deep a group
    A [G, M, K] x B [K, T] -> [M, T]       T / G columns a group
    A [G, M, K] x B [G, K, N]              an ordinary batch
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, prod

from gpuscope.cost.matmul.gemm import Plan, Problem, machine_for, plan
from gpuscope.cost.matmul.model import (
    alignment_bytes,
    compute_dtype,
    gemm_kernels,
    layout_of,
    sum_read_bytes,
    written_item,
)
from gpuscope.cost.matmul.tiles import Tile
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


@dataclass(frozen=True, slots=True)
class GroupedShape:
    """Sizes of one of `groups` equal products, and the FLOPs of all."""

    groups: int
    m: int
    n: int
    k: int
    flops: float


def grouped_shape(a: TensorSpec, b: TensorSpec, groups: int) -> GroupedShape:
    """Sizes of a group's product when all groups are equal (rounded up)."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    flops = 2.0 * m * n * k
    if len(a.shape) == 2 and len(b.shape) == 3:
        return GroupedShape(groups, ceil(m / groups), n, k, flops)
    if len(a.shape) == 2:
        return GroupedShape(groups, m, n, ceil(k / groups), flops)
    if len(b.shape) == 2:
        return GroupedShape(groups, m, ceil(n / groups), k, flops)
    return GroupedShape(groups, m, n, k, flops * groups)


@kernel_model("aten::_grouped_mm", "aten::_scaled_grouped_mm")
def grouped_mm(work: Work) -> tuple[Kernel, ...]:
    """A grouped product: pointer set-up, then one persistent launch over all groups' tiles."""
    a, b = work.op.inputs[:2]
    out = work.op.outputs[0]
    if out.numel == 0:
        return ()
    groups = _groups(a, b, work.op.inputs[2:], out)
    shape = grouped_shape(a, b, groups)
    dtype = compute_dtype(work, a.dtype)
    bias = sum(t.touched_bytes for t in work.op.inputs[3:] if len(t.shape) == 2)
    met = groups_met(a.shape[0], groups) if len(a.shape) < len(b.shape) else float(groups)
    problem = Problem(
        m=shape.m,
        n=shape.n,
        k=shape.k,
        batch=groups,
        dtype=dtype,
        a_bytes=float(a.touched_bytes),
        b_bytes=b.touched_bytes * met / groups,
        c_bytes=written_item(work.op) * out.numel,
        item_bytes=a.itemsize,
        out_bytes=written_item(work.op),
        extra_read_bytes=float(bias) + sum_read_bytes(work.op),
        layout=(layout_of(a) + layout_of(b)).replace("-", "N"),
        aligned=alignment_bytes(a, b, out),
        hot_a=bool(work.hot and work.hot[0]),
        hot_b=len(work.hot) > 1 and work.hot[1],
    )
    machine = machine_for(work.device, work.constants, dtype, "matmul", problem.aligned)
    found = _persistent(work, problem, met) or plan(problem, machine)
    note = Text("{groups} groups taken as equal", groups=groups)
    name = f"grouped_gemm_{dtype}_{found.tile.name}"
    main = gemm_kernels(work, problem, machine, found, name, note=note, flops=shape.flops)
    return (_prepare(work, groups), *main)


def groups_met(rows: int, groups: int) -> float:
    """How many of `groups` experts meet one of `rows` that go to any of them alike: 7.8 of 128 for
    8 rows, all but 2 % of them for four rows an expert."""
    return groups * -expm1(-rows / groups)


def _persistent(work: Work, problem: Problem, met: float) -> Plan | None:
    """PyTorch's own kernel on compute capability 9.0 (aten/src/ATen/native/cuda/GroupMM.cu).

    One block a multiprocessor walks over the tiles of all groups: tiles of 64 x 128 where groups
    have few rows or columns, else 128 x 256. A block that comes to another group fetches new
    descriptors, a tile another. Groups are uneven: the last tile of each is half full on average.
    """
    if work.device.compute_capability != (9, 0) or problem.aligned < 16:
        return None
    small = min(problem.m, problem.n) <= 128
    tile = Tile(64, 128, 128, 384) if small else Tile(128, 256, 64, 384)
    rows = max(1.0, problem.m / tile.m + 0.5) * met
    blocks = rows * ceil(problem.n / tile.n)
    rounds = max(1.0, blocks / work.units)
    steps = ceil(problem.k * problem.item_bytes / (2.0 * tile.k))
    get, at = work.constants.value, f"matmul.grouped.{'small' if small else 'large'}"
    # Tiles of many sizes end at different times: only part of the last round is waited for.
    whole = get(f"{at}.whole_rounds")
    compute_s = (whole * ceil(rounds) + (1.0 - whole) * rounds) * (
        get(f"{at}.tile_s") + steps * get(f"{at}.step_s")
    ) + met * get(f"{at}.group_s")
    read = (0.0 if problem.hot_a else problem.a_bytes) + (0.0 if problem.hot_b else problem.b_bytes)
    moved = read + problem.c_bytes + problem.extra_read_bytes
    memory_s = moved / (work.bandwidth * get(f"{at}.memory_share"))
    high, low = max(compute_s, memory_s), min(compute_s, memory_s)
    overlap = get(f"{at}.overlap")
    seconds = high * (1.0 + (low / high) ** overlap) ** (1.0 / overlap)
    seconds += get(f"{at}.start_s")
    seconds += 0.0 if problem.hot_a and problem.hot_b else get(f"{at}.cold_s")
    return Plan(
        seconds,
        tile,
        1,
        work.units,
        rounds,
        compute_s,
        memory_s,
        moved - problem.c_bytes,
        problem.c_bytes,
        "memory" if memory_s > compute_s else "tensor_core",
        1,
        False,
    )


def _groups(a: TensorSpec, b: TensorSpec, rest: tuple[TensorSpec, ...], out: TensorSpec) -> int:
    for spec in (a, b, out):
        if len(spec.shape) == 3:
            return max(spec.shape[0], 1)
    ends = [t for t in rest if t.dtype == "int32"]
    return max(prod(ends[0].shape), 1) if ends else 1


def _prepare(work: Work, groups: int) -> Kernel:
    seconds = work.constants.value("matmul.grouped.prepare_s")
    spread = work.constants.spread("matmul.grouped.prepare_s")
    return Kernel(
        name="prepare_grouped_gemm_data",
        kind="matmul",
        op=work.op.index,
        duration_s=seconds,
        low_s=seconds / (1 + spread),
        high_s=seconds * (1 + spread),
        read_bytes=4.0 * groups,
        least_bytes=4.0 * groups,
        grid=1,
        block=max(groups, 32),
        waves=1.0 / work.units,
        limiter="latency",
        origin="calibrated" if work.constants.calibrated else "estimated",
    )
