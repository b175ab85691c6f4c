"""cuDNN's fused attention: `cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_...`."""

from __future__ import annotations

import re

from gpuscope.document.text import Text
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName

_NAME = re.compile(r"cudnn_generated_fort_native_(?P<rest>\w+)")


@reader(
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1"
    "_cga1x1x1_kernel0_0"
)
def read_cudnn_attention(symbol: str) -> KernelName | None:
    """Read cuDNN's generated attention kernels."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    # The tile comes first; a second such token lays out the warps.
    rest = re.sub(r"(_\d+x\d+x\d+)_(\d+)x(\d+)x(\d+)", r"\1_warps\2x\3x\4", found["rest"], count=1)
    pieces, unread = read_tokens(rest, table("cudnn_attention").rules)
    tile = re.search(r"_(\d+)x(\d+)x(\d+)_", symbol)
    what = Text("cuDNN's fused attention, forward.")
    if "bprop" in symbol:
        what = Text("cuDNN's fused attention, backward.")
    return KernelName(
        symbol,
        Text("cuDNN (NVIDIA)"),
        what,
        pieces,
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        16,
        source=Text("Not documented by NVIDIA; read from recorded launches with known shapes."),
    )
