"""`sm90_xmma_*`: matrix products and convolutions that cuBLAS and cuDNN share.

NVIDIA does not document these names; the tokens below were compared with recorded launches.
"""

from __future__ import annotations

import math
import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(r"sm(?P<sm>\d+)_xmma_(?P<rest>\w+)")
_T = r"(?:c?f32|tf32|bf16|f16|f64|i8|s8|e4m3|e5m2)"
_TYPES = re.compile(rf"_({_T})({_T})_({_T})({_T})_({_T})(?=_)")

_OPERATIONS = {
    "gemm": Words("matrix product", "矩阵乘"),
    "fprop": Words("convolution, forward", "卷积前向"),
    "dgrad": Words("convolution, gradient of the input", "卷积的输入梯度"),
    "wgrad": Words("convolution, gradient of the weight", "卷积的权重梯度"),
    "depthwise": Words("depthwise convolution", "逐通道卷积"),
}

_LAYOUTS = {
    "nhwckrsc": "input NHWC, filter KRSC",
    "nchwkcrs": "input NCHW, filter KCRS",
    "ndhwcktrsc": "input NDHWC, filter KTRSC",
    "ncdhwkctrs": "input NCDHW, filter KCTRS",
}


def _warps(found: re.Match[str]) -> Words:
    count = math.prod(int(n) for n in found[1].split("x"))
    return Words(f"{count} ({found[1]})", f"{count} 个（{found[1]}）")


_RULES = (
    Rule(r"(gemm|fprop|dgrad|wgrad)", "operation", lambda m: _OPERATIONS[m[1]]),
    Rule(r"depthwise_convolution", "operation", _OPERATIONS["depthwise"]),
    Rule(
        r"implicit_gemm",
        "algorithm",
        Words(
            "as a matrix product whose first matrix is never written out (implicit GEMM)",
            "隐式 GEMM：不展开输入矩阵",
        ),
    ),
    Rule("indexed", "algorithm", Words("addresses looked up in a table", "查表取地址"), False),
    Rule("wo_smem", "algorithm", Words("without shared memory", "不使用共享内存")),
    Rule("tiling", "algorithm", Words("tiled directly", "直接分块"), False),
    Rule(r"[nt][nt]", "layout", lambda m: words.transposes(m[0])),
    Rule(
        r"[nt]",
        "layout",
        lambda m: Words(
            "result column-major" if m[0] == "n" else "result row-major",
            "结果列主序" if m[0] == "n" else "结果行主序",
        ),
        False,
    ),
    Rule(
        r"(nhwckrsc|nchwkcrs|ndhwcktrsc|ncdhwkctrs)",
        "layout",
        lambda m: Words(
            _LAYOUTS[m[1]], _LAYOUTS[m[1]].replace("input", "输入").replace("filter", "卷积核")
        ),
    ),
    Rule(
        r"(nhwc|nchw|ndhwc|ncdhw)",
        "layout",
        lambda m: Words(f"output {m[0].upper()}", f"输出 {m[0].upper()}"),
    ),
    Rule(
        r"tilesize(\d+x\d+x\d+)",
        "tile",
        lambda m: Words(
            f"{' × '.join(m[1].split('x'))} (M × N of the result, K a pass)",
            f"{' × '.join(m[1].split('x'))}（结果的 M × N，每次的 K）",
        ),
    ),
    Rule(r"stage(\d+)", "depth", lambda m: Words(f"{m[1]} stages in flight", f"{m[1]} 级流水")),
    Rule(
        r"warpgroupsize(\d+x\d+x\d+)",
        "warps",
        lambda m: Words(
            f"{math.prod(map(int, m[1].split('x')))} group(s) of four warps multiply ({m[1]})",
            f"{math.prod(map(int, m[1].split('x')))} 个四 warp 组做乘法（{m[1]}）",
        ),
    ),
    Rule(r"warpsize(\d+x\d+x\d+)", "warps", _warps),
    Rule(
        "ffma",
        "unit",
        Words("ordinary arithmetic units, no tensor cores", "普通运算单元，不用张量核心"),
    ),
    Rule(r"tensor(\d+x\d+x\d+)", "instruction", lambda m: words.times(m[1])),
    Rule(
        r"g(\d+)", "variant", lambda m: Words(f"{m[1]} group(s) of channels", f"通道分 {m[1]} 组")
    ),
    Rule(
        r"aligna(\d+)",
        "alignment",
        lambda m: Words(f"inputs: multiples of {m[1]} elements", f"输入：{m[1]} 个元素的整数倍"),
    ),
    Rule(
        r"alignc(\d+)",
        "alignment",
        lambda m: Words(f"result: multiples of {m[1]} elements", f"结果：{m[1]} 个元素的整数倍"),
    ),
    Rule(
        r"segment_k_(on|off)",
        "split",
        lambda m: Words(
            "K is split over several blocks" if m[1] == "on" else "K is not split",
            "K 被多个线程块切分" if m[1] == "on" else "K 不切分",
        ),
    ),
    Rule(r"split_k", "split", Words("K is split over several blocks", "K 被多个线程块切分")),
    Rule("strided", "variant", Words("strided", "带步幅")),
    Rule(
        r"t(\d)r(\d)s(\d)",
        "variant",
        lambda m: Words(f"filter of {m[1]} × {m[2]} × {m[3]}", f"卷积核 {m[1]} × {m[2]} × {m[3]}"),
        False,
    ),
    Rule(
        r"beta(True|False)",
        "epilogue",
        lambda m: Words(
            "adds to what is there" if m[1] == "True" else "overwrites the result",
            "累加到已有结果" if m[1] == "True" else "覆盖结果",
        ),
        False,
    ),
    Rule("relu", "epilogue", Words("ReLU", "ReLU")),
    Rule("bias", "epilogue", Words("adds a bias", "加偏置")),
    Rule("execute", "other", Words("the main kernel", "主内核")),
    Rule("kernel", "other", Words("the main kernel", "主内核")),
    Rule("(5x|6x|trt)", "variant", Words("build of the library", "库的构建版本"), False),
    Rule("(infer|train)", "variant", Words("part of cuDNN", "cuDNN 的组成部分")),
    Rule("cublas", "library", Words("shipped with cuBLAS", "随 cuBLAS 提供")),
    Rule("cudnn", "library", Words("shipped with cuDNN", "随 cuDNN 提供")),
)


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
        Piece("xmma", "library", Words("NVIDIA's xmma kernels", "NVIDIA 的 xmma 内核")),
        Piece(f"sm{found['sm']}", "architecture", words.architecture(int(found["sm"]))),
    ]
    if types:
        pieces += _types(types)
        name = name.replace(types[0], "", 1)
    # Depthwise kernels state several tiles; the first is the result's.
    name = re.sub(r"(_tilesize\d+x\d+x\d+)(?:_\d+x\d+x\d+)+", r"\1", name)
    tail, unread = read_tokens(name, _RULES)
    return _kernel(symbol, (*pieces, *tail), unread, types)


def _types(found: re.Match[str]) -> list[Piece]:
    a, out, product, adds, scales = (words.dtype(text) or text for text in found.groups())
    return [
        Piece(
            found[1],
            "inputs",
            Words(f"{a}, multiplied as {product}", f"{a}，以 {product} 相乘"),
            False,
        ),
        Piece(found[4], "accumulator", same(adds), False),
        Piece(
            found[2],
            "output",
            Words(f"{out}, scaled in {scales}", f"{out}，以 {scales} 缩放"),
            False,
        ),
    ]


def _kernel(
    symbol: str, pieces: tuple[Piece, ...], unread: tuple[str, ...], types: re.Match[str] | None
) -> KernelName:
    operation = next((p.value for p in pieces if p.field == "operation"), _OPERATIONS["gemm"])
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
        Words(f"{library} (NVIDIA)", f"{library}（NVIDIA）"),
        Words(f"A kernel of {library}: {operation.en}.", f"{library} 内核：{operation.zh}。"),
        pieces,
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        int(stages[1]) if stages else None,
        words.bits(types[1]) if types else None,
        threads,
        source="Not documented by NVIDIA; read from recorded launches with known shapes.",
    )
