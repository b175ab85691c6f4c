"""cuBLAS' and cuDNN's older names: `ampere_sgemm_128x64_nn`, `volta_scudnn_128x64_relu_...`."""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.cutlass import RULES
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(
    r"(?:cudnn_)?(?:infer_|train_)?(?P<arch>maxwell|pascal|volta|turing|ampere|hopper)_(?P<rest>\w+)"
)
_ARCH = {"maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "hopper": 90}
_KINDS = {
    "s": ("fp32", 32),
    "d": ("fp64", 64),
    "h": ("fp16", 16),
    "c": ("complex fp32", 64),
    "z": ("complex fp64", 128),
    "gc": ("complex fp32", 64),
    "i": ("int8", 8),
}

_RULES = (
    Rule(
        r"(gc|s|d|h|c|z|i)gemm",
        "operation",
        lambda m: Words(
            f"matrix product in {_KINDS[m[1]][0]}, ordinary arithmetic units",
            f"{_KINDS[m[1]][0]} 矩阵乘，普通运算单元",
        ),
    ),
    Rule(
        r"(s|h)cudnn",
        "operation",
        lambda m: Words(
            f"convolution of cuDNN in {_KINDS[m[1]][0]}", f"cuDNN 的 {_KINDS[m[1]][0]} 卷积"
        ),
    ),
    Rule("winograd", "algorithm", Words("Winograd: fewer multiplications", "Winograd：乘法更少")),
    Rule("3dconv", "operation", Words("three-dimensional convolution", "三维卷积")),
    Rule(r"(fp16|bf16|fp32|int8|i8)", "dtype", lambda m: same(m[0])),
    Rule(
        r"ldg(\d+)",
        "vector",
        lambda m: Words(f"loads {m[1]} values at once", f"每次加载 {m[1]} 个元素"),
    ),
    Rule(r"f2f|epifadd", "epilogue", Words("converts the result", "转换结果类型"), False),
    Rule("fprop", "operation", Words("forward", "前向")),
    Rule(r"stages_(\d+)x(\d+)", "depth", lambda m: words.depth(m[1], m[2])),
    Rule(
        r"(small|medium|large|interior|exp)",
        "variant",
        lambda m: Words(f"for {m[0]} problems", f"适用于 {m[0]} 规模"),
        False,
    ),
    Rule("xregs", "variant", Words("with more registers", "使用更多寄存器"), False),
    Rule("stridedB", "variant", Words("B is strided", "B 带步幅"), False),
    Rule(r"v(\d)", "number", lambda m: Words(f"version {m[1]}", f"版本 {m[1]}")),
    Rule(r"tile(\w+)", "variant", lambda m: same(m[0]), False),
    Rule(r"(\d+)x(\d+)", "tile", lambda m: words.tile(m[0])),
)


@reader(
    "ampere_sgemm_128x64_nn",
    "volta_scudnn_128x64_relu_interior_nn_v1",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
)
def read_blas_legacy(symbol: str) -> KernelName | None:
    """Read cuBLAS' and cuDNN's names that begin with an architecture's."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    arch = Piece(found["arch"], "architecture", words.architecture(_ARCH[found["arch"]]))
    pieces, unread = read_tokens(found["rest"], (*_RULES, *RULES))
    convolution = "cudnn" in symbol
    library = "cuDNN" if convolution else "cuBLAS"
    what = ("convolution", "卷积") if convolution else ("matrix product", "矩阵乘")
    tile = re.search(r"_(\d+)x(\d+)(?:_|$)", symbol)
    stages = re.search(r"stages_(\d+)x(\d+)", symbol)
    kind = re.search(r"_(gc|s|d|h|c|z|i)(?:gemm|cudnn)", symbol)
    shape = tuple(map(int, tile.groups())) if tile else ()
    return KernelName(
        symbol,
        Words(f"{library} (NVIDIA)", f"{library}（NVIDIA）"),
        Words(f"A {what[0]} of {library}.", f"{library} 的{what[1]}。"),
        (arch, *pieces),
        unread,
        (*shape, int(stages[1])) if shape and stages else shape,
        int(stages[2]) if stages else None,
        _KINDS[kind[1]][1] if kind else None,
        source="Not documented by NVIDIA; letters are those of BLAS.",
    )
