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
    capital,
    failures,
    judge,
    not_tested,
    plural,
    share_text,
    slow_finding,
    span,
)
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.numbers import count, percent, rate, three
from gpuscope.explain.types import Words

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

_BAD = ("thermal", "hardware slowdown", "power brake")


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
            if share > HELD_SHARE and any(word in name for word in _BAD)
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
        int(row["index"]), early, late, _middle(second, "sm_clock_hz"), _middle(second, "power_w"),
        _middle(second, "power_limit_w"),
        max((r["temperature_c"] for r in readings if r["temperature_c"] is not None), default=None),
        _reasons(readings),
    )  # fmt: skip


def _middle(readings: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [float(r[name]) for r in readings if r.get(name) is not None]
    return median(known) if known else None


def _reasons(readings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    told = [r["reasons"] for r in readings if r.get("reasons") is not None]
    seen: dict[str, int] = {}
    for reasons in told:
        for name in reasons:
            seen[name] = seen.get(name, 0) + 1
    return {name: times / len(told) for name, times in seen.items() if times > 1}


@check(NAME, "deep", "Half a minute of full load: rate, clocks, power, heat, unchanged results")
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
            yield not_tested(
                NAME, "too few products in the time", answer.known_by, int(row["index"])
            )
    bad: set[int] = set()
    for finding in (*_differed(answer), *_held(answer, courses), *_slow(answer, courses),
                    *_sagging(answer, courses)):  # fmt: skip
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
            NAME, "error",
            Words(f"Results of device {index} change under load",
                  f"设备 {index} 在负载下结果发生变化"),
            Words(
                f"The same product gave another result in {count(differed)} of {count(compared)} "
                "comparisons.",
                f"同一矩阵乘在 {count(compared)} 次比较中有 {count(differed)} 次结果不同。",
            ),
            Words(
                "Silent data corruption: no error is raised. Often power, heat or overclocking.",
                "静默数据损坏：没有任何报错。常见原因是供电、过热或超频。",
            ),
            Words(
                "Undo overclocking, check cooling and power supply, test again; if it stays, have "
                "the device replaced.",
                "取消超频，检查散热与供电后再测；若仍出现，请更换设备。",
            ),
            (f"nvidia-smi -q -i {index} -d PERFORMANCE,POWER,TEMPERATURE,ECC", "dcgmi diag -r 3"),
            answer.known_by, index, {"differing_results": differed},
        )  # fmt: skip


_REASONS_ZH = {
    "hardware slowdown": "硬件降频", "hardware thermal slowdown": "硬件过热降频",
    "software thermal slowdown": "软件过热降频",
    "hardware power brake": "硬件功率刹车（power brake）",
}  # fmt: skip


def _held(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    for index, one in courses.items():
        if not one.bad_reasons:
            continue
        heat = any("thermal" in name for name in one.bad_reasons)
        shares = {name: percent(share) for name, share in one.bad_reasons.items()}
        en = ", ".join(f"{name} ({share} of the time)" for name, share in shares.items())
        zh = "、".join(f"{_REASONS_ZH.get(n, n)}（{share} 的时间）" for n, share in shares.items())
        cool = Words(
            "Check fans, air flow, coolant and inlet temperature, dust and the neighbours' heat.",
            "检查风扇、风道、冷却液与进风温度、灰尘以及邻近设备的热量。",
        )
        power = Words(
            "Check the power supplies and cables and the server's power capping.",
            "检查电源、供电线缆以及服务器的功耗封顶设置。",
        )
        yield Finding(
            NAME, "warning",
            Words(f"Device {index} slows itself down under load", f"设备 {index} 在负载下自行降频"),
            Words(
                f"{capital(en)}. {rate(one.late, 'FLOP/s')}, {_state(one).en}",
                f"{zh}。{rate(one.late, 'FLOP/s')}，{_state(one).zh}",
            ),
            Words(
                "It protects itself; work takes longer, and all devices wait for it.",
                "这是自我保护；任务变慢，其他设备也要等它。",
            ),
            cool if heat else power,
            (f"nvidia-smi -q -i {index} -d PERFORMANCE,TEMPERATURE,POWER",), answer.known_by, index,
            {"late_flops_per_s": one.late, "hottest_c": one.temperature_c},
        )  # fmt: skip


def _state(one: Course) -> Words:
    parts: list[tuple[str, str]] = []
    if one.clock_hz is not None:
        parts.append((f"clock {rate(one.clock_hz, 'Hz')}", f"频率 {rate(one.clock_hz, 'Hz')}"))
    if one.power_w is not None:
        limit = "" if one.limit_w is None else f" of {one.limit_w:.0f} W"
        limit_zh = "" if one.limit_w is None else f"（上限 {one.limit_w:.0f} W）"
        parts.append((f"{one.power_w:.0f} W{limit}", f"功耗 {one.power_w:.0f} W{limit_zh}"))
    if one.temperature_c is not None:
        parts.append((f"{one.temperature_c:.0f} °C", f"{one.temperature_c:.0f} °C"))
    if not parts:
        return Words("No sensor tells more.", "没有传感器提供更多信息。")
    return Words(", ".join(en for en, _ in parts) + ".", "，".join(zh for _, zh in parts) + "。")


def _expected(answer: Answer) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is not None and "dtype" in row:
            found[int(row["index"])] = models.sustained(device, row["dtype"], int(row["side"]))
    return found


def _slow(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    rates = {index: one.late for index, one in courses.items()}
    what = Words("products under full load", "满载矩阵乘")
    outliers = models.slow_ones(rates, SPREAD)
    for slow in judge(what, "FLOP/s", rates, _expected(answer), outliers):
        one = courses[slow.index]
        if one.bad_reasons:
            continue  # said already, with its cause
        state = _state(one)
        yield slow_finding(
            answer, [slow],
            Words(
                f"Work that is spread over all devices waits for the slowest. {state.en}",
                f"分布在所有设备上的任务要等最慢的那个。{state.zh}",
            ),
            Words(
                "Compare power limit, clocks and temperature with a healthy device; look for "
                "locked clocks and for other programs.",
                "与正常设备比较功耗上限、频率和温度；检查是否锁频、是否有其他程序。",
            ),
            (f"nvidia-smi -q -i {slow.index} -d CLOCK,POWER,PERFORMANCE,TEMPERATURE",
             f"sudo nvidia-smi -i {slow.index} --reset-gpu-clocks"),
            {"late_flops_per_s": one.late, "clock_hz": one.clock_hz or 0.0},
        )  # fmt: skip


def _sagging(answer: Answer, courses: Mapping[int, Course]) -> Iterator[Finding]:
    for index, one in courses.items():
        if one.late >= SAG * one.early or one.bad_reasons:
            continue
        share = percent(one.late / one.early)
        yield Finding(
            NAME, "note",
            Words(f"Device {index} slows as it warms up", f"设备 {index} 升温后变慢"),
            Words(
                f"The second half ran at {share} of the first seconds. {_state(one).en}",
                f"后半段速率为最初几秒的 {share}。{_state(one).zh}",
            ),
            Words("Longer work will run at the lower rate.", "更长的任务将以较低速率运行。"),
            Words("Better cooling gives part of it back.", "改善散热可部分恢复。"),
            known_by=answer.known_by, device=index, values={"late_share": one.late / one.early},
        )  # fmt: skip


def _right(answer: Answer, courses: Mapping[int, Course]) -> Finding:
    rates = {index: one.late for index, one in courses.items()}
    share = share_text(rates, _expected(answer))
    seconds = three(float(answer.data.get("load_s") or 0))
    dtype = next((str(row["dtype"]) for row in answer.devices if "dtype" in row), "")
    slowest = min(courses.values(), key=lambda one: one.late)
    hottest = [one.temperature_c for one in courses.values() if one.temperature_c is not None]
    told = f"{dtype} {span(rates.values(), 'FLOP/s')}" + (f" ({share})" if share else "")
    cap = any("power cap" in name for one in courses.values() for name in one.reasons)
    who, state = slowest.index, _state(slowest)
    lone = len(courses) == 1
    values: dict[str, float | int | str | bool | None] = {
        "late_flops_per_s": slowest.late, "clock_hz": slowest.clock_hz,
        "power_w": slowest.power_w, "hottest_temperature_c": max(hottest, default=None),
    }  # fmt: skip
    return Finding(
        NAME, "ok",
        Words(
            f"{plural(len(courses))} held the pace for {seconds} s",
            f"{len(courses)} 个设备满载 {seconds} 秒保持稳定",
        ),
        Words(
            f"{told}; {'' if lone else f'the slowest, {who}: '}{state.en}"
            + (" The power limit sets the clock, as it does under such a load." if cap else ""),
            f"{told}；{'' if lone else f'最慢的设备 {who}：'}{state.zh}"
            + ("频率由功耗上限决定，满载时属正常。" if cap else ""),
        ),
        known_by=answer.known_by, values=values,
    )  # fmt: skip
