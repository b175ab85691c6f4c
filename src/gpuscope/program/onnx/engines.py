"""What runs an ONNX graph, and what it does with it: one data file an engine."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuscope.document.text import Text, extracted
from gpuscope.errors import UnknownNameError

__all__ = ["Engine", "engine_named", "engines"]

_FOLDER = Path(__file__).with_name("engines")


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine executes a graph.

    Attributes:
        name: as `--engine` takes it.
        called: its name for people.
        assumption: what is taken for granted, for the user.
        fusions: names of `gpuscope.program.onnx.fusing.FUSIONS`, in their order.
        pointwise: whether it generates kernels for chains of elementwise operators and reductions.
        whole_convolutions: whether convolutions of quantized operands are of 8-bit integers.
        copies_views: a transposed or cut tensor is written anew; PyTorch would step over it.
        node_s: host seconds a node before its launch; None: PyTorch's own host runs it.
        spread: relative 80 % half-width that it adds to the device's time.
        settings: switches of the program, as `Program.settings`.
    """

    name: str
    called: str
    assumption: Text
    fusions: tuple[str, ...]
    pointwise: bool
    whole_convolutions: bool
    copies_views: bool
    node_s: float | None
    spread: float
    settings: tuple[tuple[str, bool], ...]


@cache
def engines() -> tuple[str, ...]:
    """Names of all engines."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def engine_named(name: str) -> Engine:
    """The engine of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in engines():
        raise UnknownNameError(Text("engine"), name, engines())
    read = tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))
    return Engine(
        name=name,
        called=read["called"],
        assumption=extracted(read["about"]),
        fusions=tuple(read["fusions"]),
        pointwise=read["pointwise"],
        whole_convolutions=read["whole_convolutions"],
        copies_views=read["copies_views"],
        node_s=read.get("node_s"),
        spread=read["spread"],
        settings=tuple(sorted(read["settings"].items())),
    )
