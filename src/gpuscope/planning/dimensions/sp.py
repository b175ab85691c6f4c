"""Whether tensor parallel ranks share the tokens between their matrix products, too.

With sequence parallelism (Korthikanti et al., 2022) norms and residuals are split, and tokens are
gathered before each product and scattered after it; without it they are whole on every rank, and
one sum over ranks stands for both. As many bytes move. It saves memory and is usual; without it a
step has fewer operators, which is quicker where the host sets the pace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.planning.score import kept_bytes
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, sequence_parallel=False)


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    """Whole on each rank, in bfloat16: what both norms read, or the input of a block that is
    computed again; the score takes all that is kept to be shared."""
    size, plan = weighed.size, weighed.plan
    whole = (2 if plan.recompute == "full" else 4) * size.hidden
    return {"kept": kept_bytes(size, plan.recompute) + whole * (plan.tp - 1)}


def _lacks(device: Device, value: str) -> Text | None:
    """Nothing: it is how the program is written."""
    return None


def _cannot(plan: Parallelism, value: str) -> Text | None:
    if value == "on":
        return None
    if plan.tp == 1:
        return Text("With tp 1 no rank shares a sequence with others that way.")
    if plan.ep > 1:
        return Text(
            "With ep {ep} the {tp} ranks of tp would send the same tokens to the experts.",
            ep=plan.ep,
            tp=plan.tp,
        )
    return None


DIMENSIONS.add(
    "sp",
    Dimension(
        name="sp", values=("on", "off"), asked=_asked, score=_score, lacks=_lacks, cannot=_cannot
    ),
)
