"""FlashAttention-2 and PyTorch's memory-efficient attention.

Template arguments as in their sources: Dao-AILab/flash-attention, csrc/flash_attn/src
(`kernel_traits.h`, `flash_fwd_kernel.h`, `flash_bwd_kernel.h`); pytorch/pytorch,
aten/src/ATen/native/transformers/cuda/mem_eff_attention (`kernel_forward.h`, `kernel_backward.h`).
"""

from __future__ import annotations

import re

from gpuscope.document.text import Text, extracted, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.symbol import parse
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_TRAITS = re.compile(
    r"Flash_(?P<way>fwd|bwd)_kernel_traits<(?P<head>\d+), (?P<m>\d+), (?P<n>\d+), (?P<warps>\d+)"
    r"(?P<rest>[^>]*?)(?P<dtype>cutlass::\w+)"
)
_TABLE = table("flash").raw
_TRAITED = ("fwd", "bwd_dq_dk_dv")


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
    step = next(each for each in _TABLE["steps"] if each["match"] in name)
    said = extracted(step["text"])
    pieces = [Piece(name, "operation", Text("FlashAttention-2, {said}", said=said))]
    traits = _TRAITS.search(symbol)
    arguments = parse(symbol).arguments
    if traits:
        pieces += _traits(traits)
        pieces += _flags(traits["way"], arguments) if step["match"] in _TRAITED else []
    tile = (int(traits["m"]), int(traits["n"]), int(traits["head"])) if traits else ()
    unread = () if traits else tuple(argument for argument in arguments if argument)[:3]
    return KernelName(
        symbol,
        verbatim("FlashAttention-2"),
        Text("FlashAttention-2: {said}.", said=said),
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
        Piece(f"traits<{head}", "head", verbatim(head)),
        Piece(f"{m}, {n}", "tile", Text("{m} queries × {n} keys", m=m, n=n)),
        Piece(
            found["warps"],
            "warps",
            Text("{warps} ({threads} threads)", warps=warps, threads=32 * warps),
        ),
        Piece(found["dtype"], "inputs", verbatim(words.dtype(found["dtype"]) or found["dtype"])),
    ]


def _flags(way: str, arguments: tuple[str, ...]) -> list[Piece]:
    given = [argument for argument in arguments[1:] if argument in ("true", "false")]
    meaning = next((each for each in _TABLE["booleans"][way] if len(each) == len(given)), ())
    known = [_TABLE["boolean"][name] for name in meaning]
    return [
        Piece(text, of["field"], extracted(of["text"][text == "false"]))
        for text, of in zip(given, known, strict=False)
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
    way = Text("forward") if found["way"] == "Fwd" else Text("backward")
    pieces = [Piece(found[0], "operation", Text("FlashAttention-3, {way}", way=way))]
    if found["sm"]:
        arch = words.architecture(int(found["sm"]))
        pieces.append(Piece(f"Sm{found['sm']}", "architecture", arch))
    return KernelName(
        symbol,
        verbatim("FlashAttention-3"),
        Text("FlashAttention-3: {way}.", way=way),
        tuple(pieces),
        (Text("its template arguments"),),
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
    way = Text("forward") if found["way"] == "F" else Text("backward")
    aligned = found["align"] == "aligned"
    pieces = [
        Piece(f"fmha_cutlass{found['way']}", "operation", Text("attention, {way}", way=way)),
        Piece(found["dtype"], "inputs", verbatim(words.dtype(found["dtype"]))),
        Piece(
            found["align"],
            "alignment",
            (Text("rows allow wide loads") if aligned else Text("rows do not allow wide loads")),
        ),
        Piece(
            f"{found['q']}x{found['k']}",
            "tile",
            Text("{m} queries × {n} keys", m=found["q"], n=found["k"]),
        ),
    ]
    pieces += _efficient_rest(found)
    head = (int(found["head"]),) if found["head"] else ()
    return KernelName(
        symbol,
        Text("PyTorch, memory-efficient attention"),
        Text("PyTorch's memory-efficient attention, {way}.", way=way),
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
        meaning = Text("the output stays in registers")
        pieces.append(Piece("rf", "variant", meaning))
    elif place == "gmem":
        meaning = Text("the output is added up in device memory")
        pieces.append(Piece("gmem", "variant", meaning))
    elif place:
        most = Text("at most {value}", value=found["head"])
        pieces.append(Piece(place, "head", most))
    if "_dropout" in found["more"]:
        pieces.append(Piece("dropout", "dropout", Text("yes")))
    if "_seqaligned" in found["more"]:
        whole = Text("lengths fill whole tiles")
        pieces.append(Piece("seqaligned", "variant", whole))
    if found["sm"]:
        arch = words.architecture(int(found["sm"]))
        pieces.append(Piece(f"sm{found['sm']}", "architecture", arch))
    return pieces
