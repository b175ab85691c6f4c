"""`nvjet_*`: cuBLAS' matrix products for Hopper and later.

NVIDIA does not document these names. What they say was inferred from launches whose shapes, dtypes,
grids and blocks were recorded (validation/recordings/h200/micro/matmul.csv.gz).
"""

from __future__ import annotations

import re

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(
    r"nvjet_(?:(?P<sm>sm\d+)a?_)?(?P<types>[a-z]{3,6})_(?P<tile>\d+x\d+)_(?P<depth>\d+x\d+)"
    r"_(?P<cluster>\d+x\d+)(?:_(?P<rest>\w+))?"
)
_TABLE = table("nvjet")
_LETTERS = _TABLE.names["type"]


@reader(
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
    "nvjet_sm100_tst_128x128_64x8_2x2_2cta_h_bz_TNT",
)
def read_nvjet(symbol: str) -> KernelName | None:
    """Read cuBLAS' `nvjet` names."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    types = found["types"]
    k, stages = found["depth"].split("x")
    tail, unread = read_tokens(found["rest"] or "", _TABLE.rules)
    head = [Piece("nvjet", "library", Text("cuBLAS, a matrix product"))]
    if found["sm"]:
        arch = words.architecture(int(found["sm"][2:]))
        head.append(Piece(found["sm"], "architecture", arch))
    head += _types(types)
    head += [
        Piece(found["tile"], "tile", words.tile(found["tile"])),
        Piece(found["depth"], "depth", words.depth(k, stages)),
        Piece(found["cluster"], "cluster", words.times(found["cluster"])),
    ]
    m, n = map(int, found["tile"].split("x"))
    return KernelName(
        symbol,
        Text("cuBLAS (NVIDIA)"),
        Text(
            "A {dtype} matrix product of cuBLAS on tensor cores.", dtype=_LETTERS.get(types[0], "")
        ),
        (*head, *tail),
        unread,
        (m, n, int(k)),
        int(stages),
        words.bits_of(_LETTERS.get(types[0], "")),
        # On Hopper: one warp group loads, two multiply; as every recorded launch has it.
        384 if found["sm"] in ("sm90", None) else None,
        Text(
            "The tile is in cuBLAS's column-major view: PyTorch hands over its row-major matrices "
            "transposed, so the first number usually runs along the result's columns (N)."
        ),
        Text("Not documented by NVIDIA; read from recorded launches with known shapes and dtypes."),
    )


def _types(types: str) -> list[Piece]:
    """ "tst": bf16 in, added up in fp32, bf16 out; of five letters the first two are A and B."""
    names = [_LETTERS.get(letter, letter) for letter in types]
    inputs = names[0] if len(types) == 3 else " × ".join(names[:2])
    return [
        Piece(types[: len(types) - 2], "inputs", verbatim(inputs)),
        Piece(types[-2], "accumulator", verbatim(names[-2])),
        Piece(types[-1], "output", verbatim(names[-1])),
    ]
