"""Operators for tests of memory-bound kernels: tensors, work on a device, recorded calls."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Device, calibration_for, device
from gpuscope.program.types import Op, TensorSpec

SAMPLE = Path(__file__).parent / "data" / "memory_h200.csv"


def dense(*shape: int, dtype: str = "float32", at: int = -1) -> TensorSpec:
    """A row-major device tensor; `at` is its storage."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(tuple(shape), tuple(stride), dtype, "device", at)


def on_host(spec: TensorSpec, pinned: bool = False) -> TensorSpec:
    """The same tensor in host memory."""
    return replace(spec, device="host", pinned=pinned)


def run(
    name: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...] = (),
    on: str | Device = "h200",
    hot: bool | tuple[bool, ...] = False,
    overload: str = "default",
    calibration: Calibration | None = None,
    **args: object,
) -> tuple[Kernel, ...]:
    """Kernels of one operator ("aten::" is added) on a device."""
    target = device(on) if isinstance(on, str) else on
    full = name if "::" in name else f"aten::{name}"
    model = model_for(full)
    assert model is not None, full
    flags = (hot,) * len(inputs) if isinstance(hot, bool) else hot
    op = Op(0, full, overload, inputs, outputs, args)
    constants = Constants(calibration or calibration_for(target))
    return model(Work(op, target, constants, (), flags))


def one(*args: object, **kwargs: object) -> Kernel:
    """The only kernel of an operator."""
    (kernel,) = run(*args, **kwargs)  # type: ignore[arg-type]
    return kernel


def seconds(kernels: tuple[Kernel, ...]) -> float:
    """All kernels together."""
    return sum(k.duration_s for k in kernels)


def recorded(*names: str) -> Iterator[tuple[float, float]]:
    """(predicted, measured) seconds of the recorded calls of some operators (all without names).

    Taken from benchmarks/micro on an H200; the points are from the half that no constant was
    fitted to.
    """
    constants = Constants(calibration_for(device("h200")))
    with SAMPLE.open() as stream:
        for row in csv.DictReader(stream):
            if names and row["op"].removeprefix("aten::") not in names:
                continue
            inputs, outputs = _specs(row["inputs"]), _specs(row["outputs"])
            args = {
                k: tuple(v) if isinstance(v, list) else v
                for k, v in json.loads(row["args"]).items()
            }
            op = Op(0, row["op"], "default", inputs, outputs, args)
            model = model_for(row["op"])
            assert model is not None, row["op"]
            hot = (row["hot"] == "1",) * len(inputs)
            predicted = seconds(model(Work(op, device("h200"), constants, (), hot)))
            yield predicted, float(row["seconds"])


def _specs(text: str) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(tuple(shape), tuple(stride), dtype, where, at, pinned)
        for shape, stride, dtype, where, at, pinned in json.loads(text)
    )


def median_error(*names: str) -> float:
    """Median of |predicted / measured - 1| over the recorded calls."""
    errors = sorted(abs(p / m - 1) for p, m in recorded(*names))
    assert len(errors) >= 3, names
    return errors[len(errors) // 2]
