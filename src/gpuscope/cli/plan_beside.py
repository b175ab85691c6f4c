"""What `gpuscope plan` decides of a training beside its layout: `gpuscope.planning.dimensions`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

_BESIDE: dict[str, tuple[Any, Any]] = {
    "precision": (
        Annotated[
            str | None, typer.Option(help=Text("Of the products: bf16 (usual), fp8; or bf16,fp8."))
        ],
        None,
    ),
    "states": (
        Annotated[
            str | None,
            typer.Option(help=Text("Moments of AdamW: float32 (usual), bf16, 8bit; or several.")),
        ],
        None,
    ),
    "offload": (
        Annotated[
            str | None,
            typer.Option(help=Text("To the host's memory: none (usual), cpu; or none,cpu.")),
        ],
        None,
    ),
    "sp": (
        Annotated[
            str | None,
            typer.Option(help=Text("Sequence parallelism beside tp: on (usual), off; or on,off.")),
        ],
        None,
    ),
    "etp": (
        Annotated[
            str | None,
            typer.Option(help=Text("Ranks that cut each expert's matrices: 1 (usual), 2, 4, 8.")),
        ],
        None,
    ),
    "within": (
        Annotated[
            float | None,
            typer.Option(
                metavar="SECONDS",
                help=Text(
                    "Processor time for simulations (60); what is left is composed. 0: no end."
                ),
            ),
        ],
        None,
    ),
}
Beside = Annotated[dict[str, Any], Group(_BESIDE, dict)]
"""Arguments of `gpuscope.planning.question.question_of`; None where nothing was asked for."""


def refuse_beside(task: str, beside: dict[str, Any]) -> None:
    """Refuse what only trainings from scratch decide.

    Raises:
        InvalidValueError: one of them was typed for another task.
    """
    from gpuscope.errors import InvalidValueError

    for name, value in beside.items():
        if value is not None and task != "train":
            raise InvalidValueError(
                Text("--{name} belongs to --task train.", name=name), "", Text("Leave it out.")
            )
