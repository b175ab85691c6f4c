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
    slow_finding,
    span,
    with_share,
)
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Count
from gpuscope.document.text import Text, joined, plural, sentences

NAME = "deep_products"
TIMEOUT_S = 180.0
SPREAD = 0.12
"""Healthy devices of one kind differ by some 8 % under their power limit, single ones by more
(Sinha et al., "Not All GPUs Are Created Equal", SC 2022)."""

ROUNDING = 2.0**-6
"""Deviations up to this may come from sums that were rounded to 8 bits on the way."""

_FOR_LONG = Text("holds for long")
"""What short products are held against: they may well be faster than that."""

_COLUMNS = ("fp8", "int8")


@check(NAME, "deep", Text("Right results and rate of matrix products, in each precision"))
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
            NAME,
            "note",
            Text("Sums are rounded on the way: {names}", names=names),
            Text(
                "Products of whole numbers deviate by less than 2 %, the same on every device and "
                "every time."
            ),
            Text("It is the library's way of adding, no fault."),
            known_by=answer.known_by,
        )


_WHERE = ("wrong_results", "repeats", "row", "column", "got", "expected")


def _corrupt(answer: Answer, index: int, rows: Mapping[str, Mapping[str, Any]]) -> Finding:
    precision, row = max(rows.items(), key=lambda item: item[1]["wrong"])
    again = row["same_each_time"] and row["wrong_results"] == row["repeats"]
    found = Text(
        "{wrong} of {elements} elements are wrong in {precision}, in {wrong_results} of {repeats} "
        "products; the first at row {row}, column {column}: {got} instead of {expected} "
        "({bits}).",
        wrong=Count(row["wrong"]),
        elements=Count(row["elements"]),
        precision=precision,
        bits=bits(row["flipped_bits"]),
        **{key: str(row[key]) for key in _WHERE},
    )
    if len(rows) > 1:
        found = Text("{precisions}: {found}", precisions=", ".join(rows), found=found)
    return Finding(
        NAME,
        "error",
        Text("Device {index} computes wrong results", index=index),
        found,
        sentences(
            Text(
                "Silent data corruption: training diverges or answers are wrong, and no error is "
                "raised."
            ),
            Text("It repeats exactly: a part that is stuck.") if again else None,
        ),
        Text(
            "Take the device out of service and have it replaced; first undo any overclocking, and "
            "test again with the vendor's diagnosis."
        ),
        ("dcgmi diag -r 3", f"nvidia-smi -q -i {index} -d ECC,PAGE_RETIREMENT,ROW_REMAPPER"),
        answer.known_by,
        index,
        {f"{name}_wrong_elements": int(each["wrong"]) for name, each in rows.items()},
    )


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
    slow: dict[int, dict[str, Slow]] = {}
    for precision in _precisions(answer):
        rates = _rates(answer, precision)
        if not rates:
            continue
        side = int(next(iter(_of(answer, precision).values()))["side"])
        what = Text("{precision} products", precision=precision)
        should = _expected(answer, precision, side)
        outliers = models.slow_ones(rates, SPREAD)
        for each in judge(what, "FLOP/s", rates, should, outliers):
            slow.setdefault(each.index, {})[precision] = each
    for index, several in slow.items():
        values = {f"{precision}_flops_per_s": each.rate for precision, each in several.items()}
        yield slow_finding(
            answer,
            [*several.values()],
            Text("Work that is spread over all devices waits for the slowest."),
            Text(
                "Look at its power limit, clocks, throttle reasons and temperature, and whether "
                "another program uses it; compare the sustained test."
            ),
            (
                f"nvidia-smi -q -i {index} -d CLOCK,POWER,PERFORMANCE,TEMPERATURE",
                "gpuscope doctor --deep --only deep_sustained",
            ),
            values,
        )


def _right(answer: Answer, bad: set[int]) -> Iterator[Finding]:
    good = [int(row["index"]) for row in answer.devices if int(row["index"]) not in bad]
    done = [name for name in _precisions(answer) if _rates(answer, name)]
    if not good or not done:
        return
    values: dict[str, float | int | str | bool | None] = {"devices_right": len(good)}
    lines, judged = [], False
    for name in done:
        rates = {i: r for i, r in _rates(answer, name).items() if i in good}
        if not rates:
            continue
        values[f"{name}_flops_per_s"] = min(rates.values())
        side = int(next(iter(_of(answer, name).values()))["side"])
        evidence = f"{name} {span(rates.values(), 'FLOP/s')}"
        line, shared = with_share(evidence, rates, _expected(answer, name, side))
        lines.append(line)
        judged = judged or shared
    yield Finding(
        NAME,
        "ok",
        plural(
            "{count} device computed every product exactly right in {precisions}",
            "{count} devices computed every product exactly right in {precisions}",
            len(good),
            precisions=plural("{count} precision", "{count} precisions", len(done)),
        ),
        Text("{parts}{end}", parts=joined(lines), end=against(judged, _FOR_LONG)),
        known_by=answer.known_by,
        values=values,
    )


def _host_wrong(answer: Answer) -> Finding:
    return Finding(
        NAME,
        "error",
        Text("The host computes wrong results"),
        Text("A product of whole numbers on the processor fails an independent check."),
        Text("Nothing that this machine computes can be trusted."),
        Text("Test its memory and processor; undo overclocking."),
        ("gpuscope doctor --deep --only deep_host",),
        answer.known_by,
    )
