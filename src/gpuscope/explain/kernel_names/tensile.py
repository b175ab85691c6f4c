"""AMD's matrix products and convolutions: Tensile (`Cijk_...`) and MIOpen's `igemm_*`.

ROCm/Tensile, Tensile/Common.py and the wiki page on kernel parameters; ROCm/MIOpen, igemm codegen.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(r"Cijk_(?P<a>A[ikl]+)_(?P<b>B[jkl]+)_(?P<rest>\w+)")
_LETTERS = {
    "H": "fp16",
    "B": "bf16",
    "S": "fp32",
    "D": "fp64",
    "I": "int32",
    "I8": "int8",
    "F8": "fp8",
    "B8": "bf8",
    "X": "tf32",
}


def _number(en: str, zh: str) -> Callable[[re.Match[str]], Words]:
    return lambda m: Words(f"{en}: {m[1]}", f"{zh}：{m[1]}")


_RULES = (
    Rule(
        r"MT(\d+)x(\d+)x(\d+)",
        "tile",
        lambda m: Words(
            f"{m[1]} × {m[2]} of the result for each work group, {m[3]} along K a pass",
            f"每个工作组负责结果的 {m[1]} × {m[2]}，每次沿 K 处理 {m[3]}",
        ),
    ),
    Rule(
        r"MI(\d+)x(\d+)x(\d+)(?:x\d+)?", "instruction", lambda m: words.times("x".join(m.groups()))
    ),
    Rule("Bias", "epilogue", Words("adds a bias", "加偏置")),
    Rule("HA|HAS|AS|A", "epilogue", Words("with an activation", "带激活函数"), False),
    Rule("S", "epilogue", Words("scales the result", "缩放结果"), False),
    Rule(
        "SAV", "epilogue", Words("scales each row or column (scale alpha vector)", "按行或列缩放")
    ),
    Rule(
        "UserArgs",
        "variant",
        Words("arguments in memory (grouped products)", "参数在显存中（分组矩阵乘）"),
    ),
    Rule(
        r"BH",
        "output",
        Words("several kernels for high precision accumulation", "高精度累加"),
        False,
    ),
    Rule(r"ISA(\w+)", "architecture", lambda m: same(f"gfx{m[1].lower()}")),
    Rule(r"GSU(\d+)", "split", lambda m: Words(f"K split in {m[1]}", f"K 切为 {m[1]} 份")),
    Rule(
        r"GSUA(\w+)", "split", Words("how the parts of a split K are added up", "K 切分的求和方式")
    ),
    Rule(
        r"SK(\d+)",
        "split",
        lambda m: Words(
            "stream-K: work groups share tiles evenly" if m[1] != "0" else "no stream-K",
            "stream-K：工作组均分" if m[1] != "0" else "不用 stream-K",
        ),
    ),
    Rule(r"WGM(n?\d+)", "order", _number("work groups in stripes of", "工作组条带宽度")),
    Rule(r"WS(\d+)", "warps", _number("threads of a wavefront", "每个 wavefront 的线程数")),
    Rule(r"WG(\d+)_(\d+)_(\d+)", "threads", lambda m: words.times("x".join(m.groups()))),
    Rule(r"PGR(\d+)", "depth", _number("loads from memory ahead", "提前的显存预取")),
    Rule(r"PLR(\d+)", "depth", _number("loads from local memory ahead", "提前的 LDS 预取")),
    Rule(
        r"GRVWA?(\d+)|GRVWB(\d+)",
        "vector",
        lambda m: Words(f"reads {m[1] or m[2]} values at once", f"每次读取 {m[1] or m[2]} 个元素"),
    ),
    Rule(
        r"VWA?(\d+)|VWB(\d+)",
        "vector",
        lambda m: Words(
            f"handles {m[1] or m[2]} values at once", f"每次处理 {m[1] or m[2]} 个元素"
        ),
    ),
    Rule(
        r"LPA(\d+)|LPB(\d+)|LPM(\d+)",
        "variant",
        Words("padding of local memory against bank conflicts", "LDS 填充，避免存储体冲突"),
    ),
    Rule(
        r"MIWT(\d+)_(\d+)",
        "warps",
        lambda m: Words(
            f"a wavefront computes {m[1]} × {m[2]} instruction tiles",
            f"每个 wavefront 计算 {m[1]} × {m[2]} 个指令块",
        ),
    ),
    Rule(r"1LDSB(\d)|LDSB(\d)", "variant", Words("buffers in local memory", "LDS 缓冲方式")),
    Rule(
        r"DTLA(\d)|DTLB(\d)", "variant", Words("loads straight to local memory", "直接加载到 LDS")
    ),
    Rule(r"DTVA(\d)|DTVB(\d)", "variant", Words("loads straight to registers", "直接加载到寄存器")),
    Rule(r"SN", "variant", Words("of this size only by name", "命名标记"), False),
    Rule(r"K1", "variant", Words("one kernel for all sizes", "单一内核适配所有尺寸"), False),
    Rule(r"SU(\d+)", "order", _number("staggered starts", "错开起始地址")),
    Rule(r"IU(\d+)", "variant", _number("inner loop unrolled", "内层循环展开")),
    Rule(
        r"B|H|D|BBS|HHS|HSS|SB|DB|BSS|I8I|I8II|BS|F8BS|F8HS", "dtype", lambda m: same(m[0]), False
    ),
)


@reader(
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB0_ISA942_IU1_K1"
)
def read_tensile(symbol: str) -> KernelName | None:
    """Read rocBLAS' and hipBLASLt's matrix products."""
    found = _NAME.match(symbol)
    if found is None:
        return None
    first, _, rest = found["rest"].partition("_")
    inputs = _LETTERS.get(first[0], first)
    a = ("as stored", "按原样") if found["a"].startswith("Ai") else ("transposed", "转置")
    b = ("transposed", "转置") if found["b"].startswith("Bj") else ("as stored", "按原样")
    head = [
        Piece("Cijk", "operation", Words("matrix product C[i,j,k]", "矩阵乘 C[i,j,k]")),
        Piece(found["a"], "layout", Words(f"A {a[0]}", f"A {a[1]}")),
        Piece(found["b"], "layout", Words(f"B {b[0]}", f"B {b[1]}")),
        Piece(first, "inputs", same(inputs)),
    ]
    pieces, unread = read_tokens(rest, _RULES)
    tile = re.search(r"MT(\d+)x(\d+)x(\d+)", symbol)
    return KernelName(
        symbol,
        Words("rocBLAS or hipBLASLt (AMD, Tensile)", "rocBLAS 或 hipBLASLt（AMD，Tensile）"),
        Words(f"A {inputs} matrix product of AMD's libraries.", f"AMD 库的 {inputs} 矩阵乘。"),
        (*head, *pieces),
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        {"bf16": 16, "fp16": 16, "fp32": 32, "fp64": 64}.get(inputs),
        source="ROCm/Tensile, kernel parameters.",
    )


_IGEMM = re.compile(r"igemm_(?P<way>fwd|bwd|wrw)_(?P<rest>\w+)")
_WAYS = {
    "fwd": Words("convolution, forward", "卷积前向"),
    "bwd": Words("convolution, gradient of the input", "卷积的输入梯度"),
    "wrw": Words("convolution, gradient of the weight", "卷积的权重梯度"),
}
_IGEMM_RULES = (
    Rule(r"gtc(x\d?)?", "unit", Words("matrix cores", "矩阵核心"), False),
    Rule(r"(nhwc|nchw|nchwc)", "layout", lambda m: same(m[0].upper())),
    Rule(r"(fp32|fp16|bf16|int8)", "inputs", lambda m: same(m[0])),
    Rule(
        r"bx(\d)|ex(\d)", "variant", Words("how odd sizes are handled", "非整尺寸的处理方式"), False
    ),
    Rule(r"bt(\d+x\d+x\d+)", "tile", lambda m: words.tile(m[1])),
    Rule(r"wt(\d+x\d+x\d+)", "instruction", lambda m: words.times(m[1])),
    Rule(
        r"ws(\d+x\d+)|wr(\d+x\d+)",
        "warps",
        lambda m: Words(
            f"arrangement of wavefronts {m[1] or m[2]}", f"wavefront 排布 {m[1] or m[2]}"
        ),
    ),
    Rule(
        r"t[ab](\d+x\d+x\d+x\d+)_(\d+x\d+x\d+x\d+)",
        "vector",
        Words("how a tile is loaded", "分块加载方式"),
    ),
    Rule(r"me|mh|pta\d*|ptb\d*|gkgs|gkg|vs\d|gld\d", "variant", lambda m: same(m[0]), False),
)


@reader(
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4_ws1x1_wr2x2_ta1x1x8x1_1x8x1x32"
    "_tb1x1x2x1_1x8x1x32_me"
)
def read_igemm(symbol: str) -> KernelName | None:
    """Read MIOpen's implicit-GEMM convolutions."""
    found = _IGEMM.match(symbol)
    if found is None:
        return None
    way = _WAYS[found["way"]]
    pieces, unread = read_tokens(found["rest"], _IGEMM_RULES)
    tile = re.search(r"bt(\d+)x(\d+)x(\d+)", symbol)
    inputs = next((p.value.en for p in pieces if p.field == "inputs"), "")
    return KernelName(
        symbol,
        Words("MIOpen (AMD)", "MIOpen（AMD）"),
        Words(f"MIOpen: {way.en}, implicit GEMM.", f"MIOpen：{way.zh}，隐式 GEMM。"),
        (Piece(f"igemm_{found['way']}", "operation", way), *pieces),
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        {"fp32": 32, "fp16": 16, "bf16": 16, "int8": 8}.get(inputs),
        source="ROCm/MIOpen, igemm codegen.",
    )
