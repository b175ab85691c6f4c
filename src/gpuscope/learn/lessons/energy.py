"""Lesson: energy, power and clocks."""

from __future__ import annotations

from gpuscope.cost.power import PowerModel, power_model
from gpuscope.cost.registry import Constants
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
from gpuscope.hardware import calibration_for, device
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson

NAMES: dict[str, tuple[Text, Role]] = {
    "at rest": (Text("at rest"), "idle"),
    "copy in device memory": (Text("copy in device memory"), "memory"),
    "float32 multiply-adds": (Text("float32 on the lanes"), "other"),
    "bfloat16 products of zeros": (Text("BF16, zeros"), "tensor"),
    "bfloat16 products of random numbers": (Text("BF16, random"), "bad"),
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
    Text("Energy, power and clocks"),
    Text("Why does the same product run slower on random numbers than on zeros?"),
)
def energy() -> Explanation:
    """Make the lesson."""
    zeros = effect("power", load="bfloat16 products of zeros")
    random = effect("power", load="bfloat16 products of random numbers")
    rest = effect("power", load="at rest")
    flops = _power().pj_per_byte / _power().pj_per_flop("bfloat16")
    return Explanation(
        topic="lesson",
        title=Text("Energy"),
        summary=(
            Text(
                "Energy goes into bits that change and bytes that travel. Measured on an {device}: "
                "at rest {rest} W, BF16 products of zeros {zeros} W, of random numbers {random} W.",
                device=machine().device,
                rest=Number(rest["average_w"], ".0f"),
                zeros=Number(zeros["average_w"], ".0f"),
                random=Number(random["average_w"], ".0f"),
            ),
            Text(
                "At its power limit the GPU lowers its clock: {limited} MHz instead of {unlimited} "
                "MHz. Dense training is paced by watts.",
                limited=Number(random["sm_clock_hz"] / 1e6, ",.0f"),
                unlimited=Number(rest["sm_clock_hz"] / 1e6, ",.0f"),
            ),
            Text(
                "A byte from device memory costs as much as {flops} BF16 FLOPs: what saves traffic "
                "saves energy, too.",
                flops=Number(flops, ".0f"),
            ),
        ),
        sections=(
            Section(Text("Measured"), (_bars(),)),
            Section(Text("What a step costs"), (_prices(),)),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope predict gpt2 --task train --on h200",
            "gpuscope predict llama-3.1-8b --task decode --batch 1 --on h200",
        ),
        sources=(
            "M. Horowitz, Computing's Energy Problem, ISSCC 2014",
            measured_source(),
            Text("gpuscope's power model (cost/power.py), calibrated on steady loads"),
        ),
    )


def _bars() -> Bars:
    h200 = device("h200")
    return Bars(
        title=Text("Power of an H200 under five loads"),
        unit="W",
        bars=tuple(
            Bar(
                label,
                (Part(label, row["average_w"], role),),
                Text("SM clock {clock} MHz", clock=Number(row["sm_clock_hz"] / 1e6, ",.0f")),
            )
            for row in effects("power")
            for label, role in (NAMES[row["load"]],)
        ),
        limit=h200.tdp_w,
        limit_label=Text("power limit"),
    )


def _prices() -> Table:
    model = _power()
    rows = [
        (Text("a BF16 FLOP"), model.pj_per_flop("bfloat16")),
        (Text("an FP8 FLOP"), model.pj_per_flop("float8_e4m3fn")),
        (Text("a float32 FLOP"), model.pj_per_flop("float32")),
        (Text("a byte from the L2"), model.pj_per_l2_byte),
        (Text("a byte from device memory"), model.pj_per_byte),
    ]
    unit = rows[0][1]
    return Table(
        title=Text("Energy on an H200, above rest"),
        columns=(
            Column(Text("what")),
            Column(Text("picojoules")),
            Column(Text("in BF16 FLOPs"), "ratio"),
        ),
        rows=tuple((name, round(pj, 2), pj / unit) for name, pj in rows),
        note=Text("From steady loads, by fit."),
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
        title=Text("Power and energy by arithmetic intensity"),
        sliders=(
            Slider("share", Text("share of the roof"), shares, "share", 2),
            Slider("intensity", Text("FLOP per byte"), intensities, "", 8),
        ),
        outputs=(
            Output("power", Text("power"), "W", tuple(powers), role="bad"),
            Output("joules", Text("a TFLOP"), "J", tuple(joules), plotted=False),
        ),
        x="intensity",
        log_x=True,
        reading=Text(
            "{intensity} FLOP per byte at {share} of the roof: {power}, {joules} for 10¹² FLOP."
        ),
    )
