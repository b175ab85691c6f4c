"""Why compiling fits a case or not, and what it costs, in figures."""

from __future__ import annotations

from gpuscope.advice.evidence import (
    compiled_operators,
    growing_cache,
    kind_s,
    milliseconds,
    percent,
    waits_for_host_s,
)
from gpuscope.advice.types import Case, Fit
from gpuscope.explain.types import Words

__all__ = [
    "MASKS_RISK", "MASKS_WHY", "builds_masks", "cannot_compile", "compile_price", "compile_why",
]  # fmt: skip

_TRITON_VENDORS = frozenset({"nvidia", "amd", "intel"})
FUSABLE = ("pointwise", "normalization", "copy", "reduction", "softmax", "loss")
"""Kinds of kernels that a compiler merges with their neighbours."""

MASKS_WHY = Words(
    "While it is compiled, transformers builds masks that mask nothing, which rule the fastest"
    " attention kernels out; by sizes alone it is known that none is needed.",
    "编译时 transformers 会建立不起作用的掩码，使最快的注意力内核不可用；"
    "其实由尺寸即可知不需要掩码。",
)
"""Why masks are left out."""

MASKS_RISK = Words(
    "While it is compiled, transformers builds masks that mask nothing: attention loses its fastest"
    " kernels, in encoders every fused one, which can make compiling a loss. compile-unmasked and"
    " compile-regional do without.",
    "编译时 transformers 会建立不起作用的掩码：注意力失去最快的内核（编码器失去所有融合内核），"
    "编译可能反而变慢；compile-unmasked 与 compile-regional 没有这个问题。",
)
"""What compiling a model of transformers as a whole brings with it."""

_CAPABILITY = "Triton, which makes the kernels, does not know it."


def builds_masks(case: Case) -> bool:
    """Whether a model of transformers decides on masks: with attention of torch, not decoding."""
    if case.seen is None or growing_cache(case):
        return False
    return any(
        m.module.startswith("transformers.") and m.attention in ("sdpa", "eager")
        for m in case.seen.models
    )


def cannot_compile(case: Case) -> Fit | None:
    """Why nothing is left to compile; None where it can be."""
    if case.device.vendor.lower() not in _TRITON_VENDORS:
        name = case.device.name
        return Fit(
            False,
            Words(
                f"{name} is not compiled for: {_CAPABILITY}", f"{name} 不支持：Triton 不认识它。"
            ),
        )
    if case.program is None:
        return None
    if case.program.compiled not in ("", "cudagraphs"):
        mode = case.program.compiled
        return Fit(False, Words(f"It is compiled already ({mode}).", f"已经编译过（{mode}）。"))
    if case.program.compiled == "cudagraphs":
        return Fit(
            False,
            Words(
                "The code records CUDA graphs of its own, which compiled code would not survive.",
                "代码自己录制 CUDA 图，与编译冲突。",
            ),
        )
    return None


def compile_why(case: Case, graphs: bool) -> Words:
    """What compiling has to win: kernels that fuse, and a host that is waited for."""
    step_s = case.analysis.step_s
    fusable_s, waits_s = kind_s(case, *FUSABLE), waits_for_host_s(case)
    en = (
        f"{percent(fusable_s, step_s)} of the step ({milliseconds(fusable_s)}) are kernels that"
        " fuse with their neighbours"
    )
    zh = f"一步中 {percent(fusable_s, step_s)}（{milliseconds(fusable_s)}）是可与相邻算子融合的"
    if waits_s > 0.02 * step_s:
        en += f"; for {milliseconds(waits_s)} the device waits for the host's launches"
        zh += f"；有 {milliseconds(waits_s)} 设备在等主机下发"
    elif graphs:
        en += "; the device never waits for the host, so graphs add little by themselves"
        zh += "；设备不等主机，图本身收益不大"
    return Words(en + ".", zh + "。")


def compile_price(case: Case, mode: str | None) -> Words:
    """Compile time, as it was recorded, and memory of graphs.

    The recordings: first steps of thirteen compiled models of 400 to 4,600 operators
    (validation/recordings/h200/zoo) took 2 to 24 s, those with a warm cache of the compiler's files
    at the lower end; the number of operators told little. The first trials of seven ladders
    (benchmarks/results/ladders), whose cache was empty, took 14 to 68 s longer to be ready than the
    code as it is; hosts of equal devices differ by 2.
    """
    count = compiled_operators(case)
    yours = f" (yours has {count:,})" if count else ""
    yours_zh = f"（你的有 {count:,} 个）" if count else ""
    en = (
        "Compiles in the first steps: on H200 hosts 14 to 68 s the first time, 2 to 24 s with the"
        f" compiler's files of an earlier run, for models of 400 to 4,600 operators{yours}."
    )
    zh = (
        "前几步要编译：H200 主机上 400 到 4,600 个算子的模型首次需 14 到 68 秒，"
        f"有之前编译的文件时 2 到 24 秒{yours_zh}。"
    )
    if mode == "max-autotune":
        en += " Measuring forms of products comes on top, often minutes."
        zh += "另需实测各种乘法实现，常达数分钟。"
    if mode is not None:
        en += " Graphs keep their memory apart."
        zh += "CUDA 图另占一块显存池。"
    return Words(en, zh)
