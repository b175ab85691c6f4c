"""`nvjet_*`: cuBLAS' matrix products for Hopper and later.

NVIDIA does not document these names. What they say was inferred from launches whose shapes, dtypes,
grids and blocks were recorded (validation/recordings/h200/micro/matmul.csv.gz).
"""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(
    r"nvjet_(?:(?P<sm>sm\d+)a?_)?(?P<types>[a-z]{3,6})_(?P<tile>\d+x\d+)_(?P<depth>\d+x\d+)"
    r"_(?P<cluster>\d+x\d+)(?:_(?P<rest>\w+))?"
)
_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8", "o": "fp8", "d": "fp64", "b": "int8"}
_BITS = {"t": 16, "h": 16, "s": 32, "q": 8, "o": 8, "d": 64, "b": 8}

_RULES = (
    Rule("h", "order", Words("tiles follow each other along rows", "分块按行依次遍历"), False),
    Rule("v", "order", Words("tiles follow each other along columns", "分块按列依次遍历"), False),
    Rule(
        r"coop([AB])",
        "warps",
        lambda m: Words(
            f"two warp groups share one tile of {m[1]}", f"两个 warp 组共享同一个 {m[1]} 分块"
        ),
        False,
    ),
    Rule("2cta", "cluster", Words("two blocks work on one tile", "两个线程块合作一个分块"), False),
    Rule(
        "splitK",
        "split",
        Words(
            "K is split over several blocks; another kernel adds up the parts",
            "K 被多个线程块切分，由另一个内核求和",
        ),
    ),
    Rule("bias", "epilogue", Words("adds a bias", "加偏置")),
    Rule("badd", "epilogue", Words("adds a bias (another way)", "加偏置（另一种方式）"), False),
    Rule("relu", "epilogue", Words("ReLU", "ReLU")),
    Rule("gelu", "epilogue", Words("GELU", "GELU")),
    Rule("ovscale", "epilogue", Words("scales the output", "缩放输出"), False),
    Rule("ssched", "algorithm", Words("another schedule of the tiles", "另一种分块调度"), False),
    Rule(r"algo(\d+)", "algorithm", lambda m: Words(f"algorithm {m[1]}", f"算法 {m[1]}"), False),
    Rule(r"[NT]{3}", "layout", lambda m: words.transposes(m[0])),
)


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
    tail, unread = read_tokens(found["rest"] or "", _RULES)
    head = [Piece("nvjet", "library", Words("cuBLAS, a matrix product", "cuBLAS 矩阵乘"))]
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
        Words("cuBLAS (NVIDIA)", "cuBLAS（NVIDIA）"),
        Words(
            f"A {_TYPES.get(types[0], '')} matrix product of cuBLAS on tensor cores.",
            f"cuBLAS 在张量核心上的 {_TYPES.get(types[0], '')} 矩阵乘。",
        ),
        (*head, *tail),
        unread,
        (m, n, int(k)),
        int(stages),
        _BITS.get(types[0]),
        # On Hopper: one warp group loads, two multiply; as every recorded launch has it.
        384 if found["sm"] in ("sm90", None) else None,
        Words(
            "The tile is in cuBLAS's column-major view: PyTorch hands over its row-major matrices "
            "transposed, so the first number usually runs along the result's columns (N).",
            "分块采用 cuBLAS 的列主序视角：PyTorch 的行主序矩阵以转置形式传入，"
            "所以第一个数字通常沿结果的列方向（N）。",
        ),
        "Not documented by NVIDIA; read from recorded launches with known shapes and dtypes.",
    )


def _types(types: str) -> list[Piece]:
    """ "tst": bf16 in, added up in fp32, bf16 out; of five letters the first two are A and B."""
    names = [_TYPES.get(letter, letter) for letter in types]
    inputs = names[0] if len(types) == 3 else " × ".join(names[:2])
    return [
        Piece(types[: len(types) - 2], "inputs", same(inputs)),
        Piece(types[-2], "accumulator", same(names[-2])),
        Piece(types[-1], "output", same(names[-1])),
    ]
