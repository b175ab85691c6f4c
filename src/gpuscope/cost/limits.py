"""What limits a kernel, as it is shown: a unit is named only where it is at work for half of it.

The models' own `Kernel.limiter` says which of arithmetic and memory traffic takes longer, loads and
waits of the main loop included: right for choosing constants, but a product that reaches a tenth of
the peak is not "limited by the tensor cores".
"""

from __future__ import annotations

from gpuscope.cost.types import Limiter

LEAST_SHARE = 0.5
"""Of a kernel's time that its arithmetic needs at the dense peak, to be what limits it."""


def named_limiter(
    limiter: Limiter, duration_s: float, at_peak_s: float | None, *, aligned: bool = True
) -> Limiter:
    """Return what limits a kernel.

    Args:
        limiter: as its model has it.
        duration_s: of the kernel.
        at_peak_s: its FLOPs at the dense peak; None where either is not known.
        aligned: rows of its operands begin at multiples of 16 bytes. Others are loaded element by
            element: then issuing those loads limits it.
    """
    if limiter not in ("tensor_core", "compute") or at_peak_s is None:
        return limiter
    if at_peak_s >= LEAST_SHARE * duration_s:
        return limiter
    return "latency" if aligned else "issue"
