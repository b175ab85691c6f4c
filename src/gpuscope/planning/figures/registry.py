"""What a plan comes to, by name: one small file each, registering itself.

A figure that is a goal is made small (`--goal`); every one can have a most (`--limit`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuscope.document.quantities import Quantity
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import Cluster
from gpuscope.registry import Registry

__all__ = ["FIGURES", "Figure", "Measured", "Quick", "goal_of", "goals", "quick_of", "read"]


class Measured(Protocol):
    """A step, simulated or by a quick score."""

    @property
    def step_s(self) -> float:
        """Its time."""

    @property
    def usd(self) -> float | None:
        """What it costs; None where no price is known."""

    @property
    def energy_j(self) -> float | None:
        """Of all devices; None where their power is not known."""


@dataclass(frozen=True, slots=True)
class Quick:
    """A step by a quick score.

    Attributes:
        step_s, usd, energy_j: as of `Measured`.
    """

    step_s: float
    usd: float | None
    energy_j: float | None


def quick_of(cluster: Cluster, step_s: float) -> Quick:
    """What so long a step on a cluster comes to: boards draw their limit."""
    price, power = cluster.price_usd_per_hour, cluster.device.tdp_w
    return Quick(
        step_s,
        None if price is None else price * step_s / 3600,
        None if power is None else power * cluster.n_devices * step_s,
    )


def _everything(clusters: Sequence[Cluster]) -> None:
    """What a figure needs of clusters that all have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that a plan comes to.

    Attributes:
        name: as in `--goal` and `--limit`.
        title: for a reader.
        read: a most as it is written, with its unit.
        shown: a value for a reader.
        of: from a step and how many of them there are; None where the step does not say.
        capped: a cluster under a most of this figure, where that is a matter of its devices; `of`
            then says nothing.
        needs: refuses clusters that lack what the figure follows from.
        goal: whether it can be made small.
        timed: whether it is less where a step is shorter, so that a bound of time bounds it.
    """

    name: str
    title: Text
    read: Callable[[str], float]
    shown: Callable[[float], Quantity]
    of: Callable[[Measured, float], float | None]
    capped: Callable[[Cluster, float], Cluster] | None = None
    needs: Callable[[Sequence[Cluster]], None] = _everything
    goal: bool = False
    timed: bool = False


FIGURES = Registry[Figure](Text("figure"), "gpuscope.planning.figures")


def goals() -> tuple[str, ...]:
    """Names of what can be made small, the usual first."""
    FIGURES.load()
    names = [each.name for each in FIGURES if each.goal]
    return tuple(sorted(names, key=lambda name: (name != "time", name)))


def goal_of(name: str) -> Figure:
    """The figure that a goal makes small.

    Raises:
        UnknownNameError: no such goal.
    """
    if name not in goals():
        known = Text("Type one of: {names}.", names=", ".join(goals()))
        raise UnknownNameError(Text("goal"), name, goals(), known)
    return FIGURES.get(name)


def read(text: str, units: Mapping[str, float], why: str, example: str) -> float:
    """A number with its unit, in the unit whose factor is 1.

    Args:
        text: as it was written.
        units: factors by unit, in small letters.
        why: what the reader should know, where it cannot be read.
        example: of such a limit.

    Raises:
        InvalidValueError: no number above 0, no unit, or another one.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(\D*)", text.strip().lower())
    number, unit = (float(found[1]), found[2].strip()) if found else (0.0, "")
    again = Text('Type for example: --limit "{example}"', example=example)
    if not 0 < number < float("inf"):
        raise InvalidValueError(Text("'{text}' is no limit.", text=text), why, again)
    if not unit:
        raise InvalidValueError(Text("'{text}' names no unit.", text=text), why, again)
    if unit not in units:
        raise InvalidValueError(
            Text("'{text}': the unit '{unit}' is not known.", text=text, unit=unit), why, again
        )
    return number * units[unit]
