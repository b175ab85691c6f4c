"""FlashAttention-2 and PyTorch's memory-efficient attention.

Template arguments as in their sources: Dao-AILab/flash-attention, csrc/flash_attn/src
(`kernel_traits.h`, `flash_fwd_kernel.h`, `flash_bwd_kernel.h`); pytorch/pytorch,
aten/src/ATen/native/transformers/cuda/mem_eff_attention (`kernel_forward.h`, `kernel_backward.h`).
"""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.symbol import parse
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_TRAITS = re.compile(
    r"Flash_(?P<way>fwd|bwd)_kernel_traits<(?P<head>\d+), (?P<m>\d+), (?P<n>\d+), (?P<warps>\d+)"
    r"(?P<rest>[^>]*?)(?P<dtype>cutlass::\w+)"
)
_STEPS = (
    ("splitkv_combine", "adds up the parts of a split forward pass", "合并切分前向的各部分"),
    ("fwd_splitkv", "forward, the keys split over several blocks", "前向，键被多个线程块切分"),
    ("fwd", "forward", "前向"),
    ("bwd_dq_dk_dv", "backward: gradients of queries, keys and values", "反向：查询、键、值的梯度"),
    ("bwd_dot_do_o", "backward, first step: row sums of dO × O", "反向第一步：dO × O 的行和"),
    (
        "bwd_convert_dq",
        "backward, last step: gradient of the queries to 16 bits",
        "反向末步：dQ 转为 16 位",
    ),
    (
        "bwd_convert_dkv",
        "backward, last step: gradients of keys and values to 16 bits",
        "反向末步：dK、dV 转为 16 位",
    ),
    ("bwd", "backward", "反向"),
)

_DROPOUT = ("dropout", Words("dropout", "使用 dropout"), Words("no dropout", "无 dropout"))
_CAUSAL = (
    "mask",
    Words("causal: only earlier keys", "因果掩码"),
    Words("not causal", "无因果掩码"),
)
_LOCAL = ("mask", Words("a sliding window", "滑动窗口"), Words("no window", "无滑动窗口"))
_ALIBI = ("mask", Words("ALiBi biases", "ALiBi 偏置"), Words("no ALiBi", "无 ALiBi"))
_EVEN_MN = (
    "variant",
    Words("lengths fill whole tiles", "长度为分块的整数倍"),
    Words("lengths need checks at the edge", "长度在边缘需要检查"),
)
_EVEN_K = (
    "variant",
    Words("the head fills its tile", "头维度填满分块"),
    Words("the head is padded", "头维度有填充"),
)
_SOFTCAP = (
    "variant",
    Words("scores are capped", "分数有上限（softcap）"),
    Words("scores are not capped", "分数无上限"),
)
_SCORES = (
    "variant",
    Words("also returns the scores", "同时返回分数"),
    Words("does not return the scores", "不返回分数"),
)

_FLAGS = {
    ("fwd", 8): (_DROPOUT, _CAUSAL, _LOCAL, _ALIBI, _EVEN_MN, _EVEN_K, _SOFTCAP, _SCORES),
    ("fwd", 7): (_DROPOUT, _CAUSAL, _LOCAL, _ALIBI, _EVEN_MN, _EVEN_K, _SCORES),
    ("bwd", 7): (_DROPOUT, _CAUSAL, _LOCAL, _ALIBI, _EVEN_MN, _EVEN_K, _SOFTCAP),
    ("bwd", 6): (_DROPOUT, _CAUSAL, _LOCAL, _ALIBI, _EVEN_MN, _EVEN_K),
}
"""What the booleans behind the traits say, by direction and their number (versions differ)."""


@reader(
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, "
    "true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)
def read_flash(symbol: str) -> KernelName | None:
    """Read FlashAttention-2's kernels."""
    name = parse(symbol).name
    if not re.match(r"flash_(fwd|bwd)_", name):
        return None
    key, en, zh = next(step for step in _STEPS if step[0] in name)
    pieces = [
        Piece(name, "operation", Words(f"FlashAttention-2, {en}", f"FlashAttention-2，{zh}")),
    ]
    traits = _TRAITS.search(symbol)
    arguments = parse(symbol).arguments
    if traits:
        pieces += _traits(traits)
        pieces += _flags(traits["way"], arguments) if key in ("fwd", "bwd_dq_dk_dv") else []
    tile = (int(traits["m"]), int(traits["n"]), int(traits["head"])) if traits else ()
    unread = () if traits else tuple(argument for argument in arguments if argument)[:3]
    return KernelName(
        symbol,
        Words("FlashAttention-2", "FlashAttention-2"),
        Words(f"FlashAttention-2: {en}.", f"FlashAttention-2：{zh}。"),
        tuple(pieces),
        unread,
        tile,
        None,
        16,
        32 * int(traits["warps"]) if traits else None,
        source="Dao-AILab/flash-attention, csrc/flash_attn/src/kernel_traits.h.",
    )


def _traits(found: re.Match[str]) -> list[Piece]:
    head, m, n, warps = found["head"], found["m"], found["n"], int(found["warps"])
    return [
        Piece(f"traits<{head}", "head", same(head)),
        Piece(f"{m}, {n}", "tile", Words(f"{m} queries × {n} keys", f"{m} 个查询 × {n} 个键")),
        Piece(
            found["warps"],
            "warps",
            Words(f"{warps} ({32 * warps} threads)", f"{warps} 个（{32 * warps} 线程）"),
        ),
        Piece(found["dtype"], "inputs", same(words.dtype(found["dtype"]) or found["dtype"])),
    ]


def _flags(way: str, arguments: tuple[str, ...]) -> list[Piece]:
    given = [argument for argument in arguments[1:] if argument in ("true", "false")]
    meaning = _FLAGS.get((way, len(given)))
    if meaning is None:
        return []
    return [
        Piece(text, field, yes if text == "true" else no)
        for text, (field, yes, no) in zip(given, meaning, strict=True)
    ]


_HOPPER = re.compile(
    r"flash::Flash(?:Attn)?(?P<way>Fwd|Bwd)(?P<step>Combine|Postprocess\w*|Preprocess)?(?:Sm(?P<sm>\d+))?"
)


@reader("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<X>>>")
def read_flash_3(symbol: str) -> KernelName | None:
    """Read FlashAttention-3's kernels, which CUTLASS 3 launches."""
    found = _HOPPER.search(symbol)
    if found is None:
        return None
    way = ("forward", "前向") if found["way"] == "Fwd" else ("backward", "反向")
    pieces = [
        Piece(
            found[0],
            "operation",
            Words(f"FlashAttention-3, {way[0]}", f"FlashAttention-3，{way[1]}"),
        )
    ]
    if found["sm"]:
        arch = words.architecture(int(found["sm"]))
        pieces.append(Piece(f"Sm{found['sm']}", "architecture", arch))
    return KernelName(
        symbol,
        Words("FlashAttention-3", "FlashAttention-3"),
        Words(f"FlashAttention-3: {way[0]}.", f"FlashAttention-3：{way[1]}。"),
        tuple(pieces),
        ("its template arguments",),
        source="Dao-AILab/flash-attention, hopper.",
    )


_EFFICIENT = re.compile(
    r"fmha_cutlass(?P<way>[FB])_(?P<dtype>bf16|f16|f32)_(?P<align>aligned|notaligned)"
    r"_(?P<q>\d+)x(?P<k>\d+)(?:_(?P<place>rf|gmem|k(?P<head>\d+)))?(?P<more>(?:_dropout|_seqaligned)*)"
    r"(?:_sm(?P<sm>\d+))?"
)


@reader(
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<"
    "cutlass::bfloat16_t, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)",
    "fmha_cutlassB_f16_aligned_128x64_k128_dropout_sm80",
)
def read_efficient(symbol: str) -> KernelName | None:
    """Read PyTorch's memory-efficient attention (from xFormers, on CUTLASS)."""
    found = _EFFICIENT.match(symbol)
    if found is None:
        return None
    way = ("forward", "前向") if found["way"] == "F" else ("backward", "反向")
    aligned = found["align"] == "aligned"
    pieces = [
        Piece(
            f"fmha_cutlass{found['way']}",
            "operation",
            Words(f"attention, {way[0]}", f"注意力，{way[1]}"),
        ),
        Piece(found["dtype"], "inputs", same(words.dtype(found["dtype"]))),
        Piece(
            found["align"],
            "alignment",
            Words(
                "rows allow wide loads" if aligned else "rows do not allow wide loads",
                "可用宽加载" if aligned else "不可用宽加载",
            ),
        ),
        Piece(
            f"{found['q']}x{found['k']}",
            "tile",
            Words(
                f"{found['q']} queries × {found['k']} keys",
                f"{found['q']} 个查询 × {found['k']} 个键",
            ),
        ),
    ]
    pieces += _efficient_rest(found)
    head = (int(found["head"]),) if found["head"] else ()
    return KernelName(
        symbol,
        Words("PyTorch, memory-efficient attention", "PyTorch 内存高效注意力"),
        Words(
            f"PyTorch's memory-efficient attention, {way[0]}.",
            f"PyTorch 的内存高效注意力，{way[1]}。",
        ),
        tuple(pieces),
        (),
        (int(found["q"]), int(found["k"]), *head),
        None,
        words.bits(found["dtype"]),
        source="pytorch/pytorch, aten/src/ATen/native/transformers/cuda/mem_eff_attention.",
    )


def _efficient_rest(found: re.Match[str]) -> list[Piece]:
    pieces = []
    place = found["place"]
    if place == "rf":
        meaning = Words("the output stays in registers", "输出保留在寄存器中")
        pieces.append(Piece("rf", "variant", meaning))
    elif place == "gmem":
        meaning = Words("the output is added up in device memory", "输出在显存中累加")
        pieces.append(Piece("gmem", "variant", meaning))
    elif place:
        most = Words(f"at most {found['head']}", f"最大 {found['head']}")
        pieces.append(Piece(place, "head", most))
    if "_dropout" in found["more"]:
        pieces.append(Piece("dropout", "dropout", Words("yes", "是")))
    if "_seqaligned" in found["more"]:
        whole = Words("lengths fill whole tiles", "长度为分块的整数倍")
        pieces.append(Piece("seqaligned", "variant", whole))
    if found["sm"]:
        arch = words.architecture(int(found["sm"]))
        pieces.append(Piece(f"sm{found['sm']}", "architecture", arch))
    return pieces
