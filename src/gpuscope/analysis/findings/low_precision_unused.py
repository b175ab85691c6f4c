"""Matrix work in float32 on a device whose matrix units are faster in a smaller dtype."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuscope.analysis.columns import take
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.roofs import MATRIX_KINDS
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import FlopRate, Percent, Seconds
from gpuscope.document.text import Text, joined, verbatim

LEAST_SHARE = 0.05
"""A gain below this share of the step is not worth a sentence."""

_FASTER = ("bfloat16", "float16", "tf32")
_NAMES = {"bfloat16": "bf16", "float16": "fp16", "tf32": "TF32"}


@finding("low_precision_unused", needs="time", order=120)
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
    names = joined((_NAMES[d] for d in _FASTER if peaks[d]), " or ")
    rates = FlopRate(slow_peak), FlopRate(fast_peak)
    ways = _ways(peaks)
    return Finding(
        kind="low_precision_unused",
        title=Text(
            "Matrix products run in float32; the matrix units are faster in a smaller dtype."
        ),
        evidence=Text(
            "{kernels} float32 kernels take {time} ({share} of the step). Peak: {slow} in "
            "float32, {fast} in {dtype}.",
            kernels=facts.count_of(rows),
            time=Seconds(time_s),
            share=Percent(facts.share(time_s)),
            slow=rates[0],
            fast=rates[1],
            dtype=_NAMES[dtype],
        ),
        max_gain_s=gain,
        hint=Text("Use {names}: {ways}. Check the loss curve.", names=names, ways=ways),
        about=facts.about(rows),
    )


def _ways(peaks: Mapping[str, float | None]) -> Text:
    """How to switch, by what the device has: one without bf16 needs fp16 with loss scaling."""
    ways: list[Text] = []
    if peaks["bfloat16"]:
        ways.append(verbatim("torch.autocast(device_type='cuda', dtype=torch.bfloat16)"))
    elif peaks["float16"]:
        ways.append(
            Text(
                "torch.autocast(device_type='cuda', dtype=torch.float16), with "
                "torch.amp.GradScaler where it trains"
            )
        )
    if peaks["tf32"]:
        ways.append(Text("torch.set_float32_matmul_precision('high') for TF32"))
    return joined(ways, ", or ")


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
