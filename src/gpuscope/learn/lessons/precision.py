"""Lesson: tensor cores and number formats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuscope.document.blocks import (
    Bar,
    Bars,
    Column,
    Explanation,
    Explorer,
    Output,
    Part,
    Role,
    Section,
    Slider,
    Table,
)
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import device
from gpuscope.learn.effects import effects
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format; what follows from its bits is computed.

    Attributes:
        name: as people write it.
        exponent, mantissa: bits, the leading one not counted.
        stored: bits in memory (TF32 is stored as 32).
        without_infinity: the largest exponent holds numbers too (OCP FP8 E4M3: all but one code).
    """

    name: str
    exponent: int
    mantissa: int
    stored: int
    without_infinity: bool = False

    @property
    def bias(self) -> int:
        """IEEE 754: 2^(e-1) - 1."""
        return int(2 ** (self.exponent - 1) - 1)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.without_infinity:
            return float((2 - 2.0 ** (1 - self.mantissa)) * 2.0 ** (self.bias + 1))
        return float((2 - 2.0**-self.mantissa) * 2.0**self.bias)

    @property
    def smallest(self) -> float:
        """The smallest positive normal number."""
        return float(2.0 ** (1 - self.bias))

    @property
    def step(self) -> float:
        """Distance from 1 to the next number (epsilon)."""
        return float(2.0**-self.mantissa)


FORMATS: tuple[Format, ...] = (
    Format("fp64", 11, 52, 64),
    Format("fp32", 8, 23, 32),
    Format("tf32", 8, 10, 32),
    Format("bf16", 8, 7, 16),
    Format("fp16", 5, 10, 16),
    Format("fp8 E5M2", 5, 2, 8),
    Format("fp8 E4M3", 4, 3, 8, without_infinity=True),
)


_LANES = Text("lanes")
_TENSOR = Text("tensor cores")


@lesson(
    "precision",
    6,
    Text("Tensor cores and precision"),
    Text("What does half the bits buy, and what does it cost?"),
)
def precision() -> Explanation:
    """Make the lesson."""
    h200 = device("h200")
    vector = h200.peak_flops_per_s("float32", tensor_core=False)
    tensor = h200.peak_flops_per_s("bfloat16")
    rows = {row["kernel"]: row["flops"] / row["time_s"] for row in effects("matmul")}
    gain = rows["library bfloat16"] / rows["library float32"]
    return Explanation(
        topic="lesson",
        title=Text("Tensor cores"),
        summary=(
            Text(
                "A tensor core multiplies small matrices in one instruction. On an H200 it reaches "
                "{tensor} times what the ordinary lanes do; it takes TF32, BF16, FP16, FP8 or INT8 "
                "and adds up in float32.",
                tensor=Number(tensor / vector, ".0f"),
            ),
            Text(
                "Measured, 4096³: BF16 is {gain} times as fast as float32 on the lanes.",
                gain=Number(gain, ".0f"),
            ),
            Text(
                "Half the bits move twice as fast, too: kernels limited by memory gain although "
                "they compute nothing on tensor cores."
            ),
            Text(
                "BF16 keeps float32's range with 3 digits; FP16 has 4 digits but ends at 65,504: "
                "its gradients need a loss scaler."
            ),
        ),
        sections=(
            Section(Text("Rates"), (_peaks(), _measured())),
            Section(Text("The formats"), (_formats(),)),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope explain matmul 4096 4096 4096 --dtype fp8 --on h200",
            "gpuscope predict gpt2 --task train --dtype float32 --on h200",
        ),
        sources=(
            "NVIDIA H100 Tensor Core GPU Architecture, white paper; the catalogue's datasheets",
            "IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0",
            measured_source(),
        ),
    )


def _peaks() -> Bars:
    h200 = device("h200")
    names = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
    known = dict(h200.peaks)
    lanes = {"fp64", "fp32"}
    return Bars(
        title=Text("Dense peaks of an H200"),
        unit="flop/s",
        bars=tuple(
            Bar(
                name,
                (
                    Part(
                        _LANES if name in lanes else _TENSOR,
                        known[name],
                        "other" if name in lanes else "tensor",
                    ),
                ),
            )
            for name in names
            if name in known
        ),
    )


def _measured() -> Bars:
    names = {
        "naive": Text("float32, naive kernel"),
        "tiled": Text("float32, tiles in shared memory"),
        "library float32": Text("float32, library"),
        "library tf32": Text("TF32, library"),
        "library float16": Text("FP16, library"),
        "library bfloat16": Text("BF16, library"),
    }
    tensor = {"library tf32", "library float16", "library bfloat16"}
    role: dict[bool, Role] = {True: "tensor", False: "other"}
    return Bars(
        title=Text("A product of 4096³, measured"),
        unit="flop/s",
        bars=tuple(
            Bar(
                names[row["kernel"]],
                (
                    Part(
                        names[row["kernel"]],
                        row["flops"] / row["time_s"],
                        role[row["kernel"] in tensor],
                    ),
                ),
            )
            for row in effects("matmul")
        ),
    )


def _formats() -> Table:
    return Table(
        title=Text("What the bits allow"),
        columns=(
            Column(Text("format")),
            Column(Text("bits stored")),
            Column(Text("exponent bits")),
            Column(Text("mantissa bits")),
            Column(Text("decimal digits")),
            Column(Text("largest")),
            Column(Text("smallest normal")),
        ),
        rows=tuple(
            (
                f.name,
                f.stored,
                f.exponent,
                f.mantissa,
                round((f.mantissa + 1) * math.log10(2), 1),
                f"{f.largest:.3g}",
                f"{f.smallest:.2g}",
            )
            for f in FORMATS
        ),
        marked=(3,),
        note=Text("Decimal digits are (mantissa bits + 1) x log10(2)."),
    )


def _explorer() -> Explorer:
    names = ("h200", "a100", "rtx-4090", "l40s", "b200", "mi300x", "t4")
    kinds = ("fp32", "tf32", "bf16", "fp16", "fp8")
    sides = tuple(float(2**k) for k in range(8, 16))
    times: list[float | None] = []
    rates: list[float | None] = []
    for name in names:
        for kind in kinds:
            peak = _peak(name, kind)
            for side in sides:
                times.append(None if peak is None else 2 * side**3 / peak)
                rates.append(peak)
    return Explorer(
        title=Text("The least time of a square product"),
        sliders=(
            Slider("device", Text("device"), names),
            Slider("dtype", Text("format"), kinds, "", 2),
            Slider("side", Text("side"), sides, "", 4),
        ),
        outputs=(
            Output("time", Text("time"), "s", tuple(times), role="tensor"),
            Output("peak", Text("peak"), "flop/s", tuple(rates), plotted=False),
        ),
        x="side",
        log_x=True,
        log_y=True,
        reading=Text("{side}³ in {dtype} on {device}: at least {time}, at {peak}."),
        note=Text(
            "Not available: the device has no such rate. Real kernels reach 60 to 85 % of the peak."
        ),
    )


def _peak(name: str, kind: str) -> float | None:
    found = device(name)
    try:
        return found.peak_flops_per_s(kind, tensor_core=kind != "fp32")
    except UnsupportedError:
        return None
