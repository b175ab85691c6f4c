"""One operator by itself, made and timed exactly as a captured program's is.

An explanation builds the operator that PyTorch would issue, with shapes and strides, and asks the
same kernel models that `gpuscope.predict` asks. Bad sizes, dtypes and layouts end here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gpuscope.api import resolve_calibration, resolve_target
from gpuscope.cost.engine import cost_program
from gpuscope.cost.power import limit_power, power_model, steady_state
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explain.numbers import percent, size
from gpuscope.explain.types import Words
from gpuscope.hardware import Calibration, Device, calibration_for, rate_name
from gpuscope.program.types import Op, Program, TensorSpec


@dataclass(frozen=True, slots=True)
class Target:
    """One device with the constants that apply to it.

    Attributes:
        device: as the catalogue has it.
        calibration: measured or carried constants.
        constants: the same, quick to look up.
        origin: "calibrated" where they were measured on this very device, else "estimated".
        assumptions: what the name of the target left open.
    """

    device: Device
    calibration: Calibration
    constants: Constants
    origin: str
    assumptions: tuple[Words, ...]


def target(on: str | Device) -> Target:
    """The device that `on` names; of a cluster, one of its devices.

    Raises:
        UnknownNameError: no such device.
    """
    cluster = resolve_target(on)
    device = cluster.device
    calibration = resolve_calibration(on) or calibration_for(device)
    constants = Constants(calibration)
    notes = []
    if cluster.n_devices > 1:
        notes.append(
            Words(
                f"One device of the {cluster.n_devices} is looked at: each runs its own copy.",
                f"只看 {cluster.n_devices} 个设备中的一个：每个设备各算各的。",
            )
        )
    if not constants.calibrated:
        source = calibration.measured_on or "no device"
        notes.append(
            Words(
                f"Times are estimates: the constants were measured on {source} and carried to "
                f"{device.name}.",
                f"时间是估计值：常数测自 {source}，再折算到 {device.name}。",
            )
        )
    origin = "calibrated" if constants.calibrated else "estimated"
    return Target(device, calibration, constants, origin, tuple(notes))


@dataclass(frozen=True, slots=True)
class Precision:
    """A dtype as people name it.

    Attributes:
        name: "bf16", "tf32", ...
        stored: PyTorch's dtype of the operands.
        compute: what the product is computed in, as kernels name it.
        settings: switches of the program that it needs.
    """

    name: str
    stored: str
    compute: str
    settings: Mapping[str, bool]


_STORED = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16",
    "fp16": "float16", "fp8": "float8_e4m3fn", "int8": "int8",
}  # fmt: skip


def precision(dtype: str, device: Device, allowed: Sequence[str] = tuple(_STORED)) -> Precision:
    """The dtype, checked against the device.

    Args:
        dtype: "bf16", "bfloat16", "tf32", "fp8", ...
        device: must have a rate for it.
        allowed: rates that the operator exists in.

    Raises:
        UnknownNameError: no such dtype.
        UnsupportedError: the device or the operator does not have it.
    """
    name = rate_name(dtype)
    if name not in allowed:
        raise UnsupportedError(
            f"This operator is not modelled in {dtype}.",
            "PyTorch has no such kernel of its own, or its packing is the user's choice.",
            f"Choose one of: {', '.join(allowed)}.",
        )
    device.peak_flops_per_s(name)  # says which dtypes there are, where this one is not
    stored = _STORED[name]
    tf32 = {"tf32_matmul": name == "tf32", "tf32_cudnn": name == "tf32"}
    return Precision(name, stored, "tf32" if name == "tf32" else stored, tf32)


def peak_flops_per_s(device: Device, compute: str) -> float:
    """Dense peak of the unit that computes in this dtype, FLOP/s."""
    from gpuscope.cost.gemm import rate_and_unit

    return rate_and_unit(device, compute)[0]


def whole(name: str, value: object, least: int = 1) -> int:
    """A size, checked.

    Raises:
        InvalidValueError: not a whole number, too small, or larger than 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValueError(f"{name} = {value!r} is no whole number.", "", f"Give {name} >= 1.")
    if value < least:
        raise InvalidValueError(
            f"{name} = {value} cannot be.", f"The least is {least}.", f"Give {name} >= {least}."
        )
    if value >= 2**48:
        raise InvalidValueError(
            f"{name} = {value} cannot be.", "No device's memory holds as many elements.",
            "Give a smaller size.",
        )  # fmt: skip
    return value


def dense(*shape: int, dtype: str, storage: int = -1) -> TensorSpec:
    """A row-major tensor on the device."""
    stride = [prod(shape[at + 1 :]) for at in range(len(shape))]
    return TensorSpec(shape, tuple(stride), dtype, storage=storage)


def turned(spec: TensorSpec) -> TensorSpec:
    """The view with the last two dimensions exchanged."""
    shape = (*spec.shape[:-2], spec.shape[-1], spec.shape[-2])
    stride = (*spec.stride[:-2], spec.stride[-1], spec.stride[-2])
    return TensorSpec(shape, stride, spec.dtype, storage=spec.storage)


def channels_last(n: int, c: int, h: int, w: int, dtype: str, storage: int = -1) -> TensorSpec:
    """A 4-D tensor stored NHWC."""
    return TensorSpec((n, c, h, w), (h * w * c, 1, w * c, c), dtype, storage=storage)


def must_fit(op: Op, device: Device) -> float:
    """Bytes of an operator's tensors, if the device can hold them.

    Raises:
        InvalidValueError: it cannot.
    """
    needed = float(sum(spec.nbytes for spec in (*op.inputs, *op.outputs)))
    if needed > device.memory_usable_bytes:
        raise InvalidValueError(
            f"The tensors take {size(needed)}; {device.name} has "
            f"{size(device.memory_usable_bytes)} for a program.",
            "An operator needs all its inputs and results in device memory at once.",
            "Give smaller sizes, a narrower dtype, or a device with more memory:"
            " gpuscope devices",
        )
    return needed


def work_on(
    op: Op, on: Target, settings: Mapping[str, bool] | None = None, hot: bool = False
) -> Work:
    """The operator as kernel models take it; `hot`: all inputs are in the L2 cache."""
    return Work(
        op, on.device, on.constants, tuple(sorted((settings or {}).items())),
        (hot,) * len(op.inputs),
    )  # fmt: skip


def kernels_of(work: Work) -> tuple[Kernel, ...]:
    """What the operator launches, each kernel by itself at its own clock.

    Raises:
        UnsupportedError: no model, or the device lacks the dtype.
    """
    model = model_for(work.op.name)
    if model is None:
        raise UnsupportedError(f"There is no kernel model of {work.op.name}.")
    return model(work)


def total_s(kernels: Sequence[Kernel]) -> float:
    """Device time of kernels one after the other."""
    return sum(kernel.duration_s for kernel in kernels)


def interval_s(kernels: Sequence[Kernel]) -> tuple[float, float]:
    """80 % interval of their sum, errors taken to go together."""
    return sum(k.low_s for k in kernels), sum(k.high_s for k in kernels)


@dataclass(frozen=True, slots=True)
class Steady:
    """An operator that is repeated without end, the host always ahead.

    Attributes:
        device_s: device time of one.
        limit: what the power limit does, as the end of a sentence; None where it does not bind.
    """

    device_s: float
    limit: Words | None


def steady(ops: Sequence[Op], on: Target, settings: Mapping[str, bool]) -> Steady:
    """Time under the power limit, when a step is nothing but these operators."""
    program = Program("explained", tuple(ops), settings=dict(settings))
    costed = cost_program(program, on.device, on.calibration)
    limited = limit_power(costed, on.device, on.calibration)
    seconds = sum(total_s(item.kernels) for item in limited.ops)
    return Steady(seconds, None if limited is costed else _clock_left(costed, on))


def _clock_left(costed: CostedProgram, on: Target) -> Words | None:
    model = power_model(on.device, on.calibration)
    if model is None or on.device.tdp_w is None:
        return None
    share = steady_state(costed, model).clock_share
    clock, clock_zh = f"{percent(share)} of its maximum", f"最高值的 {percent(share)}"
    if on.device.clock_hz is not None:
        clock = clock_zh = f"{share * on.device.clock_hz / 1e9:.2f} GHz"
    watts = f"{on.device.tdp_w:g} W"
    return Words(
        f"the power limit of {watts} lowers the clock to about {clock}",
        f"{watts} 的功耗上限使频率降到约 {clock_zh}",
    )
