"""Figures that gpuscope's cost models compute, or that were measured, as sources for checks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gpuscope.document.text import Text, verbatim
from gpuscope.hardware import calibration_for, device
from gpuscope.learn.claims.catalogue_figures import ORIGINS
from gpuscope.learn.claims.scales import in_unit, number
from gpuscope.learn.claims.types import Figure, NoFigureError, figure

if TYPE_CHECKING:
    from gpuscope.explanation.matmul import Question


@figure
def measured(name: str, constant: str, unit: str = "") -> Figure:
    """A constant that was measured on a device, or fitted to measurements (docs/calibration.md).

    Raises:
        NoFigureError: it was measured on another device only, or not at all.
    """

    found = device(name)
    calibration = calibration_for(found)
    entry = calibration.entry(constant)
    if entry.origin == "estimated":
        raise NoFigureError(
            Text("Not measured on {device}: {constant}.", device=found.name, constant=constant)
        )
    shown = in_unit(entry.value, unit)
    return Figure(
        entry.value,
        Text(
            "{origin} on {device}, {constant}: {shown}",
            origin=ORIGINS[entry.origin],
            device=found.name,
            constant=constant,
            shown=shown,
        ),
        verbatim(""),
        "recorded measurement",
        tuple(calibration.measured_with.split("; ")),
    )


@figure
def matmul_s(name: str, m: int, n: int, k: int, dtype: str, batch: int = 1) -> Figure:
    """Device time of a matrix product by the cost model, seconds: what a step that is nothing but
    this product is predicted to keep the device busy, under its power limit."""
    from gpuscope.explanation.operators import steady

    asked = _question(name, dtype, batch)
    found = asked.tiled(m, n, k)
    time_s = steady((asked.op(m, n, k),), asked.on, asked.dtype.settings).device_s
    device_name = asked.on.device.name
    return Figure(
        time_s,
        Text(
            "{product} in {dtype} on {device}: {time}, tile {tile}",
            product=_product(m, n, k, batch),
            dtype=dtype,
            device=device_name,
            time=in_unit(time_s, "µs"),
            tile=found.plan.tile.name,
        ),
        verbatim(device_name),
        "model",
    )


@figure
def matmul_busy_units(name: str, m: int, n: int, k: int, dtype: str) -> Figure:
    """Multiprocessors that a matrix product keeps busy by the cost model: its thread blocks, at
    most all of the device."""
    asked = _question(name, dtype)
    plan, found = asked.tiled(m, n, k).plan, asked.on.device
    return Figure(
        float(min(plan.grid, int(found.require("compute_units")))),
        Text(
            "{product} in {dtype} on {device}: {blocks} thread blocks of {tile}",
            product=_product(m, n, k, 1),
            dtype=dtype,
            device=found.name,
            blocks=plan.grid,
            tile=plan.tile.name,
        ),
        verbatim(found.name),
        "model",
    )


@figure
def matmul_tile(name: str, m: int, n: int, k: int, dtype: str) -> Figure:
    """Elements of the result that one thread block computes, by the cost model."""
    asked = _question(name, dtype)
    tile, found = asked.tiled(m, n, k).plan.tile, asked.on.device
    how = Text(
        "{product} in {dtype} on {device}: tile {tile}",
        product=_product(m, n, k, 1),
        dtype=dtype,
        device=found.name,
        tile=tile.name,
    )
    return Figure(float(tile.m * tile.n), how, verbatim(found.name), "model")


def _product(m: int, n: int, k: int, batch: int) -> str:
    sizes = f"{m}×{k} · {k}×{n}"
    return f"{batch} × ({sizes})" if batch > 1 else sizes


@lru_cache(maxsize=64)
def _question(name: str, dtype: str, batch: int = 1) -> Question:
    """The product as `a @ b` issues it: both operands row-major."""
    from gpuscope.explanation.matmul import question

    return question(dtype, name, "nn", batch)


@figure
def transfer_s(name: str, size_bytes: float, way: str, pinned: bool) -> Figure:
    """Time of a copy over the host link by the cost model, seconds; `way` is "h2d" or "d2h"."""
    from gpuscope.explanation.transfer_case import make_case

    case = make_case(size_bytes, name, way)
    time_s = case.time_s(pinned)
    shown, size = in_unit(time_s, "ms"), in_unit(size_bytes, "MB")
    kind = Text("pinned") if pinned else Text("pageable")
    return Figure(
        time_s,
        Text(
            "copying {size} ({way}, {kind}) on {device}: {shown}",
            size=size,
            way=way,
            kind=kind,
            device=case.device.name,
            shown=shown,
        ),
        kind,
        "model",
    )


@figure
def all_reduce_s(target: str, size_bytes: float) -> Figure:
    """Time of an all-reduce over all devices of a target ("8xh200") by the cost model, seconds."""
    from gpuscope.explanation.collective_case import make_case

    case = make_case("all_reduce", size_bytes, target, "bf16")
    time_s = case.time_s(size_bytes)
    shown, size = in_unit(time_s, "ms"), in_unit(size_bytes, "MB")
    return Figure(
        time_s,
        Text(
            "all-reduce of {size} on {cluster}: {shown}",
            size=size,
            cluster=case.cluster.name,
            shown=shown,
        ),
        verbatim(target),
        "model",
    )


@figure
def resident_blocks(name: str, threads: int, registers: int, shared_bytes: int) -> Figure:
    """Thread blocks that fit on one multiprocessor at once."""

    import numpy as np

    from gpuscope.analysis.launch_shape import resident_blocks as fitting

    found = device(name)
    one = [np.array([value], np.int64) for value in (threads, registers, shared_bytes)]
    blocks = float(fitting(found, *one)[0][0])
    return Figure(
        blocks,
        Text(
            "{threads} threads, {registers} registers, {shared} B shared on {device}: {blocks} "
            "blocks",
            threads=threads,
            registers=registers,
            shared=shared_bytes,
            device=found.name,
            blocks=number(blocks),
        ),
        verbatim(""),
        "model",
    )


@figure
def attention_flops(batch: int, heads: int, queries: int, keys: int, head_dim: int) -> Figure:
    """FLOPs of one attention call without a mask, by the cost model."""

    from gpuscope.cost.attention.tiles import attention_flops as flops
    from gpuscope.program.types import TensorSpec

    def spec(tokens: int) -> TensorSpec:
        return TensorSpec((batch, heads, tokens, head_dim), (1, 1, 1, 1), "bfloat16")

    value = flops(spec(queries), spec(keys), spec(keys), False)
    how = Text(
        "attention of {queries} queries on {keys} keys, {heads} heads of {head_dim}: {flops}",
        queries=queries,
        keys=keys,
        heads=heads,
        head_dim=head_dim,
        flops=in_unit(value, "GFLOP"),
    )
    return Figure(value, how, verbatim(""), "model")


@figure
def parameters(name: str) -> Figure:
    """Parameters of a built-in model."""

    from gpuscope.program.models.registry import find

    model = find(name)
    if model.parameters is None:
        raise NoFigureError(Text("Nobody published the parameters of {model}.", model=model.name))
    shown = in_unit(float(model.parameters), "billion")
    return Figure(
        float(model.parameters),
        Text("parameters of {model}: {shown}", model=model.name, shown=shown),
        verbatim(model.name),
        "catalogue",
        (f"published config.json of {model.name}",),
    )


@figure
def config(name: str, key: str) -> Figure:
    """A number of a built-in language model's configuration, e.g. "num_hidden_layers"."""

    from gpuscope.program.models.registry import find
    from gpuscope.program.models.transformers_spec import TransformersSpec

    model = find(name)
    # A model of the transformers package is built by its specification's method.
    spec = getattr(model.build, "__self__", None)
    values = spec.values if isinstance(spec, TransformersSpec) else {}
    value = values.get(key)
    if not isinstance(value, (int, float)):
        raise NoFigureError(Text("The model {model} has no '{key}'.", model=model.name, key=key))
    return Figure(
        float(value),
        Text("{key} of {model}: {value}", key=key, model=model.name, value=str(value)),
        verbatim(""),
        "catalogue",
        (f"published config.json of {model.name}",),
    )
