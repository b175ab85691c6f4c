"""Over how many ranks the matrices of each expert are cut, beside `ep`, whatever `tp` is.

Ranks that share an expert gather the tokens of all of them before its products, and sum and give
back their parts after (Megatron-LM's `--expert-tensor-parallel-size`,
`gpuscope.program.models.parallel.experts`). It holds less of each expert and multiplies as much;
the tokens cross the links once more each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, etp=int(value))


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    """A part of each expert, shared by as many fewer ranks."""
    cut = columns["experts"] / int(value)
    share = replace(weighed.plan, etp=int(value)).expert_share
    held = columns["held"] - columns["experts"] + cut
    return {"experts": cut, "expert_share": share, "held": held}


def _lacks(device: Device, value: str) -> Text | None:
    """Nothing: it is how the program is written."""
    return None


def _of_model(size: TransformerSize, value: str) -> Text | None:
    if value == "1":
        return None
    if size.experts is None:
        return Text("The model has no experts, whose matrices etp would cut.")
    if size.experts.ffn % int(value):
        return Text(
            "{count} features of an expert cannot be split over {etp} ranks.",
            count=size.experts.ffn,
            etp=value,
        )
    return None


def _cannot(plan: Parallelism, value: str) -> Text | None:
    ranks = plan.dp * plan.cp * plan.tp
    if value == "1" or ranks % (plan.ep * int(value)) == 0:
        return None
    return Text(
        "ep {ep} times etp {etp} does not divide the {ranks} ranks of a stage.",
        ep=plan.ep,
        etp=value,
        ranks=ranks,
    )


DIMENSIONS.add(
    "etp",
    Dimension(
        name="etp",
        values=("1", "2", "4", "8"),
        asked=_asked,
        score=_score,
        lacks=_lacks,
        of_model=_of_model,
        cannot=_cannot,
    ),
)
