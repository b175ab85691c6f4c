"""AMD's matrix products and convolutions: Tensile (`Cijk_...`) and MIOpen's `igemm_*`.

ROCm/Tensile, Tensile/Common.py and the wiki page on kernel parameters; ROCm/MIOpen, igemm codegen.
"""

from __future__ import annotations

import re

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(r"Cijk_(?P<a>A[ikl]+)_(?P<b>B[jkl]+)_(?P<rest>\w+)")


@reader(
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB0_ISA942_IU1_K1"
)
def read_tensile(symbol: str) -> KernelName | None:
    """Read rocBLAS' and hipBLASLt's matrix products."""
    found = _NAME.match(symbol)
    if found is None:
        return None
    first, _, rest = found["rest"].partition("_")
    inputs = table("tensile").names["letter"].get(first[0], first)
    a = Text("A as stored") if found["a"].startswith("Ai") else Text("A transposed")
    b = Text("B transposed") if found["b"].startswith("Bj") else Text("B as stored")
    head = [
        Piece("Cijk", "operation", Text("matrix product C[i,j,k]")),
        Piece(found["a"], "layout", a),
        Piece(found["b"], "layout", b),
        Piece(first, "inputs", verbatim(inputs)),
    ]
    pieces, unread = read_tokens(rest, table("tensile").rules)
    tile = re.search(r"MT(\d+)x(\d+)x(\d+)", symbol)
    return KernelName(
        symbol,
        Text("rocBLAS or hipBLASLt (AMD, Tensile)"),
        Text("A {inputs} matrix product of AMD's libraries.", inputs=inputs),
        (*head, *pieces),
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        words.bits_of(inputs),
        source="ROCm/Tensile, kernel parameters.",
    )


_IGEMM = re.compile(r"igemm_(?P<way>fwd|bwd|wrw)_(?P<rest>\w+)")


@reader(
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4_ws1x1_wr2x2_ta1x1x8x1_1x8x1x32"
    "_tb1x1x2x1_1x8x1x32_me"
)
def read_igemm(symbol: str) -> KernelName | None:
    """Read MIOpen's implicit-GEMM convolutions."""
    found = _IGEMM.match(symbol)
    if found is None:
        return None
    way = table("igemm").words["way"][found["way"]]
    pieces, unread = read_tokens(found["rest"], table("igemm").rules)
    tile = re.search(r"bt(\d+)x(\d+)x(\d+)", symbol)
    inputs = next((p.value for p in pieces if p.field == "inputs"), "")
    return KernelName(
        symbol,
        Text("MIOpen (AMD)"),
        Text("MIOpen: {way}, implicit GEMM.", way=way),
        (Piece(f"igemm_{found['way']}", "operation", way), *pieces),
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        words.bits_of(inputs),
        source="ROCm/MIOpen, igemm codegen.",
    )
