"""What the host spends where XLA runs a compiled step: one call of JAX, then a loop over thunks.

A step is one executable: JAX checks the arguments, the runtime makes the results' buffers, and a
loop in C++ launches a kernel, a library's call or a command buffer (a CUDA graph) after the other
(openxla/xla `xla/backends/gpu/runtime/sequential_thunk.cc`).
"""

from __future__ import annotations

from gpuscope.cost.types import HostCost
from gpuscope.program.types import Op

__all__ = ["SPREAD", "XlaHost"]

SPREAD = 0.16
"""Relative 80 % half-width that it adds to the device's time: what 80 % of the 23 steps of
`validation/jax_workloads` were within on an H200 when they were predicted before any was measured.
What XLA chooses by trial (products' kernels, convolutions' algorithms) is not known here."""

_CALL_S = 134e-6 / 1.85
"""A call of a jitted function without arrays."""

_ARRAY_S = 5.3e-6 / 1.85
"""Each argument's check, and each result's array. With `_CALL_S` and `_THUNK_S` fitted to the time
that 19 steps' calls took to return on one host (jax 0.11.2; off by up to 44 %), which is taken
to be the catalogue's: 1.85 times as slow as the one of scale 1."""

_THUNK_S = 0.5e-6 / 1.85
"""A thunk before its launch; 2.5 us with it there."""


class XlaHost:
    """Host cost of a compiled step.

    Args:
        launch_s: of one launch on this host.
        scale: how many times slower than the host of scale 1 it is.
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
