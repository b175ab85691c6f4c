"""Why clocks are held down now, and for how long they were.

A power cap under load is how a device at its limit works: it is said, not blamed. Heat and the
"hardware slowdown" are faults. Source: NVIDIA, NVML API Reference Guide,
nvmlClocksEventReasons and nvmlDeviceGetViolationStatus (nanoseconds since the driver was loaded).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined, sentences

_BAD: Mapping[str, Text] = {
    "hw_thermal_slowdown": Text("the chip is too hot"),
    "sw_thermal_slowdown": Text("chip or memory is too hot"),
    "hw_power_brake_slowdown": Text("the power supply asks for less (power brake)"),
    "hw_slowdown": Text("the hardware protects itself"),
}
"""Reasons that cost half the clock or more, worst explained first."""

_HEAT = ("hw_thermal_slowdown", "sw_thermal_slowdown")

_HELD: Mapping[str, Text] = {
    "thermal": Text("heat"),
    "board_limit": Text("the board's limit"),
    "reliability": Text("reliability"),
}
_LONG_S = 10.0
_BY = "NVML: clocks event reasons (nvidia-smi -q -d PERFORMANCE)"


@check("throttle", "health", Text("Why clocks are held down now, and how long they were"))
def throttle(machine: Machine) -> Iterable[Finding]:
    """Read reasons of this moment, then the counters since the driver was loaded."""
    devices = nvidia_devices(machine)
    known = [d for d in devices if d.get("clocks_event_reasons") is not None]
    bad = [f for d in known for f in _now(d)]
    yield from bad
    held = [f for d in devices for f in _before(d)]
    yield from held
    capped = [d for d in known if "sw_power_cap" in d.get("clocks_event_reasons")]
    if known and not bad:
        yield _well(known, capped)


def _now(device: NvidiaDevice) -> Iterable[Finding]:
    reasons = [r for r in _BAD if r in device.get("clocks_event_reasons")]
    if not reasons:
        return
    specific = [r for r in reasons if r != "hw_slowdown"] or reasons
    name = gpus([device.index])
    now, most = device.number("clocks", "sm_mhz"), device.number("clocks", "max_sm_mhz")
    evidence = Text("Reasons: {reasons}.", reasons=", ".join(reasons))
    if now and most:
        mhz = {"now": Number(now, ".0f"), "most": Number(most, ".0f")}
        evidence = sentences(evidence, Text("SM clock {now} of {most} MHz.", **mhz))
    hot = any(r in _HEAT for r in specific)
    yield Finding(
        "throttle",
        "warning",
        Text(
            "{name} is slowed down: {reasons}.",
            name=name,
            reasons=joined(_BAD[r] for r in specific),
        ),
        evidence,
        Text("It computes at a fraction of its rate; in a job of several devices all wait for it."),
        Text("Look at cooling: fans, air flow, dust.")
        if hot
        else Text("Look at power cables, power supplies and the rack's power limit."),
        ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",),
        _BY,
        device.index,
        {"reasons": ", ".join(reasons), "sm_clock_mhz": now},
    )


def _before(device: NvidiaDevice) -> Iterable[Finding]:
    held = {
        kind: seconds
        for kind in _HELD
        if (seconds := device.number("violation_time_s", kind)) and seconds >= _LONG_S
    }
    if not held:
        return
    name = gpus([device.index])
    evidence = joined(
        Text("{what} {seconds} s", what=_HELD[kind], seconds=Number(seconds, ",.0f"))
        for kind, seconds in held.items()
    )
    yield Finding(
        "throttle",
        "note",
        Text("{name} was slowed down before.", name=name),
        Text("Since the driver was loaded: {held}.", held=evidence),
        Text("Under long load it may happen again: gpuscope doctor --deep tries it."),
        None,
        (),
        "NVML: nvmlDeviceGetViolationStatus",
        device.index,
        {f"held_by_{k}_s": s for k, s in held.items()},
    )


def _well(given: list[NvidiaDevice], capped: list[NvidiaDevice]) -> Finding:
    names = gpus(d.index for d in given)
    values: dict[str, float | int | str | bool | None] = {"power_capped_devices": len(capped)}
    if capped:
        at = gpus(d.index for d in capped)
        found = Text("{at}: at the power limit, which is usual under heavy load.", at=at)
    else:
        found = Text("{names}: nothing slows them.", names=names)
    return Finding(
        "throttle", "ok", Text("No slowdown of the clocks."), found, known_by=_BY, values=values
    )
