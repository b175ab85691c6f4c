"""Arguments that say how a model's training is split over the devices of a cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text
from gpuscope.program.models.parallel.options import ParallelOptions

DP = Annotated[
    int | None, typer.Option("--dp", help=Text("Replicas of the model; what the others leave."))
]
TP = Annotated[
    int | None, typer.Option("--tp", help=Text("Ranks that share every layer's matrices."))
]
PP = Annotated[int | None, typer.Option("--pp", help=Text("Pipeline stages."))]
CP = Annotated[int | None, typer.Option("--cp", help=Text("Ranks that share every sequence."))]
EP = Annotated[int | None, typer.Option("--ep", help=Text("Ranks that share the experts."))]
ETP = Annotated[
    int | None, typer.Option("--etp", help=Text("Ranks that cut each expert's matrices."))
]
Fsdp = Annotated[
    str | None, typer.Option("--fsdp", help=Text("full, hybrid, zero2, zero1 or none (as DDP)."))
]
Schedule = Annotated[
    str | None, typer.Option(help=Text("Of a pipeline: gpipe, 1f1b, interleaved or zb."))
]
Virtual = Annotated[int | None, typer.Option(help=Text("Stages of a rank, where interleaved."))]
Microbatch = Annotated[
    int | None, typer.Option(help=Text("Sequences that a replica takes at a time."))
]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", help=Text("Sequences of a step of the whole job."))
]
Recompute = Annotated[
    str | None, typer.Option(help=Text("In the backward pass: none, selective or full."))
]


def parallel_options(**asked: object) -> ParallelOptions | None:
    """What the user asked for; None if it is nothing.

    Args:
        asked: fields of `ParallelOptions`, None where not given.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    return ParallelOptions(**given) if given else None  # type: ignore[arg-type]


_MEMBERS: dict[str, tuple[Any, Any]] = {
    "dp": (DP, None),
    "tp": (TP, None),
    "pp": (PP, None),
    "cp": (CP, None),
    "ep": (EP, None),
    "etp": (ETP, None),
    "fsdp": (Fsdp, None),
    "schedule": (Schedule, None),
    "virtual": (Virtual, None),
    "microbatch": (Microbatch, None),
    "global_batch": (GlobalBatch, None),
    "recompute": (Recompute, None),
}

Parallel = Annotated["ParallelOptions | None", Group(_MEMBERS, parallel_options)]
"""How training is split over devices: `ParallelOptions`; None where nothing was asked for."""
