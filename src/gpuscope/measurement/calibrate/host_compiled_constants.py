"""`host.compiled.*` from calls of compiled functions of two sizes: differences, nothing fitted.

With K, L, N, F, B the times of the bench's functions (`bench.host_compiled`: generated kernels,
library calls, a network without gradients, with them, and its backward pass) and ' for what one
more kernel, call or layer adds,

    per_kernel = K'          library = L'
    guard = (N' - L' - K') / 4             a layer has four parameters, one product, one kernel
    save = (F' - N') / 4                   what wanting gradients adds
    gradient = (B' - 2 L' - 3 K') / 4      two products, three kernels (counted by their launches)

and what is left of the smaller network is what a call, a forward or a backward pass costs once.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.hardware import CalibratedValue

KERNELS = (4, 24)
"""Generated kernels of the two functions; slices of different lengths do not fuse."""

LIBRARY = (4, 24)
"""Matrix products of the two functions."""

LAYERS = (1, 6)
"""Layers of the two networks; each is a linear layer and a layer norm: four parameters."""

PARAMETERS = 4
"""Of one layer of the bench's network."""

_LEAST_S = 0.5e-6
_SPREAD = 0.3
"""Half-width: what the two sizes left unexplained of the third in the recorded calls."""

Times = Mapping[tuple[str, str], float]
"""Median seconds by (function, size)."""


def compiled_constants(times: Times) -> dict[str, CalibratedValue]:
    """The constants; empty where a function was not measured at both sizes.

    Args:
        times: of the family "compiled".
    """
    wanted = {
        "kernels": KERNELS,
        "library": LIBRARY,
        "network": LAYERS,
        "forward": LAYERS,
        "backward": LAYERS,
    }
    if any((name, str(n)) not in times for name, sizes in wanted.items() for n in sizes):
        return {}
    small = {name: times[name, str(sizes[0])] for name, sizes in wanted.items()}
    more = {
        name: (times[name, str(b)] - times[name, str(a)]) / (b - a)
        for name, (a, b) in wanted.items()
    }
    kernel, library, layers = more["kernels"], more["library"], LAYERS[0]
    found = {
        "per_kernel_s": kernel,
        "library_s": library,
        "guard_s": (more["network"] - library - kernel) / PARAMETERS,
        "save_s": (more["forward"] - more["network"]) / PARAMETERS,
        "gradient_s": (more["backward"] - 2 * library - 3 * kernel) / PARAMETERS,
        "call_s": small["network"] - layers * more["network"],
        "forward_s": small["forward"] - layers * more["forward"],
        "backward_s": small["backward"] - layers * more["backward"],
    }
    return {f"host.compiled.{name}": _entry(max(s, _LEAST_S)) for name, s in found.items()}


def _entry(seconds: float) -> CalibratedValue:
    return CalibratedValue(
        seconds,
        "s",
        "measured",
        seconds * (1 - _SPREAD),
        seconds * (1 + _SPREAD),
        "compiled functions of two sizes",
    )
