"""Products of serving engines with weights of four bits: kernels that stream the weights.

Three ways, and a product takes the quickest that is open to it:

- The library's tiles (`gpuscope.cost.matmul.gemm`), which walk K at a pace that few rows do not
  shorten. Where the matrix unit multiplies four bits itself, a step of the walk has twice the
  depth.
- Experts' kernels on Blackwell take the few rows as the narrow side, and stream the weights: the
  slower of reading everything once and of multiplying rows filled up to whole tiles. Products of
  whole matrices have no such kernels, and come to this only where their rows fill tiles.
- Marlin (arXiv:2408.11743) unpacks four bits to bfloat16 on the way to tensor cores that know no
  four bits. It streams, too, but a multiprocessor unpacks so many bytes a clock and no more:
  memory sets the pace up to A100, and unpacking from H100 on.

Shapes:

    A [.., M, K] (16 or 8 bits) x B [.., K, N] (4 bits) -> [.., M, N]

`args["rate"]`: what the matrix unit multiplies in, where that is not A's dtype ("fp4").
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.matmul.gemm import machine_for, plan
from gpuscope.cost.matmul.model import VECTOR_BYTES, gemm_kernels, operand, product
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

TILE_ROWS = 16
"""The narrow side of the smallest tile of the tensor cores' instructions, as Marlin uses them."""

WHOLE_ROWS = 128
"""That fill the tiles of products of whole matrices."""

UNPACKED_BYTES = 10.0
"""A clock and multiprocessor, of weights. Served experts (the fitted cells of
validation/serving.py): 11.2 on H200 (gpt-oss-120b), 9.1 on B200 (Kimi-K2.5)."""


WARP_FLOPS = 2048.0
"""A clock and multiprocessor, by instructions of one warp (mma.sync) in 16 bits: A100's peak."""


@kernel_model("gpuscope::streamed_mm")
def streamed_mm(work: Work) -> tuple[Kernel, ...]:
    """The quickest of the library's tiles and of kernels that stream the weights."""
    a, b = work.op.inputs[:2]
    made = product(work, operand(work, a, 0), operand(work, b, 1))
    if made is None:
        return ()
    rate = str(work.op.args.get("rate", a.dtype))
    machine = machine_for(work.device, work.constants, a.dtype, "matmul")
    # Weights are packed anew when they are loaded, rows filled up to whole vectors.
    problem = replace(made.problem, aligned=VECTOR_BYTES)
    if rate != a.dtype:
        problem = replace(problem, item_bytes=b.itemsize)
    found = plan(problem, machine)
    library = gemm_kernels(work, problem, machine, found, made.kernel_name(found))
    unpacked = a.itemsize > 1 and work.device.vendor == "NVIDIA"
    if problem.batch == 1 and problem.m < WHOLE_ROWS and not unpacked:
        return library
    rows = ceil(problem.m / TILE_ROWS) * TILE_ROWS
    peak = work.device.peak_flops_per_s(rate) * machine.efficiency
    compute_s = 2.0 * problem.batch * rows * problem.n * problem.k / peak
    memory_s = problem.least_bytes / machine.memory_bytes_per_s
    if unpacked and work.device.compute_units and work.device.clock_hz:
        clocks = work.device.compute_units * work.device.clock_hz  # of all multiprocessors
        memory_s = max(memory_s, problem.b_bytes / (UNPACKED_BYTES * clocks))
        compute_s *= max(1.0, work.device.peak_flops_per_s(rate) / (WARP_FLOPS * clocks))
    seconds = machine.floor_s + machine.cold_s + max(compute_s, memory_s)
    if not unpacked and sum(kernel.duration_s for kernel in library) <= seconds:
        return library
    spread = work.constants.spread("matmul.memory.scale", "kernel.scale")
    main = next(kernel for kernel in library if kernel.flops)
    return (
        replace(
            main, name=f"streamed_{main.name}", duration_s=seconds, compute_s=compute_s,
            memory_s=memory_s, low_s=seconds / (1 + spread), high_s=seconds * (1 + spread),
            limiter="memory" if memory_s > compute_s else "tensor_core", note="",
            origin="estimated",
        ),
    )  # fmt: skip
