"""Operators for tests of matrix products: tensors with strides, work on a device."""

from __future__ import annotations

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Device, calibration_for, device
from gpuscope.program.types import Op, TensorSpec


def dense(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    """A row-major tensor."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(tuple(shape), tuple(stride), dtype)


def turned(spec: TensorSpec) -> TensorSpec:
    """The view with the last two dimensions exchanged."""
    shape, stride = list(spec.shape), list(spec.stride)
    shape[-2:], stride[-2:] = shape[:-3:-1], stride[:-3:-1]
    return TensorSpec(tuple(shape), tuple(stride), spec.dtype)


def channels_last(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    """A 4-D tensor stored NHWC."""
    n, c, h, w = shape
    return TensorSpec((n, c, h, w), (h * w * c, 1, w * c, c), dtype)


def run(
    name: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    on: str | Device = "h200",
    settings: dict[str, bool] | None = None,
    hot: bool = False,
    calibration: Calibration | None = None,
    **args: object,
) -> tuple[Kernel, ...]:
    """Kernels of one operator on a device."""
    target = device(on) if isinstance(on, str) else on
    model = model_for(name)
    assert model is not None
    constants = Constants(calibration or calibration_for(target))
    work = Work(
        Op(0, name, inputs=inputs, outputs=outputs, args=args),
        target,
        constants,
        tuple((settings or {}).items()),
        (hot,) * len(inputs),
    )
    return model(work)


def mm_time_s(m: int, n: int, k: int, on: str | Device = "h200") -> float:
    """Time of all kernels of a bfloat16 linear layer's product: a split sum has two."""
    a, b = dense(m, k, dtype="bfloat16"), turned(dense(n, k, dtype="bfloat16"))
    kernels = run("aten::mm", (a, b), (dense(m, n, dtype="bfloat16"),), on=on)
    return sum(kernel.duration_s for kernel in kernels)


def mm(
    m: int,
    n: int,
    k: int,
    dtype: str = "bfloat16",
    on: str | Device = "h200",
    layout: str = "NT",
    hot: bool = False,
    settings: dict[str, bool] | None = None,
) -> Kernel:
    """The main kernel of C[m, n] = A[m, k] B[k, n]."""
    a = dense(m, k, dtype=dtype) if layout[0] == "N" else turned(dense(k, m, dtype=dtype))
    b = dense(k, n, dtype=dtype) if layout[1] == "N" else turned(dense(n, k, dtype=dtype))
    out = dense(m, n, dtype=dtype)
    kernels = run("aten::mm", (a, b), (out,), on=on, hot=hot, settings=settings)
    return max(kernels, key=lambda kernel: kernel.flops)
