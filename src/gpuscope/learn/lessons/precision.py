"""Lesson: tensor cores and number formats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.hardware import device
from gpuscope.learn.effects import effects, machine
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


_LANES = Words("lanes", "普通通道")
_TENSOR = Words("tensor cores", "张量核心")


@lesson(
    "precision",
    6,
    Words("Tensor cores and precision", "张量核心与精度"),
    Words(
        "What does half the bits buy, and what does it cost?",
        "位数减半换来什么，又失去什么？",
    ),
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
        title=Words("Tensor cores", "张量核心"),
        summary=(
            Words(
                "A tensor core multiplies small matrices in one instruction. On an H200 it reaches "
                f"{tensor / vector:.0f} times what the ordinary lanes do; it takes TF32, BF16, "
                "FP16, "
                "FP8 or INT8 and adds up in float32.",
                "张量核心用一条指令完成小矩阵乘法。在 H200 上其峰值是普通计算通道的 "
                f"{tensor / vector:.0f} 倍；"
                "输入可为 TF32、BF16、FP16、FP8 或 INT8，并以 float32 累加。",
            ),
            Words(
                f"Measured, 4096³: BF16 is {gain:.0f} times as fast as float32 on the lanes.",
                f"实测 4096³：BF16 的速度是普通通道 float32 的 {gain:.0f} 倍。",
            ),
            Words(
                "Half the bits move twice as fast, too: kernels limited by memory gain "
                "although they "
                "compute nothing on tensor cores.",
                "位数减半，传输也快一倍：受显存限制的内核即使不用张量核心也会受益。",
            ),
            Words(
                "BF16 keeps float32's range with 3 digits; FP16 has 4 digits but ends at "
                "65,504: its "
                "gradients need a loss scaler.",
                "BF16 保留 float32 的范围，约 3 位有效数字；FP16 约 4 位，但上限为 65,504："
                "梯度需要损失缩放。",
            ),
        ),
        sections=(
            Section(Words("Rates", "速率"), (_peaks(), _measured())),
            Section(Words("The formats", "数值格式"), (_formats(),)),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope explain matmul 4096 4096 4096 --dtype fp8 --on h200",
            "gpuscope predict gpt2 --task train --dtype float32 --on h200",
        ),
        sources=(
            "NVIDIA H100 Tensor Core GPU Architecture, white paper; the catalogue's datasheets",
            "IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
        ),
    )


def _peaks() -> Bars:
    h200 = device("h200")
    names = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
    known = dict(h200.peaks)
    lanes = {"fp64", "fp32"}
    return Bars(
        title=Words("Dense peaks of an H200", "H200 的稠密峰值"),
        unit="flop/s",
        bars=tuple(
            Bar(
                name,
                (
                    Part(
                        _LANES if name in lanes else _TENSOR, known[name],
                        "other" if name in lanes else "tensor",
                    ),
                ),
            )
            for name in names
            if name in known
        ),
    )  # fmt: skip


def _measured() -> Bars:
    names = {
        "naive": Words("float32, naive kernel", "float32，朴素内核"),
        "tiled": Words("float32, tiles in shared memory", "float32，共享内存分块"),
        "library float32": Words("float32, library", "float32，库"),
        "library tf32": Words("TF32, library", "TF32，库"),
        "library float16": Words("FP16, library", "FP16，库"),
        "library bfloat16": Words("BF16, library", "BF16，库"),
    }
    tensor = {"library tf32", "library float16", "library bfloat16"}
    role: dict[bool, Role] = {True: "tensor", False: "other"}
    return Bars(
        title=Words("A product of 4096³, measured", "4096³ 的矩阵乘法，实测"),
        unit="flop/s",
        bars=tuple(
            Bar(
                names[row["kernel"]],
                (
                    Part(
                        names[row["kernel"]], row["flops"] / row["time_s"],
                        role[row["kernel"] in tensor],
                    ),
                ),
            )
            for row in effects("matmul")
        ),
    )  # fmt: skip


def _formats() -> Table:
    return Table(
        title=Words("What the bits allow", "这些位数意味着什么"),
        columns=(
            Column(Words("format", "格式")),
            Column(Words("bits stored", "存储位数")),
            Column(Words("exponent bits", "指数位")),
            Column(Words("mantissa bits", "尾数位")),
            Column(Words("decimal digits", "十进制位数")),
            Column(Words("largest", "最大值")),
            Column(Words("smallest normal", "最小规格数")),
        ),
        rows=tuple(
            (
                f.name, f.stored, f.exponent, f.mantissa,
                round((f.mantissa + 1) * math.log10(2), 1),
                f"{f.largest:.3g}", f"{f.smallest:.2g}",
            )
            for f in FORMATS
        ),
        marked=(3,),
        note=Words(
            "Decimal digits are (mantissa bits + 1) x log10(2).",
            "十进制位数为（尾数位 + 1）× log10(2)。",
        ),
    )  # fmt: skip


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
        title=Words("The least time of a square product", "方阵乘法的最短用时"),
        sliders=(
            Slider("device", Words("device", "设备"), names),
            Slider("dtype", Words("format", "格式"), kinds, "", 2),
            Slider("side", Words("side", "边长"), sides, "", 4),
        ),
        outputs=(
            Output("time", Words("time", "用时"), "s", tuple(times), role="tensor"),
            Output("peak", Words("peak", "峰值"), "flop/s", tuple(rates), plotted=False),
        ),
        x="side",
        log_x=True,
        log_y=True,
        reading=Words(
            "{side}³ in {dtype} on {device}: at least {time}, at {peak}.",
            "{device} 上以 {dtype} 计算 {side}³：至少 {time}，峰值 {peak}。",
        ),
        note=Words(
            "Not available: the device has no such rate. Real kernels reach 60 to 85 % of the "
            "peak.",
            "“不可用”表示设备没有这种速率。实际内核可达峰值的 60 % 到 85 %。",
        ),
    )


def _peak(name: str, kind: str) -> float | None:
    found = device(name)
    try:
        return found.peak_flops_per_s(kind, tensor_core=kind != "fp32")
    except UnsupportedError:
        return None
