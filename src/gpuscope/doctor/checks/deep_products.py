"""Matrix products on each device: exactly right in every precision, and as fast as they should be.

A wrong element is an error: the device computes wrong results without saying so. One thing looks
like it and is none: a library may round a sum on the way, then the deviations are tiny, the same
every time and the same on every device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import (
    Answer,
    Slow,
    against,
    ask,
    bits,
    failures,
    judge,
    plural,
    share_text,
    slow_finding,
    span,
)
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.numbers import count
from gpuscope.explain.types import Words

NAME = "deep_products"
TIMEOUT_S = 180.0
SPREAD = 0.12
"""Healthy devices of one kind differ by some 8 % under their power limit, single ones by more
(Sinha et al., "Not All GPUs Are Created Equal", SC 2022)."""

ROUNDING = 2.0**-6
"""Deviations up to this may come from sums that were rounded to 8 bits on the way."""

_FOR_LONG = Words("holds for long", "长时间可保持的速率")
"""What short products are held against: they may well be faster than that."""

_COLUMNS = ("fp8", "int8")


@check(NAME, "deep", "Right results and rate of matrix products, in each precision")
def deep_products(machine: Machine) -> Iterable[Finding]:
    """Judge the products of every device."""
    answer, found = ask(machine, NAME, "deep_products", TIMEOUT_S)
    yield from found
    if answer is None:
        return
    if answer.data.get("host_wrong"):
        yield _host_wrong(answer)
        return
    yield from failures(answer)
    if not answer.devices:
        return
    bad: set[int] = {int(row["index"]) for row in answer.failed}
    for finding in (*_wrong(answer), *_slow(answer)):
        if finding.severity != "note" and finding.device is not None:
            bad.add(finding.device)
        yield finding
    yield from _right(answer, bad)


def _of(answer: Answer, precision: str) -> dict[int, Mapping[str, Any]]:
    """What each device did in one precision."""
    found = {}
    for row in answer.devices:
        one = row.get("products", {}).get(precision)
        if one and "wrong" in one:
            found[int(row["index"])] = one
    return found


def _precisions(answer: Answer) -> tuple[str, ...]:
    names = [name for row in answer.devices for name in row.get("products", {})]
    return tuple(dict.fromkeys(names))


def is_rounding(rows: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether deviations in one precision are the library's rounding: tiny, repeated exactly, and
    alike on every device.

    Args:
        rows: what each device did.
    """
    alike = {(row["wrong"] / row["repeats"], row.get("largest_deviation")) for row in rows.values()}
    steady = all(
        row["same_each_time"] and row.get("largest_deviation", 1.0) <= ROUNDING
        for row in rows.values()
    )
    many = all(row["wrong"] > 1e-4 * row["elements"] for row in rows.values())
    return steady and many and len(alike) == 1


def _wrong(answer: Answer) -> Iterator[Finding]:
    rounded = []
    worst: dict[int, dict[str, Mapping[str, Any]]] = {}
    for precision in _precisions(answer):
        rows = _of(answer, precision)
        if not any(row["wrong"] for row in rows.values()):
            continue
        if is_rounding(rows):
            rounded.append(precision)
            continue
        for index, row in rows.items():
            if row["wrong"]:
                worst.setdefault(index, {})[precision] = row
    for index, rows_of_device in worst.items():
        yield _corrupt(answer, index, rows_of_device)
    if rounded:
        names = ", ".join(rounded)
        yield Finding(
            NAME, "note",
            Words(f"Sums are rounded on the way: {names}", f"求和途中有舍入：{names}"),
            Words(
                "Products of whole numbers deviate by less than 2 %, the same on every device and "
                "every time.",
                "整数乘积有不到 2 % 的偏差，每个设备、每次都相同。",
            ),
            Words("It is the library's way of adding, no fault.", "这是库的求和方式，并非故障。"),
            known_by=answer.known_by,
        )  # fmt: skip


def _corrupt(answer: Answer, index: int, rows: Mapping[str, Mapping[str, Any]]) -> Finding:
    precision, row = max(rows.items(), key=lambda item: item[1]["wrong"])
    names = ", ".join(rows)
    also, also_zh = (f"{names}: ", f"{names}：") if len(rows) > 1 else ("", "")
    differ = bits(row["flipped_bits"])
    again = row["same_each_time"] and row["wrong_results"] == row["repeats"]
    en = (
        f"{also}{count(row['wrong'])} of {count(row['elements'])} elements are wrong in "
        f"{precision}, in {row['wrong_results']} of {row['repeats']} products; the first at row "
        f"{row['row']}, column {row['column']}: {row['got']} instead of {row['expected']} "
        f"({differ.en})."
    )
    zh = (
        f"{also_zh}{precision} 的 {count(row['elements'])} 个元素中有 {count(row['wrong'])} 个"
        f"错误，出现在 {row['repeats']} 次乘法中的 {row['wrong_results']} 次；"
        f"第一个在第 {row['row']} 行第 {row['column']} 列：得到 {row['got']}，"
        f"应为 {row['expected']}（{differ.zh}）。"
    )
    return Finding(
        NAME, "error",
        Words(f"Device {index} computes wrong results", f"设备 {index} 的计算结果错误"),
        Words(en, zh),
        Words(
            "Silent data corruption: training diverges or answers are wrong, and no error is "
            "raised." + (" It repeats exactly: a part that is stuck." if again else ""),
            "静默数据损坏：训练发散或结果错误，却没有任何报错。"
            + ("每次完全相同：有部件固定失效。" if again else ""),
        ),
        Words(
            "Take the device out of service and have it replaced; first undo any overclocking, and "
            "test again with the vendor's diagnosis.",
            "停用并更换该设备；先取消超频，再用厂商的诊断工具复测。",
        ),
        ("dcgmi diag -r 3", f"nvidia-smi -q -i {index} -d ECC,PAGE_RETIREMENT,ROW_REMAPPER"),
        answer.known_by, index,
        {f"{name}_wrong_elements": int(each["wrong"]) for name, each in rows.items()},
    )  # fmt: skip


def _expected(answer: Answer, precision: str, side: int) -> dict[int, models.Expected | None]:
    layout = "nt" if precision in _COLUMNS else "nn"
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        found[int(row["index"])] = (
            None if device is None else models.product(device, precision, side, layout)
        )
    return found


def _rates(answer: Answer, precision: str) -> dict[int, float]:
    return {i: float(r["flops_per_s"]) for i, r in _of(answer, precision).items()}


def _slow(answer: Answer) -> Iterator[Finding]:
    slow: dict[int, list[Slow]] = {}
    for precision in _precisions(answer):
        rates = _rates(answer, precision)
        if not rates:
            continue
        side = int(next(iter(_of(answer, precision).values()))["side"])
        what = Words(f"{precision} products", f"{precision} 矩阵乘")
        should = _expected(answer, precision, side)
        outliers = models.slow_ones(rates, SPREAD)
        for each in judge(what, "FLOP/s", rates, should, outliers):
            slow.setdefault(each.index, []).append(each)
    for index, several in slow.items():
        values = {f"{s.what.en.partition(' ')[0]}_flops_per_s": s.rate for s in several}
        yield slow_finding(
            answer, several,
            Words(
                "Work that is spread over all devices waits for the slowest.",
                "分布在所有设备上的任务要等最慢的那个。",
            ),
            Words(
                "Look at its power limit, clocks, throttle reasons and temperature, and whether "
                "another program uses it; compare the sustained test.",
                "检查功耗上限、频率、降频原因和温度，以及是否有其他程序占用；对照持续负载测试。",
            ),
            (f"nvidia-smi -q -i {index} -d CLOCK,POWER,PERFORMANCE,TEMPERATURE",
             "gpuscope doctor --deep --only deep_sustained"),
            values,
        )  # fmt: skip


def _right(answer: Answer, bad: set[int]) -> Iterator[Finding]:
    good = [int(row["index"]) for row in answer.devices if int(row["index"]) not in bad]
    done = [name for name in _precisions(answer) if _rates(answer, name)]
    if not good or not done:
        return
    values: dict[str, float | int | str | bool | None] = {"devices_right": len(good)}
    lines = []
    for name in done:
        rates = {i: r for i, r in _rates(answer, name).items() if i in good}
        if not rates:
            continue
        values[f"{name}_flops_per_s"] = min(rates.values())
        side = int(next(iter(_of(answer, name).values()))["side"])
        share = share_text(rates, _expected(answer, name, side))
        lines.append(f"{name} {span(rates.values(), 'FLOP/s')}" + (f" ({share})" if share else ""))
    text, end = ", ".join(lines), against(any("(" in line for line in lines), _FOR_LONG)
    yield Finding(
        NAME, "ok",
        Words(
            f"{plural(len(good))} computed every product exactly right"
            f" in {plural(len(done), 'precision')}",
            f"{len(good)} 个设备在 {len(done)} 种精度下的矩阵乘全部精确正确",
        ),
        Words(f"{text}{end.en}", f"{text}{end.zh}"),
        known_by=answer.known_by, values=values,
    )  # fmt: skip


def _host_wrong(answer: Answer) -> Finding:
    return Finding(
        NAME, "error", Words("The host computes wrong results", "主机的计算结果错误"),
        Words(
            "A product of whole numbers on the processor fails an independent check.",
            "处理器上的整数矩阵乘未通过独立校验。",
        ),
        Words("Nothing that this machine computes can be trusted.", "这台机器的任何结果都不可信。"),
        Words("Test its memory and processor; undo overclocking.", "检测内存与处理器；取消超频。"),
        ("gpuscope doctor --deep --only deep_host",), answer.known_by,
    )  # fmt: skip
