"""Whose attention kernel PyTorch runs: cuDNN's, FlashAttention's or the memory-efficient one.

On compute capability 9.0 and 10.0 PyTorch prefers cuDNN's for half precision (sdp_utils.cpp,
`check_prefer_cudnn_attention`); elsewhere FlashAttention-2, and the memory-efficient kernel for
float32 and for heads that neither of them takes.
"""

from __future__ import annotations

from gpuscope.cost.attention.tiles import seen
from gpuscope.cost.registry import Work
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Device

WIDEST = 256
"""Heads wider than this neither cuDNN nor FlashAttention take (sdp_utils.cpp,
`check_head_dim_size_flash`; cuDNN frontend, scaled dot product attention, limits)."""

_HALF = ("float16", "bfloat16")


def has_flash(device: Device) -> bool:
    """FlashAttention-2: compute capability 8.0 and later, and AMD's CDNA (its README)."""
    return device.vendor == "AMD" or (device.compute_capability or (0, 0)) >= (8, 0)


def implementation(work: Work, head_dim: int) -> str:
    """Whose kernel runs on this device: "cudnn", "flash" or "efficient".

    Raises:
        UnsupportedError: FlashAttention's alone was asked for, and it has none for this device.
    """
    ran = work.op.args.get("implementation")
    if ran is not None:  # a recording says which
        return str(ran)
    asked, only, _ = str(work.op.args.get("backend", "flash")).partition("_only")
    if only and asked == "flash" and not has_flash(work.device):
        raise UnsupportedError(
            Text("FlashAttention has no kernels for {device}.", device=work.device.name),
            Text("They begin with compute capability 8.0, and AMD's CDNA."),
            Text("Type: --attention sdpa, or --packing mask where examples are packed."),
        )
    half = work.op.inputs[0].dtype in _HALF
    if head_dim > WIDEST:
        return "efficient"
    preferred = work.device.compute_capability in ((9, 0), (10, 0))
    alone = only or seen(work).ahead  # no other kernel is asked for with such a mask
    if half and head_dim % 8 == 0 and not alone and (preferred or asked == "cudnn"):
        return "cudnn"
    return "flash" if asked == "flash" and half else "efficient"
