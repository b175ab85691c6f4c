"""Lesson: energy, power and clocks."""

from __future__ import annotations

from gpuscope.cost.power import PowerModel, power_model
from gpuscope.cost.registry import Constants
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
from gpuscope.hardware import calibration_for, device
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.registry import lesson

NAMES: dict[str, tuple[Words, Role]] = {
    "at rest": (Words("at rest", "空闲"), "idle"),
    "copy in device memory": (Words("copy in device memory", "显存内拷贝"), "memory"),
    "float32 multiply-adds": (Words("float32 on the lanes", "普通通道 float32 乘加"), "other"),
    "bfloat16 products of zeros": (Words("BF16, zeros", "BF16 乘法，全零"), "tensor"),
    "bfloat16 products of random numbers": (Words("BF16, random", "BF16 乘法，随机数"), "bad"),
}


def _power() -> PowerModel:
    """The calibrated power model of an H200."""
    h200 = device("h200")
    model = power_model(h200, Constants(calibration_for(h200)))
    if model is None:
        raise LookupError("the catalogue has lost the power of the H200")
    return model


@lesson(
    "energy",
    14,
    Words("Energy, power and clocks", "能耗、功率与时钟"),
    Words(
        "Why does the same product run slower on random numbers than on zeros?",
        "同一个乘法，为什么随机数比全零更慢？",
    ),
)
def energy() -> Explanation:
    """Make the lesson."""
    zeros = effect("power", load="bfloat16 products of zeros")
    random = effect("power", load="bfloat16 products of random numbers")
    rest = effect("power", load="at rest")
    flops = _power().pj_per_byte / _power().pj_per_flop("bfloat16")
    return Explanation(
        topic="lesson",
        title=Words("Energy", "能耗"),
        summary=(
            Words(
                "Energy goes into bits that change and bytes that travel. Measured on an "
                f"{machine().device}: at rest {rest['average_w']:.0f} W, BF16 products of zeros "
                f"{zeros['average_w']:.0f} W, of random numbers {random['average_w']:.0f} W.",
                f"能量花在翻转的比特和移动的字节上。在 {machine().device} 上实测："
                f"空闲 {rest['average_w']:.0f} W，全零 BF16 乘法 {zeros['average_w']:.0f} W，"
                f"随机数 {random['average_w']:.0f} W。",
            ),
            Words(
                "At its power limit the GPU lowers its clock: "
                f"{random['sm_clock_hz'] / 1e6:,.0f} MHz instead of "
                f"{rest['sm_clock_hz'] / 1e6:,.0f} MHz. Dense training is paced by watts.",
                f"到达功率上限时 GPU 会降低时钟：{random['sm_clock_hz'] / 1e6:,.0f} MHz，"
                f"而不是 {rest['sm_clock_hz'] / 1e6:,.0f} MHz。密集训练的速度由瓦数决定。",
            ),
            Words(
                f"A byte from device memory costs as much as {flops:.0f} BF16 FLOPs: what saves "
                "traffic saves energy, too.",
                f"从显存取一个字节的能量相当于 {flops:.0f} 个 BF16 FLOP：节省传输也就节省了能量。",
            ),
        ),
        sections=(
            Section(Words("Measured", "实测"), (_bars(),)),
            Section(Words("What a step costs", "各项代价"), (_prices(),)),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope predict gpt2 --task train --on h200",
            "gpuscope predict llama-3.1-8b --task decode --batch 1 --on h200",
        ),
        sources=(
            "M. Horowitz, Computing's Energy Problem, ISSCC 2014",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}; gpuscope's power "
            "model "
            "(cost/power.py), calibrated on steady loads",
        ),
    )


def _bars() -> Bars:
    h200 = device("h200")
    return Bars(
        title=Words("Power of an H200 under five loads", "H200 在五种负载下的功率"),
        unit="W",
        bars=tuple(
            Bar(
                label,
                (Part(label, row["average_w"], role),),
                Words(
                    f"SM clock {row['sm_clock_hz'] / 1e6:,.0f} MHz",
                    f"SM 时钟 {row['sm_clock_hz'] / 1e6:,.0f} MHz",
                ),
            )
            for row in effects("power")
            for label, role in (NAMES[row["load"]],)
        ),
        limit=h200.tdp_w,
        limit_label=Words("power limit", "功率上限"),
    )


def _prices() -> Table:
    model = _power()
    rows = [
        (Words("a BF16 FLOP", "一个 BF16 FLOP"), model.pj_per_flop("bfloat16")),
        (Words("an FP8 FLOP", "一个 FP8 FLOP"), model.pj_per_flop("float8_e4m3fn")),
        (Words("a float32 FLOP", "一个 float32 FLOP"), model.pj_per_flop("float32")),
        (Words("a byte from the L2", "L2 的一个字节"), model.pj_per_l2_byte),
        (Words("a byte from device memory", "显存的一个字节"), model.pj_per_byte),
    ]
    unit = rows[0][1]
    return Table(
        title=Words("Energy on an H200, above rest", "H200 上的能耗（空闲之外）"),
        columns=(
            Column(Words("what", "项目")),
            Column(Words("picojoules", "皮焦")),
            Column(Words("in BF16 FLOPs", "折合 BF16 FLOP"), "ratio"),
        ),
        rows=tuple((name, round(pj, 2), pj / unit) for name, pj in rows),
        note=Words("From steady loads, by fit.", "由稳态负载拟合得出。"),
    )


def _explorer() -> Explorer:
    h200, model = device("h200"), _power()
    intensities = tuple(float(2**k) for k in range(13))
    shares = (0.5, 0.7, 0.85, 1.0)
    powers, joules = [], []
    peak, bandwidth = h200.peak_flops_per_s("bf16"), h200.memory_bandwidth_bytes_per_s
    for share in shares:
        for x in intensities:
            flops = min(peak, x * bandwidth) * share
            work_w = flops * (model.pj_per_flop("bfloat16") + model.pj_per_byte / x) * 1e-12
            total = model.idle_w + work_w
            # At the limit the clock falls until the power fits; the rate falls about as much.
            slow = max(1.0, work_w / max(model.limit_w - model.idle_w, 1.0))
            powers.append(min(total, model.limit_w))
            joules.append(min(total, model.limit_w) / (flops / slow) * 1e12)
    return Explorer(
        title=Words("Power and energy by arithmetic intensity", "功率与能耗随算术强度变化"),
        sliders=(
            Slider("share", Words("share of the roof", "达到屋顶的比例"), shares, "share", 2),
            Slider("intensity", Words("FLOP per byte", "每字节 FLOP"), intensities, "", 8),
        ),
        outputs=(
            Output("power", Words("power", "功率"), "W", tuple(powers), role="bad"),
            Output("joules", Words("a TFLOP", "每 TFLOP"), "J", tuple(joules), plotted=False),
        ),
        x="intensity",
        log_x=True,
        reading=Words(
            "{intensity} FLOP per byte at {share} of the roof: {power}, {joules} for 10¹² FLOP.",
            "每字节 {intensity} FLOP，达到屋顶的 {share}：{power}，每 10¹² FLOP 耗 {joules}。",
        ),
    )
