"""Recorded kernels that take far longer than their cost model expects."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import take
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.named import largest
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.window import COMMUNICATION, KERNEL
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, sentences
from gpuscope.hardware import Distance, calibration_for

LEAST_SHARE = 0.05
"""A loss below this share of the step is not worth a sentence."""

SHORTEST_S = 10e-6
"""Shorter kernels are too much at the mercy of their launch for a verdict."""

SLOW = 1.5
"""A kernel is slow from this many times the model's time on, and beyond the model's interval."""

TRUSTED = (Distance.SAME_DEVICE, Distance.KERNELS_ONLY, Distance.SAME_GENERATION)
"""How near the device must be to one whose constants were measured."""


@finding("slow_kernels", needs="time", order=190)
def slow_kernels(facts: Facts) -> Finding | None:
    """Applies when kernels beyond their model's interval lose a twentieth of the step.

    Gain: what they take beyond the model's expectation. Only of recordings, on a device whose
    model is calibrated or that of its generation: elsewhere the model may be what is wrong.
    """
    if facts.trust is None or facts.device is None:
        return None
    if calibration_for(facts.device).distance not in TRUSTED:
        return None
    expected_s, loss = _losses(facts)
    total = float(loss.sum())
    if facts.share(total) < LEAST_SHARE:
        return None
    rows = loss > 0
    worst, worst_s, event = largest(facts, loss)
    work = facts.rows.work
    took = float(work.end_ns[event] - work.start_ns[event]) * 1e-9
    count, time_s = facts.count_of(rows), facts.time_of(rows)
    beside = _beside_communication(facts, rows)
    why, hint = _why(beside)
    share = Percent(facts.share(total))
    return Finding(
        kind="slow_kernels",
        title=Text("Kernels slower than they should be cost {share} of the step.", share=share),
        evidence=sentences(
            Text(
                "{count} kernels take {time}, {total} more than expected of their shapes on this "
                "device; most of it {worst} ({lost}): one took {took} where {expected} was "
                "expected.",
                count=count,
                time=Seconds(time_s),
                total=Seconds(total),
                worst=worst,
                lost=Seconds(worst_s),
                took=Seconds(took),
                expected=Seconds(float(expected_s[event])),
            ),
            why,
        ),
        max_gain_s=total,
        about=facts.about(rows, explains_s=total),
        hint=hint,
    )


def _losses(facts: Facts) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Expected seconds of each event, and the seconds per step that it loses."""
    rows, work = facts.rows, facts.rows.work
    kernels = rows.kernels
    high = np.fromiter((k.high_s for k in kernels.kernels), np.float64, len(kernels.kernels))
    expected, most = take(kernels.duration_s, work.kernel), take(high, work.kernel)
    took = (work.end_ns - work.start_ns) * 1e-9
    slow = rows.modelled & (work.kind == KERNEL) & (expected > 0)
    slow &= (took > SHORTEST_S) & (took > np.maximum(SLOW * expected, most))
    # A kernel's part of the step may be less than it ran (others beside it): lose in proportion.
    part = np.divide(rows.time_s, took, out=np.zeros_like(took), where=took > 0)
    return expected, np.asarray(np.where(slow, (took - expected) * part, 0.0), np.float64)


def _beside_communication(facts: Facts, rows: npt.NDArray[np.bool_]) -> float:
    """Share of these events' time during which communication ran, too."""
    work = facts.rows.work
    talk = work.kind == COMMUNICATION
    if not talk.any():
        return 0.0
    cover = Cover.of(work.start_ns[talk], work.end_ns[talk])
    start, end = work.start_ns[rows], work.end_ns[rows]
    total = int((end - start).sum())
    return float(cover.within(start, end).sum()) / total if total else 0.0


def _why(beside: float) -> tuple[Text, Text]:
    """What ran beside them, and what to try."""
    if beside < 0.25:
        return Text(""), Text(
            "Compare clocks and power with gpuscope bench, look for odd shapes and layouts (a "
            "multiple of 64, dense tensors), and for another program on the device."
        )
    why = Text(
        "Communication ran during {share} of their time and takes multiprocessors and bandwidth "
        "from them.",
        share=Percent(beside),
    )
    return why, Text(
        "Fewer channels for the collectives (NCCL_MAX_CTAS), larger and fewer of them, or copy "
        "engines where the fabric offers them."
    )
