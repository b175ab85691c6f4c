"""Dimensions by name: one small file each, registering itself.

A plan's layout (`gpuscope.program.models.parallel.options.Parallelism`) says how a model is split.
What is decided beside it (precision, the optimizer's states, ...) is a dimension: a name, its
values, and what a value does to the program that is captured and to the quick score. A candidate
carries the values that are not usual, so that what nobody asks for costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import Cluster, Device
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.registry import Registry

__all__ = [
    "DIMENSIONS",
    "Choices",
    "Dimension",
    "Weighed",
    "applied",
    "lacking",
    "refuse_lacking",
    "tries_of",
    "unlike",
    "ways",
]

Choices = tuple[tuple[str, str], ...]
"""Unusual values by the name of their dimension, in the order of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What the quick score weighs.

    Attributes:
        size: the model's.
        cluster: what it runs on.
        plan: how it is split.
        seq: tokens of a sequence.
    """

    size: TransformerSize
    cluster: Cluster
    plan: Parallelism
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing that a plan decides.

    Attributes:
        name: as in a candidate's words, and the option's on the command line.
        values: all; the first is usual, and not said.
        asked: the options of a candidate with this value.
        score: columns of the quick score that a value changes, from its "peak" (FLOP/s), "held"
            (parameters of a rank before they are shared), "experts" (those of these that are
            experts') and "expert_share" (ranks that share them).
        lacks: why no plan on a device can have a value; None where it can.
        composed: seconds of a composed step's passes and of its update, from the parameters of a
            rank before they are shared and these without it; None where a block's record has all
            that the value changes.
        of_model: why no plan of a model can have a value; None where some can.
        cannot: why a plan cannot have a value; None where every plan can.
        told: what a reader of the choice should know; None for nothing.
        lighter: values that save memory, tried by themselves where nothing fits without.
    """

    name: str
    values: tuple[str, ...]
    asked: Callable[[ParallelOptions, str], ParallelOptions]
    score: Callable[[Weighed, str, Mapping[str, float]], Mapping[str, float]]
    lacks: Callable[[Device, str], Text | None]
    composed: Callable[[Weighed, str, float, float, float], tuple[float, float]] | None = None
    of_model: Callable[[TransformerSize, str], Text | None] | None = None
    cannot: Callable[[Parallelism, str], Text | None] | None = None
    told: Callable[[Weighed, str], Text] | None = None
    lighter: tuple[str, ...] = ()


DIMENSIONS = Registry[Dimension](Text("dimension"), "gpuscope.planning.dimensions")


def applied(options: ParallelOptions, more: Choices) -> ParallelOptions:
    """The options with what is chosen beside the layout."""
    for name, value in more:
        options = DIMENSIONS.get(name).asked(options, value)
    return options


def unlike(plan: Parallelism, more: Choices) -> Text | None:
    """Why a plan cannot have what is chosen beside its layout; None where it can."""
    for name, value in more:
        cannot = DIMENSIONS.get(name).cannot
        why = cannot(plan, value) if cannot else None
        if why is not None:
            return why
    return None


def tries_of(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Values of a dimension as they are written, "bf16,fp8".

    Raises:
        UnknownNameError: no such value.
    """
    dimension = DIMENSIONS.get(name)
    names = given.split(",") if isinstance(given, str) else given
    wanted = tuple(dict.fromkeys(each.strip() for each in names))
    for each in wanted:
        if each not in dimension.values:
            known = Text("Type one of: {names}.", names=", ".join(dimension.values))
            kind = Text("value of {name}", name=name)
            raise UnknownNameError(kind, each, dimension.values, known)
    return wanted


def lacking(dimension: Dimension, value: str, size: TransformerSize, device: Device) -> Text | None:
    """Why no plan of a model on a device can have a value; None where some can."""
    why = dimension.of_model(size, value) if dimension.of_model else None
    return why or dimension.lacks(device, value)


def refuse_lacking(
    tries: Mapping[str, Sequence[str]], size: TransformerSize, clusters: Sequence[Cluster]
) -> None:
    """Refuse a dimension whose every asked value is lacked by the model, or by every device.

    Raises:
        UnsupportedError: with what the first lacks.
    """
    for name, values in tries.items():
        dimension = DIMENSIONS.get(name)
        whys = [
            lacking(dimension, value, size, each.device) for each in clusters for value in values
        ]
        if all(why is not None for why in whys):
            usual = dimension.values[0]
            again = (
                Text("Name another device, or type: --{name} {value}", name=name, value=usual)
                if dimension.of_model is None
                else Text("Name another model, or type: --{name} {value}", name=name, value=usual)
            )
            raise UnsupportedError(whys[0] or "", Text("No plan has what was asked for."), again)


def ways(
    tries: Sequence[tuple[str, tuple[str, ...]]], size: TransformerSize, device: Device
) -> Iterator[tuple[Choices, Text | None]]:
    """Every combination of values on a device, and why it cannot be, where it cannot.

    Args:
        tries: values by the name of their dimension.
        size: the model's.
        device: what it runs on.
    """
    names = [name for name, _ in tries]
    for values in product(*(each for _, each in tries)):
        named = [(DIMENSIONS.get(n), value) for n, value in zip(names, values, strict=True)]
        lacks = [why for each, v in named if (why := lacking(each, v, size, device)) is not None]
        choices = tuple((each.name, v) for each, v in named if v != each.values[0])
        yield choices, (lacks[0] if lacks else None)
