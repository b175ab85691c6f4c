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
        optimizer: "onnxruntime" where the installed package itself says what is fused.
        run_s: of a run on a processor, beside its nodes.
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
    optimizer: str = ""
    run_s: float = 0.0


_ON_PROCESSOR = "-cpu"
"""How the files of engines on processors end."""


@cache
def engines(processor: bool = False) -> tuple[str, ...]:
    """Names of all engines: on accelerators, or on a processor."""
    names = (path.stem for path in _FOLDER.glob("*.toml"))
    own = [name for name in names if name.endswith(_ON_PROCESSOR) == processor]
    return tuple(sorted(name.removesuffix(_ON_PROCESSOR) for name in own))


@cache
def engine_named(name: str, processor: bool = False) -> Engine:
    """The engine of that name, on an accelerator or on a processor.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in engines(processor):
        raise UnknownNameError(Text("engine"), name, engines(processor))
    file = _FOLDER / f"{name}{_ON_PROCESSOR if processor else ''}.toml"
    read = tomllib.loads(file.read_text("utf-8"))
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
        optimizer=read.get("optimizer", ""),
        run_s=read.get("run_s", 0.0),
    )
