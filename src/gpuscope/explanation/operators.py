"""One operator by itself, made and timed exactly as a captured program's is.

An explanation builds the operator that PyTorch would issue, with shapes and strides, and asks the
same kernel models that `gpuscope.predict` asks. Bad sizes, dtypes and layouts end here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuscope.api import resolve_calibration, resolve_target
from gpuscope.cost.engine import cost_program
from gpuscope.cost.power import limit_power, power_model, steady_state
from gpuscope.cost.registry import Constants, KernelModel, Work, model_for
from gpuscope.cost.residual import corrected
from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.document.blocks import Fact
from gpuscope.document.quantities import Bytes, Hertz, Percent, Watts
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import Calibration, Device, calibration_for, rate_name
from gpuscope.program.types import Op, Program, TensorSpec, row_major


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
    assumptions: tuple[Text, ...]


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
            Text(
                "One device of the {n_devices} is looked at: each runs its own copy.",
                n_devices=cluster.n_devices,
            )
        )
    if not constants.calibrated:
        source = calibration.measured_on or Text("no device")
        notes.append(
            Text(
                "Times are estimates: the constants were measured on {source} and carried to "
                "{device}.",
                source=source,
                device=device.name,
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
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}


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
            Text("This operator is not modelled in {dtype}.", dtype=dtype),
            Text("PyTorch has no such kernel of its own, or its packing is the user's choice."),
            Text("Choose one of: {allowed}.", allowed=", ".join(allowed)),
        )
    device.peak_flops_per_s(name)  # says which dtypes there are, where this one is not
    stored = _STORED[name]
    tf32 = {"tf32_matmul": name == "tf32", "tf32_cudnn": name == "tf32"}
    return Precision(name, stored, "tf32" if name == "tf32" else stored, tf32)


def peak_flops_per_s(device: Device, compute: str) -> float:
    """Dense peak of the unit that computes in this dtype, FLOP/s."""
    from gpuscope.cost.matmul.gemm import rate_and_unit

    return rate_and_unit(device, compute)[0]


def whole(name: str, value: object, least: int = 1) -> int:
    """A size, checked.

    Raises:
        InvalidValueError: not a whole number, too small, or larger than 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValueError(
            Text("{name} = {value} is no whole number.", name=name, value=repr(value)),
            "",
            Text("Give {name} >= 1.", name=name),
        )
    if value < least:
        raise InvalidValueError(
            Text("{name} = {value} cannot be.", name=name, value=value),
            Text("The least is {least}.", least=least),
            Text("Give {name} >= {least}.", name=name, least=least),
        )
    if value >= 2**48:
        raise InvalidValueError(
            Text("{name} = {value} cannot be.", name=name, value=value),
            Text("No device's memory holds as many elements."),
            Text("Give a smaller size."),
        )
    return value


def dense(*shape: int, dtype: str, storage: int = -1) -> TensorSpec:
    """A row-major tensor on the device."""
    return TensorSpec(shape, row_major(shape), dtype, storage=storage)


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
            Text(
                "The tensors take {needed}; {device} has {memory_usable} for a program.",
                needed=Bytes(needed),
                device=device.name,
                memory_usable=Bytes(device.memory_usable_bytes),
            ),
            Text("An operator needs all its inputs and results in device memory at once."),
            Text(
                "Give smaller sizes, a narrower dtype, or a device with more memory: gpuscope "
                "devices"
            ),
        )
    return needed


def work_on(
    op: Op, on: Target, settings: Mapping[str, bool] | None = None, hot: bool = False
) -> Work:
    """The operator as kernel models take it; `hot`: all inputs are in the L2 cache."""
    return Work(
        op,
        on.device,
        on.constants,
        tuple(sorted((settings or {}).items())),
        (hot,) * len(op.inputs),
    )


def kernels_of(work: Work) -> tuple[Kernel, ...]:
    """What the operator launches, each kernel by itself at its own clock, as a prediction has it:
    with the correction that was learned of this device (`gpuscope.cost.residual`).

    Raises:
        UnsupportedError: no model, or the device lacks the dtype.
    """
    model = _model(work)
    return corrected(work, model(work), model)


def learned(work: Work) -> float:
    """Factor that the learned correction puts on an operator's time; 1 where there is none.

    Raises:
        UnsupportedError: no model, or the device lacks the dtype.
    """
    model = _model(work)
    physical = model(work)
    before_s = total_s(physical)
    return total_s(corrected(work, physical, model)) / before_s if before_s else 1.0


def _model(work: Work) -> KernelModel:
    model = model_for(work.op.name)
    if model is None:
        raise UnsupportedError(Text("There is no kernel model of {op}.", op=work.op.name))
    return model


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
    limit: Text | None


def steady(ops: Sequence[Op], on: Target, settings: Mapping[str, bool]) -> Steady:
    """Time under the power limit, when a step is nothing but these operators."""
    program = Program("explained", tuple(ops), settings=dict(settings))
    costed = cost_program(program, on.device, on.calibration)
    limited = limit_power(costed, on.device, on.calibration)
    seconds = sum(total_s(item.kernels) for item in limited.ops)
    return Steady(seconds, None if limited is costed else _clock_left(costed, on))


def repeated_time(endless: Steady, origin: str) -> Fact:
    """The fact that an explanation tells of it, beside the time of one by itself."""
    return Fact(
        Text("time when repeated without pause"),
        endless.device_s,
        "s",
        origin,
        note=Text("at the clock that the power limit leaves"),
    )


def _clock_left(costed: CostedProgram, on: Target) -> Text | None:
    model = power_model(on.device, on.calibration)
    if model is None or on.device.tdp_w is None:
        return None
    share = steady_state(costed, model).clock_share
    clock = Text("{share} of its maximum", share=Percent(share))
    if on.device.clock_hz is not None:
        clock = verbatim(Hertz(share * on.device.clock_hz))
    return Text(
        "the power limit of {watts} lowers the clock to about {clock}",
        watts=Watts(on.device.tdp_w),
        clock=clock,
    )
