"""What `gpuscope plan` asks of every task, and what is asked beside the choice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text


@dataclass(frozen=True, slots=True)
class Asked:
    """What may be taken, how much there is to do, and what decides."""

    on: str
    devices: str
    global_batch: int
    seq: int
    goal: str
    limit: str | None
    tokens: str | None
    prices: Path | None
    device_set: str | None
    days: float | None
    grid: str | None
    simulate: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked beside the choice."""

    why: str | None
    framework: str | None
    check: Path | None


_ASKED: dict[str, tuple[Any, Any]] = {
    "on": (
        Annotated[str, typer.Option("--on", help=Text("Devices to choose from: h100,h200."))],
        "h200",
    ),
    "devices": (Annotated[str, typer.Option(help=Text("How many: 8, 1..8, 2,4."))], "8"),
    "global_batch": (
        Annotated[
            int, typer.Option("--global-batch", help=Text("Sequences of a step of the whole job."))
        ],
        64,
    ),
    "seq": (Annotated[int, typer.Option(help=Text("Tokens of a sequence."))], 4096),
    "goal": (Annotated[str, typer.Option(help=Text("time, cost or energy."))], "time"),
    "limit": (
        Annotated[
            str | None,
            typer.Option(
                metavar="LIMITS",
                help=Text("The most it may come to: time<7d,cost<5000usd,power<6kW,memory<60GiB."),
            ),
        ],
        None,
    ),
    "tokens": (
        Annotated[str | None, typer.Option(help=Text("Tokens of the whole training: 100B."))],
        None,
    ),
    "prices": (
        Annotated[
            Path | None,
            typer.Option(metavar="FILE", help=Text("Prices of devices in a TOML file of yours.")),
        ],
        None,
    ),
    "device_set": (
        Annotated[
            str | None,
            typer.Option(
                "--device-set",
                metavar="NAME=VALUE,...",
                help=Text("Devices that do not exist: memory=288GB,bandwidth=8TB/s instead."),
            ),
        ],
        None,
    ),
    "days": (
        Annotated[
            float | None,
            typer.Option(help=Text("plan any: the largest model that trains in so many days.")),
        ],
        None,
    ),
    "grid": (
        Annotated[
            str | None,
            typer.Option(
                metavar="PLACE", help=Text("Electricity: a country's letters, or g of CO2 a kWh.")
            ),
        ],
        None,
    ),
    "simulate": (
        Annotated[
            int,
            typer.Option(help=Text("Candidates that are simulated, the best by a quick score.")),
        ],
        8,
    ),
}

_WANTED: dict[str, tuple[Any, Any]] = {
    "why": (
        Annotated[
            str | None,
            typer.Option(metavar="tp=4,pp=2", help=Text("What became of these candidates.")),
        ],
        None,
    ),
    "framework": (
        Annotated[
            str | None,
            typer.Option(
                "--for",
                help=Text(
                    "Also write what starts it: torchtitan, fsdp2, megatron, peft, vllm, ..."
                ),
            ),
        ],
        None,
    ),
    "check": (
        Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help=Text("Judge a plan: torchtitan, DeepSpeed, Megatron, a vllm serve line, ..."),
            ),
        ],
        None,
    ),
}

AskedOf = Annotated[Asked, Group(_ASKED, Asked)]
"""What is asked of every task."""
WantedOf = Annotated[Wanted, Group(_WANTED, Wanted)]
"""What is asked beside the choice."""


def refuse_choosing(wanted: Wanted) -> None:
    """Refuse what is about a choice beside --check, which makes none.

    Raises:
        InvalidValueError: --why or --for.
    """
    from gpuscope.errors import InvalidValueError

    if wanted.why is not None or wanted.framework is not None:
        raise InvalidValueError(
            Text("--check judges one plan and chooses none."),
            Text("--why and --for are about a choice."),
            Text("Leave them out."),
        )
