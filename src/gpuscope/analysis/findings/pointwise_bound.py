"""Operators that only pass over memory: pointwise ones, casts, norms, reductions, copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.findings.bandwidth_bound import bandwidth_bound
from gpuscope.analysis.findings.facts import Facts, taken
from gpuscope.analysis.findings.launch_bound import launch_bound
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.findings.small_kernels import small_kernels
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Count, Percent, Seconds
from gpuscope.document.text import Text, joined, sentences

LEAST_SHARE = 0.10
"""A loss below this share of the step is not worth a sentence."""

NAMED_SHARE = 0.15
"""A family with this share of the loss is worth advice of its own."""

MOST_LINES = 3

NOTHING = 1e-6
"""A least time below this share of the time is rounding: nothing is known to remain."""

Mask = npt.NDArray[np.bool_]


@finding("pointwise_bound", needs="time", order=45)
def pointwise_bound(facts: Facts) -> Finding | None:
    """Applies when such kernels lose a tenth of the step against what they must move.

    Not of those that another finding is about (all memory traffic together, launches), and not
    where graphs replay kernels whose operators are not recorded.

    Gain: all that they take beyond what the step must read and write however it is fused (see
    `gpuscope.analysis.account`), as if each were part of a neighbour's kernel.
    """
    if facts.replayed or facts.on_host:
        return None
    if facts.account is None or facts.account.best_s is None:
        return None
    rows = facts.losses.streaming & ~taken(facts, bandwidth_bound, launch_bound, small_kernels)
    loss = np.where(rows, facts.losses.loss_s, 0.0)
    lost_s = float(loss.sum())
    if facts.share(lost_s) < LEAST_SHARE:
        return None
    time_s = facts.time_of(rows)
    return Finding(
        kind="pointwise_bound",
        title=Text(
            "Pointwise operators, norms, casts and copies cost {share} of the step.",
            share=Percent(facts.share(lost_s)),
        ),
        evidence=sentences(
            _taken(facts.count_of(rows), time_s, time_s - lost_s), _where(facts, loss)
        ),
        max_gain_s=lost_s,
        hint=_hint(facts, loss, lost_s),
        about=facts.about(rows),
    )


def _taken(count: int, time_s: float, least_s: float) -> Text:
    """What they take, beside what must be moved where that is known: a recording has no tensors."""
    if least_s < NOTHING * time_s:
        return Text("{count} kernels take {time}.", count=Count(count), time=Seconds(time_s))
    return Text(
        "{count} kernels take {time}; what they must read and write at the least would "
        "take {least}.",
        count=Count(count),
        time=Seconds(time_s),
        least=Seconds(least_s),
    )


def _where(facts: Facts, loss: npt.NDArray[np.float64]) -> Text:
    """The lines, or else the operators, that lose most."""
    found = facts.lines(loss) or facts.operators(loss)
    parts = [
        Text("{place} ({time})", place=place, time=Seconds(time))
        for place, time in found[:MOST_LINES]
    ]
    return Text("Largest: {parts}.", parts=joined(parts)) if parts else Text("")


def _hint(facts: Facts, loss: npt.NDArray[np.float64], lost_s: float) -> Text:
    """What to do, by what the program has."""
    families = _shares(facts, loss, lost_s)
    lines = [line for line, _ in facts.lines(loss)[:MOST_LINES]]
    compiled = facts.program is not None and facts.program.compiled
    ways: list[Text] = []
    if not compiled and "fused" not in families:
        ways.append(
            Text(
                "Fuse them: torch.compile joins what follows each other at {lines}.",
                lines=joined(lines),
            )
            if lines
            else Text("Fuse them: torch.compile joins what follows each other.")
        )
    if families.get("optimizer", 0.0) >= NAMED_SHARE and not _has(facts, "_fused_"):
        ways.append(Text("Give the optimizer fused=True: one pass over each parameter."))
    casts = dict(facts.operators(loss)).get("aten::_to_copy", 0.0)
    if casts >= NAMED_SHARE * lost_s:
        ways.append(
            Text("Casts: keep weights and activations in one 16-bit dtype, so that none is needed.")
        )
    if families.get("normalization", 0.0) >= NAMED_SHARE and _has(facts, "batch_norm"):
        ways.append(
            Text("Batch norm: channels_last lets it read whole vectors; fold it for inference.")
        )
    if not ways:
        ways.append(Text("Move less: smaller dtypes, fewer passes, kernels fused by hand."))
    return sentences(*ways)


def _shares(facts: Facts, loss: npt.NDArray[np.float64], lost_s: float) -> dict[str, float]:
    """Part of the loss by kernel family."""
    table = facts.rows.kernels.kind.table
    codes = facts.rows.kernels.kind.take(facts.rows.work.kernel)
    by_kind = np.bincount(codes, weights=loss, minlength=len(table)) / lost_s
    return {table[i]: float(by_kind[i]) for i in np.flatnonzero(by_kind).tolist()}


def _has(facts: Facts, word: str) -> bool:
    return any(word in name for name in facts.rows.ops.name.table)
