"""cuDNN's fused attention: `cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_...`."""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, same
from gpuscope.explain.types import Words

_NAME = re.compile(r"cudnn_generated_fort_native_(?P<rest>\w+)")

_RULES = (
    Rule("sdpa", "operation", Words("scaled dot-product attention", "缩放点积注意力")),
    Rule(r"sm(\d+)", "architecture", lambda m: words.architecture(int(m[1]))),
    Rule(
        "flash",
        "algorithm",
        Words("never writes the scores out (flash)", "不写出注意力分数（flash）"),
    ),
    Rule("fprop", "operation", Words("forward", "前向")),
    Rule("bprop", "operation", Words("backward", "反向")),
    Rule("wgmma", "instruction", Words("matrix instructions of a warp group", "warp 组级矩阵指令")),
    Rule("wmma", "instruction", Words("matrix instructions of a warp", "warp 级矩阵指令")),
    Rule(
        r"(f16|bf16|f32|f8|e4m3)",
        "inputs",
        lambda m: Words(
            "16-bit floats (fp16 or bf16)" if m[1] == "f16" else words.dtype(m[1]),
            "16 位浮点（fp16 或 bf16）" if m[1] == "f16" else words.dtype(m[1]),
        ),
        False,
    ),
    Rule(r"knob_(\d+)", "number", lambda m: Words(f"setting {m[1]}", f"配置 {m[1]}")),
    Rule(
        r"(\d+)x(\d+)x(\d+)",
        "tile",
        lambda m: Words(
            f"{m[1]} queries × {m[2]} keys, heads of {m[3]}",
            f"{m[1]} 个查询 × {m[2]} 个键，头维度 {m[3]}",
        ),
        False,
    ),
    Rule(r"cga(\d+x\d+x\d+)", "cluster", lambda m: words.times(m[1])),
    Rule(
        r"kernel(\d+)",
        "number",
        lambda m: Words(f"kernel {m[1]} of the plan", f"方案中的第 {m[1]} 个内核"),
    ),
    Rule(r"\d+", "number", lambda m: same(m[0])),
)


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
    warps = Rule(r"warps(\d+x\d+x\d+)", "warps", lambda m: words.times(m[1]), False)
    pieces, unread = read_tokens(rest, (warps, *_RULES))
    tile = re.search(r"_(\d+)x(\d+)x(\d+)_", symbol)
    way = ("backward", "反向") if "bprop" in symbol else ("forward", "前向")
    return KernelName(
        symbol,
        Words("cuDNN (NVIDIA)", "cuDNN（NVIDIA）"),
        Words(f"cuDNN's fused attention, {way[0]}.", f"cuDNN 的融合注意力，{way[1]}。"),
        pieces,
        unread,
        tuple(map(int, tile.groups())) if tile else (),
        None,
        16,
        source="Not documented by NVIDIA; read from recorded launches with known shapes.",
    )
