"""What the host spends where XLA runs a compiled step: one call of JAX, then a loop over thunks.

A step is one executable: JAX checks the arguments, the runtime makes the results' buffers, and a
loop in C++ launches a kernel, a library's call or a command buffer (a CUDA graph) after the other
(openxla/xla `xla/backends/gpu/runtime/sequential_thunk.cc`).
"""

from __future__ import annotations

from gpuscope.cost.types import HostCost
from gpuscope.program.types import Op

__all__ = ["SPREAD", "XlaHost"]

SPREAD = 0.12
"""Relative 80 % half-width that it adds to the device's time: what XLA chooses by trial (products'
kernels, convolutions' algorithms) is not known here. A judgement."""

_CALL_S = 30e-6
"""A call of a jitted function without arrays, on the catalogue's host. A judgement."""

_ARRAY_S = 0.7e-6
"""Each argument's check, and each result's array. A judgement."""

_THUNK_S = 1e-6
"""A thunk before its launch. A judgement."""


class XlaHost:
    """Host cost of a compiled step.

    Args:
        launch_s: of one launch on this host.
        scale: this host's pace against the catalogue's.
    """

    def __init__(self, launch_s: float, scale: float) -> None:
        self.launch_s = launch_s
        self.scale = scale

    def cost(self, op: Op, launches: int) -> HostCost:
        """The call itself is the first operator; names for memory cost nothing."""
        if op.name == "xla::execute":
            arrays = op.args.get("arrays")
            count = arrays if isinstance(arrays, int) else 0
            return HostCost(self.scale * (_CALL_S + _ARRAY_S * count), 0.0, 0.0)
        if not launches:
            return HostCost(0.0, 0.0, 0.0)
        return HostCost(self.scale * _THUNK_S, self.launch_s, 0.0, op.sync)
