"""Models of users' own operators (CUDA extensions, custom operators) from their FLOPs and bytes.

    gs.kernel_model("my::rope", flops=lambda op: 6 * op.inputs[0].numel)

The time is a roofline's: the longer of the arithmetic at the rate of its unit and the bytes at the
memory's, both at the device's calibrated shares of the datasheet or at a stated efficiency, and the
shortest kernel's time besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import TypeAlias

from gpuscope.cost.bandwidth import Launch, elements, first_dtype, kernel, machine, reads, written
from gpuscope.cost.matmul.machine import machine_for, rate_and_unit
from gpuscope.cost.registry import MODELS, Work
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.program.own_costs import OWN, SAID
from gpuscope.program.types import Op

Amount: TypeAlias = float | Callable[[Op], float]
"""A number, or a function of the operator."""

_STATED, _UNSTATED = 1.5, 2.0
"""How many times too long or too short, with an efficiency stated and without (judgements)."""

_VECTOR_SHARE = 0.7
"""Share of the vector units' peak where no efficiency is stated (a judgement)."""


@dataclass(frozen=True)
class OwnModel:
    """What a user says of an operator.

    Attributes:
        name: of the operator.
        flops, bytes: of one call; bytes None: each input and output once.
        efficiency: share of the peaks that it reaches; None: the device's calibrated shares.
        tensor_cores: the FLOPs run on the matrix units.
    """

    name: str
    flops: Amount
    bytes: Amount | None
    efficiency: float | None
    tensor_cores: bool

    def figures(self, op: Op) -> tuple[float, float | None, float | None, bool]:
        """FLOPs, bytes, efficiency and unit of one call."""
        moved = None if self.bytes is None else self._amount("bytes", self.bytes, op)
        return self._amount("flops", self.flops, op), moved, self.efficiency, self.tensor_cores

    def __call__(self, work: Work) -> tuple[Kernel, ...]:
        """One kernel."""
        flops, stated, _, _ = self.figures(work.op)
        read, out = reads(work), written(work)
        moved = read.total + out if stated is None else stated
        hot = read.hot if stated is None else 0.0
        out = min(out, moved)
        share = machine(work).read_bytes_per_s / work.bandwidth
        slower = 1.0 if self.efficiency is None else share / self.efficiency
        made = kernel(
            work,
            Launch(
                self.name.rpartition("::")[2],
                "matmul" if self.tensor_cores else "other",
                max(moved - out - hot, 0.0),
                hot,
                out,
                least_bytes=moved,
                grid=max(1, ceil(elements((*work.outputs, *work.inputs)) / 512)),
                streaming=True,
                dtype=first_dtype(work),
                family="own",
                note=Text("a model of your own"),
            ),
        )
        floor = machine(work).floor_s
        compute_s = self._compute_s(work, flops, made.dtype)
        memory_s = max(made.duration_s - floor, 0.0) * slower
        seconds = floor + max(compute_s, memory_s)
        width = _UNSTATED if self.efficiency is None else _STATED
        limiter: Limiter = "tensor_core" if self.tensor_cores else "compute"
        return (
            replace(
                made,
                duration_s=seconds,
                low_s=seconds / width,
                high_s=seconds * width,
                flops=flops,
                compute_s=compute_s,
                limiter=limiter if compute_s > memory_s else made.limiter,
                origin="estimated",
            ),
        )

    def _compute_s(self, work: Work, flops: float, dtype: str) -> float:
        if not flops:
            return 0.0
        if self.tensor_cores:
            rate = "tf32" if dtype == "float32" else dtype
            peak, _ = rate_and_unit(work.device, rate)
            share = machine_for(work.device, work.constants, rate, "matmul", 16).efficiency
        else:
            peak = work.device.peak_flops_per_s("float32", tensor_core=False)
            share = _VECTOR_SHARE
        return flops / (peak * (self.efficiency or min(share, 1.0)))

    def _amount(self, what: str, amount: Amount, op: Op) -> float:
        try:
            found = float(amount(op) if callable(amount) else amount)
        except Exception as error:
            raise WorkloadError(
                Text(
                    "The {what} of kernel_model('{name}') raised {error}.",
                    what=what,
                    name=self.name,
                    error=type(error).__name__,
                ),
                str(error),
                Text(
                    "It is given the operator: op.inputs and op.outputs (shape, dtype, numel, "
                    "nbytes), op.args by name."
                ),
            ) from error
        return _checked(what, found, self.name)


def said(op: Op) -> OwnModel | None:
    """The model that the captured code gave an operator; None if it gave none."""
    found = op.args.get(OWN)
    if not isinstance(found, (tuple, list)) or len(found) != 4:
        return None
    flops, moved, efficiency, tensor_cores = found
    return OwnModel(op.name, flops, moved, efficiency, tensor_cores)


def kernel_model(
    name: str,
    *,
    flops: Amount = 0.0,
    bytes: Amount | None = None,
    efficiency: float | None = None,
    tensor_cores: bool = False,
) -> None:
    """Say what an operator of your own costs, from now on in this process.

    Args:
        name: "namespace::operator", as it is registered with PyTorch.
        flops: floating-point operations of one call: a number, or a function of the operator
            (`op.inputs`, `op.outputs`: shape, dtype, numel, nbytes; `op.args`: other arguments).
        bytes: bytes moved, likewise; each input and output once by default.
        efficiency: share, 0 to 1, of the device's peak FLOP/s and bandwidth that it reaches; the
            calibrated shares by default.
        tensor_cores: the FLOPs run on the matrix units, at the rate of the first floating-point
            tensor's type.

    Raises:
        InvalidValueError: no such name is possible, it is one of PyTorch's own that has a model,
            or a figure is out of range.
    """
    if not isinstance(name, str) or "::" not in name:
        raise InvalidValueError(
            Text("An operator's name has two parts, not {name}.", name=repr(name)),
            "",
            Text('Give it as it is registered: gs.kernel_model("my::op", flops=...)'),
        )
    if efficiency is not None and not 0 < efficiency <= 1:
        raise InvalidValueError(
            Text("An efficiency lies above 0 and up to 1, not {value}.", value=str(efficiency))
        )
    for what, amount in (("flops", flops), ("bytes", bytes)):
        if amount is not None and not callable(amount):
            _checked(what, amount, name)
    before = MODELS.find(name)
    if before is not None and not isinstance(before, OwnModel):
        raise InvalidValueError(
            Text("'{name}' has a model already.", name=name),
            Text("It is one of PyTorch's own operators."),
            Text("Register operators of your own."),
        )
    MODELS.drop(name)
    model = MODELS.add(name, OwnModel(name, flops, bytes, efficiency, tensor_cores))
    assert isinstance(model, OwnModel)
    SAID[name] = model.figures


def _checked(what: str, value: object, name: str) -> float:
    if isinstance(value, (int, float)) and isfinite(value) and value >= 0:
        return float(value)
    raise InvalidValueError(
        Text(
            "The {what} of kernel_model('{name}') must be a number from 0 on, not {value}.",
            what=what,
            name=name,
            value=repr(value)[:60],
        )
    )
