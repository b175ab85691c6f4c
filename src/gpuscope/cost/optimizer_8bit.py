"""One tensor's AdamW step with moments of 8 bits (`gpuscope::adamw_8bit`).

A block of 256 threads takes 256 elements, whose moments share a scale: it reads parameter, gradient
and both moments, and writes parameter and moments back (bitsandbytes,
`kOptimizerStatic8bit2StateBlockwise`). Its time was not measured: the bytes at the device's rate.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_BLOCK = 256


@kernel_model("gpuscope::adamw_8bit")
def adamw_8bit(work: Work) -> tuple[Kernel, ...]:
    """Parameter, gradient, two moments, two lists of scales: all but the gradient are rewritten."""
    inputs = work.op.inputs
    device = [t for t in inputs if t.device == "device" and t.numel > 0]
    if not device:
        return ()
    parameter, gradient = inputs[:2]
    read = float(sum(t.nbytes for t in device))
    return (
        kernel(
            work,
            Launch(
                "adamw_8bit",
                "optimizer",
                cold_bytes=read,
                written_bytes=read - gradient.nbytes,
                items=parameter.numel,
                cycles=work.constants.value("optimizer.adam_cycles"),
                grid=ceil(parameter.numel / _BLOCK),
                block=_BLOCK,
                streaming=True,
                dtype=parameter.dtype,
            ),
        ),
    )
