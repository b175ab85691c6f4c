"""The kernels of a predicted timeline with the limiter that is shown of them."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.cost.limits import named_limiter
from gpuscope.cost.matmul.model import is_aligned
from gpuscope.cost.types import Kernel
from gpuscope.hardware.device import Device
from gpuscope.program.types import Op
from gpuscope.timeline.types import Timeline


def with_limiters(timeline: Timeline, device: Device) -> Timeline:
    """Return a prediction whose matrix kernels say what limits them (see `cost.limits`)."""
    roofs = Roofs(device)

    def named(kernel: object) -> object:
        if not isinstance(kernel, Kernel) or kernel.kind not in MATRIX_KINDS or not kernel.flops:
            return kernel
        peak = roofs.peak_flops_per_s(kernel.dtype, kernel.kind)
        op = timeline.ops[kernel.op] if 0 <= kernel.op < len(timeline.ops) else None
        found = named_limiter(
            kernel.limiter,
            kernel.duration_s,
            kernel.flops / peak if peak else None,
            aligned=kernel.kind != "matmul" or not isinstance(op, Op) or is_aligned(op),
        )
        return kernel if found == kernel.limiter else replace(kernel, limiter=found)

    return replace(timeline, kernels=tuple(map(named, timeline.kernels)))
