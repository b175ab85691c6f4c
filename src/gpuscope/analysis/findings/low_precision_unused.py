"""Matrix work in float32 on a device whose matrix units are faster in a smaller dtype."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuscope.analysis.columns import take
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.roofs import MATRIX_KINDS
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import flop_rate, percent, seconds

LEAST_SHARE = 0.05
"""A gain below this share of the step is not worth a sentence."""

_FASTER = ("bfloat16", "float16", "tf32")
_NAMES = {"bfloat16": "bf16", "float16": "fp16", "tf32": "TF32"}


@finding
def low_precision_unused(facts: Facts) -> Finding | None:
    """Applies when float32 matrix kernels would be faster at the rate of a 16-bit dtype or TF32.

    Gain: each such kernel at the faster rate, but never below its memory time at half of its
    traffic (a 16-bit dtype halves it; TF32 does not).
    """
    slow_peak = facts.roofs.peak_flops_per_s("float32")
    peaks = {dtype: facts.roofs.peak_flops_per_s(dtype) for dtype in _FASTER}
    dtype = max(peaks, key=lambda name: peaks[name] or 0.0)
    fast_peak = peaks[dtype]
    if fast_peak is None or slow_peak is None or fast_peak < 1.5 * slow_peak:
        return None
    rows = _float32_matrix_rows(facts)
    time_s = facts.time_of(rows)
    if time_s <= 0:
        return None
    gain = _gain(facts, rows, fast_peak, halved=dtype != "tf32")
    if facts.share(gain) < LEAST_SHARE:
        return None
    names = " or ".join(_NAMES[d] for d in _FASTER if peaks[d])
    names_zh = "或".join(_NAMES[d] for d in _FASTER if peaks[d])
    rates = flop_rate(slow_peak), flop_rate(fast_peak)
    ways, ways_zh = _ways(peaks)
    return Finding(
        kind="low_precision_unused",
        title="Matrix products run in float32; the matrix units are faster in a smaller dtype.",
        evidence=f"{facts.count_of(rows)} float32 kernels take {seconds(time_s)} "
        f"({percent(facts.share(time_s))} of the step). Peak: {rates[0]} in float32, {rates[1]} "
        f"in {_NAMES[dtype]}.",
        max_gain_s=gain,
        hint=f"Use {names}: {ways}. Check the loss curve.",
        title_zh="矩阵乘以 float32 运行；矩阵单元在更小的数据类型下更快。",
        evidence_zh=f"{facts.count_of(rows)} 个 float32 内核共用 {seconds(time_s)}"
        f"（一步的 {percent(facts.share(time_s))}）。峰值：float32 为 {rates[0]}，"
        f"{_NAMES[dtype]} 为 {rates[1]}。",
        hint_zh=f"使用 {names_zh}：{ways_zh}。请检查损失曲线。",
    )


def _ways(peaks: Mapping[str, float | None]) -> tuple[str, str]:
    """How to switch, by what the device has: one without bf16 needs fp16 with loss scaling."""
    ways, ways_zh = [], []
    if peaks["bfloat16"]:
        ways.append("torch.autocast(device_type='cuda', dtype=torch.bfloat16)")
        ways_zh.append(ways[0])
    elif peaks["float16"]:
        ways.append(
            "torch.autocast(device_type='cuda', dtype=torch.float16), with torch.amp.GradScaler "
            "where it trains"
        )
        ways_zh.append(
            "torch.autocast(device_type='cuda', dtype=torch.float16)，训练时配合 "
            "torch.amp.GradScaler"
        )
    if peaks["tf32"]:
        ways.append("torch.set_float32_matmul_precision('high') for TF32")
        ways_zh.append("用 torch.set_float32_matmul_precision('high') 启用 TF32")
    return ", or ".join(ways), "，或".join(ways_zh)


def _float32_matrix_rows(facts: Facts) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    kernels, work = facts.rows.kernels, facts.rows.work
    matrix = np.array([kind in MATRIX_KINDS for kind in kernels.kind.table])
    single = np.array([dtype == "float32" for dtype in kernels.dtype.table])
    found = matrix[kernels.kind.take(work.kernel)] & single[kernels.dtype.take(work.kernel)]
    return np.asarray(found & (facts.rows.flops > 0), np.bool_)


def _gain(
    facts: Facts,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    fast_peak: float,
    halved: bool,
) -> float:
    steps = facts.rows.work.window.steps
    memory = take(facts.rows.kernels.memory_s, facts.rows.work.kernel)[rows]
    compute = facts.rows.flops[rows] / fast_peak
    floor = np.maximum(compute, memory / 2 if halved else memory) / steps
    own = facts.rows.time_s[rows]
    return float(np.maximum(own - floor, 0.0).sum())
