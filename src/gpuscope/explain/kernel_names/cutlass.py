"""CUTLASS kernels by their procedural names: `cutlass_80_tensorop_bf16_s16816gemm_...`.

The naming is that of CUTLASS's own generator (NVIDIA/cutlass, python/cutlass_library,
`gemm_operation.py` and `conv2d_operation.py`); cuBLAS and cuDNN ship kernels made by it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(r"Kernel2?<(?P<name>cutlass\w*)>?")
_TYPE = r"bf16|f16|tf32|f32|f64|s8|u8|s4|s32|e4m3|e5m2"

_OPERATIONS = {
    "gemm": Words("matrix product", "矩阵乘"),
    "fprop": Words("convolution, forward", "卷积前向"),
    "dgrad": Words("convolution, gradient of the input", "卷积的输入梯度"),
    "wgrad": Words("convolution, gradient of the weight", "卷积的权重梯度"),
}


def _core(found: re.Match[str]) -> Words:
    """ "s16816gemm": accumulator, instruction, operation."""
    operation = _OPERATIONS[found[4]]
    adds = words.ACCUMULATORS.get(found[1], found[1])
    shape = words.INSTRUCTIONS.get(found[2] or "", found[2] or "")
    made = f", {shape} instructions" if shape else ""
    made_zh = f"，指令形状 {shape}" if shape else ""
    return Words(
        f"{operation.en}, added up in {adds}{made}", f"{operation.zh}，以 {adds} 累加{made_zh}"
    )


RULES = (
    Rule(r"cutlass", "library", Words("CUTLASS", "CUTLASS")),
    Rule(r"(50|60|70|75|80|86|89|90|100)", "architecture", lambda m: words.architecture(int(m[1]))),
    Rule("wmma", "unit", Words("through the WMMA interface", "通过 WMMA 接口")),
    Rule("tensorop", "unit", Words("tensor cores", "张量核心")),
    Rule(
        "simt",
        "unit",
        Words("ordinary arithmetic units, no tensor cores", "普通运算单元，不用张量核心"),
    ),
    Rule(r"([sdhicz])(\d{3,6})?(tf32|f16|bf16)?(gemm|fprop|dgrad|wgrad)", "operation", _core),
    Rule(r"optimized", "algorithm", Words("addresses computed beforehand", "预先计算地址")),
    Rule(r"analytic", "algorithm", Words("addresses computed on the way", "运行时计算地址")),
    Rule(r"fewchannels|fixedchannels", "algorithm", Words("for few channels", "针对少通道")),
    Rule(r"unity_stride", "variant", Words("stride 1", "步幅 1")),
    Rule(r"strided", "variant", Words("strided", "带步幅")),
    Rule(r"relu", "epilogue", Words("ReLU", "ReLU")),
    Rule(r"bias", "epilogue", Words("adds a bias", "加偏置")),
    Rule(r"gelu|silu|sigmoid|tanh", "epilogue", lambda m: same(m[0])),
    Rule(r"splitK", "split", Words("K is split over several blocks", "K 被多个线程块切分")),
    Rule(
        r"sliced(\d+)x(\d+)",
        "split",
        lambda m: Words(
            f"K is sliced over the warps of a block ({m[1]} × {m[2]})",
            f"K 在块内的 warp 间切分（{m[1]} × {m[2]}）",
        ),
    ),
    Rule(r"[nt][nt]", "layout", lambda m: words.transposes(m[0])),
    Rule(r"(nhwc|nchw|ndhwc|nc\d+hw\d+)", "layout", lambda m: same(m[0].upper())),
    Rule(
        r"align(\d+)",
        "alignment",
        lambda m: Words(
            f"rows begin at multiples of {m[1]} elements", f"各行起点为 {m[1]} 个元素的整数倍"
        ),
    ),
)


@reader(
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nt_align1>",
)
def read_cutlass(symbol: str) -> KernelName | None:
    """Read CUTLASS kernels that bear their procedural name."""
    found = _NAME.search(symbol)
    if found is None:
        return None
    name = found["name"]
    # "cutlass__5x_cudnn" is the library's own copy, not the kernel's name.
    if not re.search(r"gemm|fprop|dgrad|wgrad", name):
        return None
    return read_procedural(symbol, name, Words("CUTLASS", "CUTLASS"))


def read_procedural(symbol: str, name: str, library: Words) -> KernelName:
    """Read `name`, which follows CUTLASS's scheme.

    A dtype before the operation is the result's, one after it the inputs'; without them both are
    the type that is added up in (fp32 inputs on tensor cores: rounded to tf32).
    """
    before, core, after = re.split(
        r"((?<=_)[a-z]?\d*[a-z0-9]*?(?:gemm|fprop|dgrad|wgrad))", name, maxsplit=1
    )
    tile = re.search(r"_(\d+)x(\d+)_(\d+)x(\d+)", after)
    loose = re.search(r"_(\d+)x(\d+)(?=_)", after)
    pieces: list[Piece] = []
    unread: list[str] = []
    adds = words.ACCUMULATORS.get(core[0], "")
    tensor = "tensorop" in before
    for part, field in ((before, "output"), (core, ""), (after, "inputs")):
        rest = re.sub(r"_\d+x\d+(?=_|$)", "", part)
        typed = Rule(rf"({_TYPE})", field, lambda m: same(words.dtype(m[1])))
        read, missed = read_tokens(rest, (typed, *RULES) if field else RULES)
        pieces += read
        unread += missed
    if tile:
        pieces.append(Piece(f"{tile[1]}x{tile[2]}", "tile", words.tile(f"{tile[1]}x{tile[2]}")))
        pieces.append(Piece(f"{tile[3]}x{tile[4]}", "depth", words.depth(tile[3], tile[4])))
    elif loose:
        pieces.append(Piece(f"{loose[1]}x{loose[2]}", "tile", words.tile(f"{loose[1]}x{loose[2]}")))
    given = {piece.field for piece in pieces}
    if "output" not in given:
        pieces.append(Piece(core[0], "output", same(adds)))
    if "inputs" not in given:
        inputs = "fp32, rounded to tf32" if tensor and adds == "fp32" else adds
        pieces.append(
            Piece(
                core, "inputs", Words(inputs, inputs.replace(", rounded to tf32", "，舍入为 tf32"))
            )
        )
    return _named(symbol, name, library, core, pieces, unread, tile or loose)


def _named(
    symbol: str,
    name: str,
    library: Words,
    core: str,
    pieces: list[Piece],
    unread: list[str],
    tile: re.Match[str] | None,
) -> KernelName:
    operation = _OPERATIONS[re.search(r"gemm|fprop|dgrad|wgrad", core)[0]]  # type: ignore[index]
    inputs = next(piece.value for piece in pieces if piece.field == "inputs")
    source = "CUTLASS, python/cutlass_library: gemm_operation.py, conv2d_operation.py."
    kernel = KernelName(
        symbol,
        library,
        Words(
            f"A CUTLASS kernel: {operation.en}, inputs {inputs.en}.",
            f"CUTLASS 内核：{operation.zh}，输入 {inputs.zh}。",
        ),
        tuple(pieces),
        tuple(unread),
        source=source,
        input_bits=words.bits({"fp16": "f16", "int8": "s8"}.get(inputs.en, inputs.en)),
    )
    if tile is None:
        return kernel
    numbers = tuple(map(int, tile.groups()))
    if len(numbers) == 4:
        return replace(kernel, tile=numbers[:3], stages=numbers[3])
    return replace(kernel, tile=numbers)
