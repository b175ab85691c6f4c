"""Arithmetic that lasts as long as something else: what a transfer could hide under."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.matmul.gemm import Problem, machine_for, plan
from gpuscope.cost.registry import Constants
from gpuscope.hardware import Device, rate_name

ITEM_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of an element by the catalogue's rate name."""

_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tf32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}

_STEP = 64
_MOST = 2**17


@dataclass(frozen=True, slots=True)
class Square:
    """A product of two square matrices.

    Attributes:
        side: rows and columns of each.
        time_s: how long it takes.
        flops: 2 side^3.
    """

    side: int
    time_s: float

    @property
    def flops(self) -> float:
        """2 per multiply-add."""
        return 2.0 * self.side**3


def square_product(device: Device, constants: Constants, dtype: str, side: int) -> Square | None:
    """A square product on the device; None where it cannot compute in this dtype.

    Args:
        device: what it runs on.
        constants: calibrated constants.
        dtype: any name of a dtype; one of `ITEM_BYTES`.
        side: rows and columns.
    """
    rate = rate_name(dtype)
    if rate not in ITEM_BYTES or not device.supports(rate):
        return None
    item = float(ITEM_BYTES[rate])
    out = max(item, 2.0)
    each = float(side) * side
    problem = Problem(
        m=side,
        n=side,
        k=side,
        batch=1,
        dtype=_NAMES[rate],
        a_bytes=each * item,
        b_bytes=each * item,
        c_bytes=each * out,
        item_bytes=item,
        out_bytes=out,
        layout="NN",
    )
    machine = machine_for(device, constants, _NAMES[rate], "matmul")
    return Square(side, plan(problem, machine).duration_s)


def product_as_long(
    device: Device, constants: Constants, dtype: str, time_s: float
) -> Square | None:
    """The smallest square product, in steps of 64, that lasts at least `time_s`.

    None where the device cannot compute in this dtype, or no product in reach lasts so long.
    """
    low, high = 0, _STEP
    found = square_product(device, constants, dtype, high)
    if found is None:
        return None
    while found.time_s < time_s:
        low, high = high, high * 2
        if high > _MOST:
            return None
        found = square_product(device, constants, dtype, high)
        assert found is not None
    # Time is nearly monotonous in the side; a bisection in steps lands beside the crossing.
    while high - low > _STEP:
        middle = (low + high) // 2 // _STEP * _STEP
        tried = square_product(device, constants, dtype, middle)
        assert tried is not None
        if tried.time_s >= time_s:
            high, found = middle, tried
        else:
            low = middle
    return found
