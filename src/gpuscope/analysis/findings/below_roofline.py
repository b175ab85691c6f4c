"""Matrix kernels that stay below the roofline, where no other finding says why."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import distinct
from gpuscope.analysis.findings.bandwidth_bound import bandwidth_bound
from gpuscope.analysis.findings.compute_bound import compute_bound
from gpuscope.analysis.findings.facts import Facts, taken
from gpuscope.analysis.findings.launch_bound import launch_bound
from gpuscope.analysis.findings.low_precision_unused import low_precision_unused
from gpuscope.analysis.findings.named import largest
from gpuscope.analysis.findings.poor_shapes import poor_shapes
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.findings.slow_kernels import slow_kernels
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, sentences
from gpuscope.program.types import TensorSpec

LEAST_SHARE = 0.05
"""A loss below this share of the step is not worth a sentence."""

NAMED_SHARE = 0.2
"""A family with this share of the loss is worth advice of its own."""

THIN = 64
"""Products of fewer rows than this read their weights for little work."""

_OTHERS = (
    bandwidth_bound,
    compute_bound,
    launch_bound,
    low_precision_unused,
    poor_shapes,
    slow_kernels,
)


@finding("below_roofline", needs="time", order=55)
def below_roofline(facts: Facts) -> Finding | None:
    """Applies when products, convolutions and attention lose a twentieth of the step.

    Only kernels that no other finding is about. Gain: what they take beyond the roofline, clock and
    last waves included, which no real kernel reaches in full.
    """
    if facts.replayed:
        return None
    rows = facts.losses.matrix & ~taken(facts, *_OTHERS)
    loss = np.where(rows, facts.losses.loss_s, 0.0)
    lost_s = float(loss.sum())
    if facts.share(lost_s) < LEAST_SHARE:
        return None
    time_s = facts.time_of(rows)
    worst, worst_s, _ = largest(facts, loss)
    return Finding(
        kind="below_roofline",
        title=Text(
            "Matrix kernels at {of_roof} of their roofline cost {share} of the step.",
            of_roof=Percent(1.0 - lost_s / time_s),
            share=Percent(facts.share(lost_s)),
        ),
        evidence=Text(
            "{count} kernels take {time} where the datasheet's rates allow {best}; the largest "
            "loss is {worst} ({worst_s}).",
            count=facts.count_of(rows),
            time=Seconds(time_s),
            best=Seconds(time_s - lost_s),
            worst=worst,
            worst_s=Seconds(worst_s),
        ),
        max_gain_s=lost_s,
        hint=_hint(facts, rows, loss / lost_s),
        about=facts.about(rows),
    )


def _hint(facts: Facts, rows: npt.NDArray[np.bool_], part: npt.NDArray[np.float64]) -> Text:
    """What to do, by the families that lose most."""
    table = np.array(facts.rows.kernels.kind.table)
    kind = table[facts.rows.kernels.kind.take(facts.rows.work.kernel)]
    ways: list[Text] = []
    if part[kind == "matmul"].sum() >= NAMED_SHARE:
        ways.append(_of_products(facts, rows & (kind == "matmul")))
    if part[kind == "attention"].sum() >= NAMED_SHARE:
        ways.append(
            Text(
                "Attention: let scaled_dot_product_attention take its newest kernel (cuDNN, "
                "FlashAttention-3); short sequences leave it little to overlap."
            )
        )
    if part[kind == "convolution"].sum() >= NAMED_SHARE:
        ways.append(_of_convolutions(facts, rows & (kind == "convolution")))
    if not ways:
        ways.append(Text("Larger calls: a larger batch, several calls joined into one."))
    return sentences(*ways)


def _specs(facts: Facts, rows: npt.NDArray[np.bool_]) -> list[TensorSpec]:
    ops = distinct(facts.rows.work.op[rows & (facts.rows.work.op >= 0)]).tolist()
    return [spec for op in ops for spec in facts.rows.ops.ops[op].inputs]


def _of_products(facts: Facts, rows: npt.NDArray[np.bool_]) -> Text:
    matrices = [spec.shape for spec in _specs(facts, rows) if len(spec.shape) >= 2]
    thin = [shape for shape in matrices if min(shape[-2:]) < THIN]
    if 2 * len(thin) > len(matrices) / 2:
        return Text(
            "Products: so few rows only read weights; take more rows at once (a larger batch), or "
            "smaller weights (8 or 4 bits)."
        )
    return Text(
        "Products: larger ones (a larger batch, projections joined into one) spend less on "
        "starting and writing out their tiles."
    )


def _of_convolutions(facts: Facts, rows: npt.NDArray[np.bool_]) -> Text:
    images = [spec for spec in _specs(facts, rows) if len(spec.shape) == 4]
    if images and not any(spec.is_channels_last for spec in images):
        return Text(
            "Convolutions: model.to(memory_format=torch.channels_last), which the matrix units' "
            "kernels take as it is, and torch.backends.cudnn.benchmark = True."
        )
    return Text("Convolutions: torch.backends.cudnn.benchmark = True, more channels, larger batch.")
