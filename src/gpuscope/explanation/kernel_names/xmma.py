"""`sm90_xmma_*`: matrix products and convolutions that cuBLAS and cuDNN share.

NVIDIA does not document these names; `xmma.toml` has their tokens.
"""

from __future__ import annotations

import math
import re

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(r"sm(?P<sm>\d+)_xmma_(?P<rest>\w+)")
_T = r"(?:c?f32|tf32|bf16|f16|f64|i8|s8|e4m3|e5m2)"
_TABLE = table("xmma")
_TYPES = re.compile(rf"_({_T})({_T})_({_T})({_T})_({_T})(?=_)")


@reader(
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
    "_warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4"
    "_alignc4_execute_kernel__5x_cublas",
)
def read_xmma(symbol: str) -> KernelName | None:
    """Read names of NVIDIA's xmma kernels."""
    found = _NAME.match(symbol)
    if found is None:
        return None
    name = "_" + found["rest"]
    types = _TYPES.search(name)
    pieces = [
        Piece("xmma", "library", Text("NVIDIA's xmma kernels")),
        Piece(f"sm{found['sm']}", "architecture", words.architecture(int(found["sm"]))),
    ]
    if types:
        pieces += _types(types)
        name = name.replace(types[0], "", 1)
    # Depthwise kernels state several tiles; the first is the result's.
    name = re.sub(r"(_tilesize\d+x\d+x\d+)(?:_\d+x\d+x\d+)+", r"\1", name)
    tail, unread = read_tokens(name, _TABLE.rules)
    return _kernel(symbol, (*pieces, *tail), unread, types)


def _types(found: re.Match[str]) -> list[Piece]:
    a, out, product, adds, scales = (words.dtype(text) or text for text in found.groups())
    return [
        Piece(
            found[1], "inputs", Text("{a}, multiplied as {product}", a=a, product=product), False
        ),
        Piece(found[4], "accumulator", verbatim(adds), False),
        Piece(found[2], "output", Text("{out}, scaled in {scales}", out=out, scales=scales), False),
    ]


def _kernel(
    symbol: str, pieces: tuple[Piece, ...], unread: tuple[str, ...], types: re.Match[str] | None
) -> KernelName:
    operation = next(
        (p.value for p in pieces if p.field == "operation"), _TABLE.words["operation"]["gemm"]
    )
    library = "cuBLAS" if symbol.endswith("cublas") else "cuDNN" if "cudnn" in symbol else "NVIDIA"
    tile = re.search(r"tilesize(\d+)x(\d+)x(\d+)", symbol)
    stages = re.search(r"_stage(\d+)_", symbol)
    warps = re.search(r"_warpsize(\d+)x(\d+)x(\d+)", symbol)
    groups = re.search(r"_warpgroupsize(\d+)x(\d+)x(\d+)", symbol)
    threads = None
    if warps:
        threads = 32 * math.prod(map(int, warps.groups()))
    elif groups:
        # One more group of four warps brings the data.
        threads = 128 * (1 + math.prod(map(int, groups.groups())))
    return KernelName(
        symbol,
        Text("{library} (NVIDIA)", library=library),
        Text("A kernel of {library}: {operation}.", library=library, operation=operation),
        pieces,
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        int(stages[1]) if stages else None,
        words.bits(types[1]) if types else None,
        threads,
        source=Text("Not documented by NVIDIA; read from recorded launches with known shapes."),
    )
