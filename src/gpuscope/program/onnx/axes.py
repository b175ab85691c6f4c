"""Sizes of a graph's dynamic axes: asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.onnx.graph import Graph

__all__ = ["axes_of", "axis_for", "sizes_of", "with_sizes"]

_SHORT = {
    "batch": ("batch", "batch_size", "n", "b"),
    "seq": ("seq", "seq_len", "sequence", "sequence_length", "seq_length", "s"),
}
"""How exporters call the axes that --batch and --seq stand for."""


def axes_of(graph: Graph) -> tuple[str, ...]:
    """Names of the dynamic axes, in the order of the inputs."""
    named = (size for given in graph.inputs for size in given.shape if isinstance(size, str))
    return tuple(dict.fromkeys(named))


def axis_for(graph: Graph, short: str) -> str | None:
    """The dynamic axis that "batch" or "seq" stands for, as exporters usually call it."""
    return next((axis for axis in axes_of(graph) if axis.lower() in _SHORT[short]), None)


def sizes_of(
    graph: Graph, path: Path, given: Mapping[str, int], batch: int | None, seq: int | None
) -> dict[str, int]:
    """A number for every dynamic axis.

    Args:
        graph: as read.
        path: its file, to name in errors.
        given: sizes by the axis' name.
        batch, seq: for the axis that is called so, or as exporters usually call it.

    Raises:
        UnknownNameError: no such axis.
        InvalidValueError: an axis has no size, or one that cannot be.
    """
    axes, sizes = axes_of(graph), dict(given)
    for name in sizes:
        if name not in axes:
            raise UnknownNameError(Text("dynamic axis"), name, axes)
    for short, size in (("batch", batch), ("seq", seq)):
        axis = axis_for(graph, short)
        if size is not None and axis is None:
            raise InvalidValueError(
                Text("{path} has no dynamic axis for --{option}.", path=path, option=short),
                _there(axes),
                Text("Leave out --{option}, or export with dynamic shapes.", option=short),
            )
        if size is not None and axis is not None:
            sizes.setdefault(axis, size)
    missing = [name for name in axes if name not in sizes]
    if missing:
        raise InvalidValueError(
            Text("{path} leaves sizes open: {names}.", path=path, names=", ".join(missing)),
            Text("Time and memory follow from them."),
            Text("Type: {settings}", settings=" ".join(f"--set {name}=8" for name in missing)),
        )
    for name, size in sizes.items():
        if not 0 < size < 1 << 40:
            raise InvalidValueError(
                Text("{name}={size} cannot be.", name=name, size=size),
                Text("A size is a whole number from 1 on."),
                Text("Type: --set {name}=8", name=name),
            )
    return sizes


def with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph with these numbers for its dynamic axes, by name."""

    def sized(shape: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return tuple(sizes.get(s, s) if isinstance(s, str) else s for s in shape)

    return replace(
        graph,
        inputs=tuple(replace(each, shape=sized(each.shape)) for each in graph.inputs),
        shapes={n: replace(each, shape=sized(each.shape)) for n, each in graph.shapes.items()},
    )


def _there(axes: tuple[str, ...]) -> Text:
    if not axes:
        return Text("All its sizes are fixed.")
    return Text("It has: {names}.", names=", ".join(axes))
