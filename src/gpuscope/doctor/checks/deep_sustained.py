"""Half a minute of full load on all devices: rate, clocks, power, heat, and unchanged results.

The power limit lowers the clock under such a load on every large device: that is normal. Heat, a
hardware slowdown or the power brake are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import (
    Answer,
    ask,
    failures,
    judge,
    not_tested,
    slow_finding,
    span,
    with_share,
)
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Count, Number, Percent, Rate
from gpuscope.document.text import Text, capital, joined, plural, sentences, verbatim
from gpuscope.measurement.sensors.types import HELD_BY_HEAT, Held

NAME = "deep_sustained"
TIMEOUT_S = 180.0
SPREAD = 0.12
"""See `deep_products`: under a power limit healthy devices of one kind differ by some 8 %."""

SETTLED_S = 3.0
"""After this the clock has found its level under the power limit; what comes before is left out."""

SAG = 0.88
"""The second half against the first seconds after `SETTLED_S`: warming up costs some per cent."""

HELD_SHARE = 0.05
"""Share of the readings from which on a reason counts; a single one may be a start-up."""

_BAD = HELD_BY_HEAT | {Held.SLOWDOWN, Held.POWER_BRAKE}


@dataclass(frozen=True, slots=True)
class Course:
    """How one device went through the load; None where it does not say.

    Attributes:
        index: of the device.
        early, late: flop/s just after it settled, and in the second half.
        clock_hz, power_w, limit_w: in the second half.
        temperature_c: the highest.
        reasons: why its clock was held down, with the share of the readings.
    """

    index: int
    early: float
    late: float
    clock_hz: float | None
    power_w: float | None
    limit_w: float | None
    temperature_c: float | None
    reasons: Mapping[str, float]

    @property
    def bad_reasons(self) -> dict[str, float]:
        """Those that a healthy device has not."""
        return {
            name: share
            for name, share in self.reasons.items()
            if share > HELD_SHARE and name in _BAD
        }


def course(row: Mapping[str, Any]) -> Course | None:
    """Read an entry of the test; None if it holds too few windows.

    Args:
        row: of one device.
    """
    windows: Sequence[Sequence[float]] = row.get("windows") or ()
    settled = [(at, value) for at, value in windows if at >= SETTLED_S]
    if len(settled) < 4:
        return None
    half = settled[-1][0] / 2
    late = median(value for at, value in settled if at >= half)
    early = median(value for at, value in settled if at <= SETTLED_S + (half - SETTLED_S) / 2)
    readings = [r for r in row.get("readings") or () if r["at_s"] >= SETTLED_S]
    second = [r for r in readings if r["at_s"] >= half]
    return Course(
        int(row["index"]),
        early,
        late,
        _middle(second, "sm_clock_hz"),
        _middle(second, "power_w"),
        _middle(second, "power_limit_w"),
        max((r["temperature_c"] for r in readings if r["temperature_c"] is not None), default=None),
        _reasons(readings),
    )


def _middle(readings: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [float(r[name]) for r in readings if r.get(name) is not None]
    return median(known) if known else None


def _reasons(readings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    known = [r["reasons"] for r in readings if r.get("reasons") is not None]
    seen: dict[str, int] = {}
    for reasons in known:
        for name in reasons:
            seen[name] = seen.get(name, 0) + 1
    return {name: times / len(known) for name, times in seen.items() if times > 1}


@check(
    NAME, "deep", Text("Half a minute of full load: rate, clocks, power, heat, unchanged results")
)
def deep_sustained(machine: Machine) -> Iterable[Finding]:
    """Judge the devices under load."""
    answer, found = ask(machine, NAME, "deep_sustained", TIMEOUT_S)
    yield from found
    if answer is None:
        return
    yield from failures(answer)
    courses: dict[int, Course] = {}
    for row in answer.devices:
        one = course(row)
        if one is not None:
            courses[one.index] = one
        elif "windows" in row:
            why = Text("too few products in the time")
            yield not_tested(NAME, why, answer.known_by, int(row["index"]))
    bad: set[int] = set()
    for finding in (
        *_differed(answer),
        *_held(answer, courses),
        *_slow(answer, courses),
        *_sagging(answer, courses),
    ):
        if finding.severity in ("error", "warning") and finding.device is not None:
            bad.add(finding.device)
        yield finding
    good = {index: one for index, one in courses.items() if index not in bad}
    if good:
        yield _right(answer, good)


def _differed(answer: Answer) -> Iterator[Finding]:
    for row in answer.devices:
        if not row.get("differed"):
            continue
        index, differed, compared = int(row["index"]), int(row["differed"]), int(row["compared"])
        yield Finding(
            NAME,
            "error",
            Text("Results of device {index} change under load", index=index),
            Text(
                "The same product gave another result in {differed} of {compared} comparisons.",
                differed=Count(differed),
                compared=Count(compared),
            ),
            Text("Silent data corruption: no error is raised. Often power, heat or overclocking."),
            Text(
                "Undo overclocking, check cooling and power supply, test again; if it stays, have "
                "the device replaced."
            ),
            (f"nvidia-smi -q -i {index} -d PERFORMANCE,POWER,TEMPERATURE,ECC", "dcgmi diag -r 3"),
            answer.known_by,
            index,
            {"differing_results": differed},
        )


_REASONS = {
    "hardware slowdown": Text("hardware slowdown"),
    "hardware thermal slowdown": Text("hardware thermal slowdown"),
    "software thermal slowdown": Text("software thermal slowdown"),
    "hardware power brake": Text("hardware power brake"),
}


def _held(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    for index, one in courses.items():
        if not one.bad_reasons:
            continue
        heat = any(name in HELD_BY_HEAT for name in one.bad_reasons)
        reasons = joined(
            Text(
                "{reason} ({share} of the time)",
                reason=_REASONS.get(name, verbatim(name)),
                share=Percent(share),
            )
            for name, share in one.bad_reasons.items()
        )
        cool = Text(
            "Check fans, air flow, coolant and inlet temperature, dust and the neighbours' heat."
        )
        power = Text("Check the power supplies and cables and the server's power capping.")
        yield Finding(
            NAME,
            "warning",
            Text("Device {index} slows itself down under load", index=index),
            Text(
                "{reasons}. {late}, {state}",
                reasons=capital(reasons),
                late=Rate(one.late, "FLOP/s"),
                state=_state(one),
            ),
            Text("It protects itself; work takes longer, and all devices wait for it."),
            cool if heat else power,
            (f"nvidia-smi -q -i {index} -d PERFORMANCE,TEMPERATURE,POWER",),
            answer.known_by,
            index,
            {"late_flops_per_s": one.late, "hottest_c": one.temperature_c},
        )


def _state(one: Course) -> Text:
    parts: list[Text] = []
    if one.clock_hz is not None:
        parts.append(Text("clock {clock}", clock=Rate(one.clock_hz, "Hz")))
    if one.power_w is not None:
        power, limit = Number(one.power_w, ".0f"), one.limit_w
        parts.append(
            Text("{power} W", power=power)
            if limit is None
            else Text("{power} W of {limit} W", power=power, limit=Number(limit, ".0f"))
        )
    if one.temperature_c is not None:
        parts.append(verbatim(f"{one.temperature_c:.0f} °C"))
    if not parts:
        return Text("No sensor tells more.")
    return Text("{parts}.", parts=joined(parts))


def _expected(answer: Answer) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is not None and "dtype" in row:
            found[int(row["index"])] = models.sustained(device, row["dtype"], int(row["side"]))
    return found


def _slow(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    rates = {index: one.late for index, one in courses.items()}
    what = Text("products under full load")
    outliers = models.slow_ones(rates, SPREAD)
    for slow in judge(what, "FLOP/s", rates, _expected(answer), outliers):
        one = courses[slow.index]
        if one.bad_reasons:
            continue  # said already, with its cause
        state = _state(one)
        yield slow_finding(
            answer,
            [slow],
            Text(
                "Work that is spread over all devices waits for the slowest. {state}", state=state
            ),
            Text(
                "Compare power limit, clocks and temperature with a healthy device; look for "
                "locked clocks and for other programs."
            ),
            (
                f"nvidia-smi -q -i {slow.index} -d CLOCK,POWER,PERFORMANCE,TEMPERATURE",
                f"sudo nvidia-smi -i {slow.index} --reset-gpu-clocks",
            ),
            {"late_flops_per_s": one.late, "clock_hz": one.clock_hz or 0.0},
        )


def _sagging(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    for index, one in courses.items():
        if one.late >= SAG * one.early or one.bad_reasons:
            continue
        share = Percent(one.late / one.early)
        yield Finding(
            NAME,
            "note",
            Text("Device {index} slows as it warms up", index=index),
            Text(
                "The second half ran at {share} of the first seconds. {state}",
                share=share,
                state=_state(one),
            ),
            Text("Longer work will run at the lower rate."),
            Text("Better cooling gives part of it back."),
            known_by=answer.known_by,
            device=index,
            values={"late_share": one.late / one.early},
        )


def _right(answer: Answer, courses: Mapping[int, Course]) -> Finding:
    rates = {index: one.late for index, one in courses.items()}
    span_of = span(rates.values(), "FLOP/s")
    seconds = Number(float(answer.data.get("load_s") or 0))
    dtype = next((str(row["dtype"]) for row in answer.devices if "dtype" in row), "")
    slowest = min(courses.values(), key=lambda one: one.late)
    hottest = [one.temperature_c for one in courses.values() if one.temperature_c is not None]
    given, _ = with_share(f"{dtype} {span_of}", rates, _expected(answer))
    cap = any(Held.POWER_CAP in one.reasons for one in courses.values())
    who, state = slowest.index, _state(slowest)
    lone = len(courses) == 1
    values: dict[str, float | int | str | bool | None] = {
        "late_flops_per_s": slowest.late,
        "clock_hz": slowest.clock_hz,
        "power_w": slowest.power_w,
        "hottest_temperature_c": max(hottest, default=None),
    }
    return Finding(
        NAME,
        "ok",
        plural(
            "{count} device held the pace for {seconds} s",
            "{count} devices held the pace for {seconds} s",
            len(courses),
            seconds=seconds,
        ),
        sentences(
            Text("{rates}; {state}", rates=given, state=state)
            if lone
            else Text("{rates}; the slowest, {who}: {state}", rates=given, who=who, state=state),
            Text("The power limit sets the clock, as it does under such a load.") if cap else None,
        ),
        known_by=answer.known_by,
        values=values,
    )
