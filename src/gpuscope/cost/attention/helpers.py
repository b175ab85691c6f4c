"""Small kernels around attention's main one: counters, row sums, conversions, sums over heads."""

from __future__ import annotations

from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel


def tiny(work: Work, name: str) -> Kernel:
    """A kernel of one block that sets a counter or unpacks a seed."""
    seconds = work.constants.value("attention.tiny_s")
    return Kernel(
        name=name,
        kind="memset" if name == "memset" else "other",
        op=work.op.index,
        duration_s=seconds,
        low_s=seconds * 0.8,
        high_s=seconds * 1.2,
        limiter="latency",
        written_bytes=4.0,
        block=1,
        waves=0.01,
        origin="calibrated" if work.constants.calibrated else "estimated",
    )


def efficient_helpers(work: Work) -> tuple[Kernel, ...]:
    """What the memory-efficient backward pass launches first in float32: dO times O, its sums by
    row, their copy in another order, and zeros to add dQ up in where there are many keys.

    aten/src/ATen/native/transformers/cuda/attention_backward.cu; half precision has all that in
    the main kernel.
    """
    q, k, out = work.op.inputs[1], work.op.inputs[2], work.op.inputs[4]
    if q.dtype != "float32":
        return ()
    rows = 4.0 * out.numel / max(out.shape[-1], 1)
    size = float(out.nbytes)
    helpers = [
        stream(work, "attention_dot_multiply", 2 * size, size, "multiply"),
        stream(work, "attention_dot_sum", size, rows, "sum"),
        stream(work, "attention_dot_copy", rows, rows, "multiply"),
    ]
    if k.shape[-2] > 64 * (1 + (q.shape[-1] > 64)):
        helpers.append(stream(work, "attention_zero_dq", 0.0, float(q.nbytes), "multiply"))
    return tuple(helpers)


def stream(work: Work, name: str, read: float, written: float, key: str) -> Kernel:
    """A memory-bound helper kernel."""
    constants = work.constants
    floor = constants.value(f"attention.{key}.floor_s", "attention.helper_floor_s")
    rate = f"attention.{key}.bandwidth_efficiency", "attention.helper_bandwidth_efficiency"
    share, spread = constants.value(*rate), constants.spread(*rate)
    # What the kernel before has just written is still in the L2 if it fits.
    near = 1.3 if read + written < work.l2_bytes * 0.6 else 1.0
    memory = (read + written) / (work.bandwidth * share * near)
    duration = floor + memory
    return Kernel(
        name=name,
        kind="attention",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=duration * (1 + spread),
        read_bytes=read,
        written_bytes=written,
        least_bytes=read + written,
        grid=max(1, int(max(read, written) / 32768)),
        block=128,
        waves=max(0.01, read / 32768 / (work.units * 8)),
        limiter="memory" if memory > floor else "latency",
        memory_s=memory,
        origin="calibrated" if constants.calibrated else "estimated",
    )
