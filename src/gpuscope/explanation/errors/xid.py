"""Xid lines of NVIDIA's kernel driver: what the number means, and whether it is the hardware."""

from __future__ import annotations

import re

from gpuscope.document.blocks import Column, Fact, Table
from gpuscope.document.text import Text
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Certainty, Diagnosis
from gpuscope.explanation.errors.xid_codes import (
    GRAVITY,
    REMEDIES,
    WHERE,
    XID_LINE,
    XIDS,
    xid_where,
)

_PROCESS = re.compile(r"pid='?(?P<pid>\d+|<unknown>)'?(?:, name=(?P<name>[^,]+))?")


def read_xid(log: Log) -> Diagnosis | None:
    """Read Xid lines; the gravest one is explained, all are listed."""
    found = list(XID_LINE.finditer(log.text))
    fallen = log.search(r"GPU has fallen off the bus")
    if not found and fallen is None:
        return None
    if not found and fallen is not None:
        return _diagnosis(log, 79, "", fallen, [])
    gravest = min(found, key=lambda m: (GRAVITY[xid_where(int(m["code"]))], m.start()))
    return _diagnosis(log, int(gravest["code"]), gravest["rest"] or "", gravest, found)


def _diagnosis(
    log: Log, code: int, rest: str, match: re.Match[str], found: list[re.Match[str]]
) -> Diagnosis:
    known = XIDS.get(code)
    where = xid_where(code)
    certainty: Certainty = "likely" if known and where in ("hardware", "driver") else "possible"
    if known is None:
        cause = Text("Xid {code} is not in the table here; NVIDIA's catalog lists it.", code=code)
    else:
        cause = Text(
            "Xid {code}: {meaning}. Where to look: {where}.",
            code=code,
            meaning=known.meaning,
            where=WHERE[where],
        )
    return Diagnosis(
        "xid",
        Text("The driver reports Xid {code}", code=code),
        cause,
        certainty,
        REMEDIES[where],
        log.line_of(match),
        5 if where == "hardware" else 18,
        _facts(rest, match),
        _table(found),
        ("sudo dmesg -T | grep -i xid", "nvidia-smi -q"),
        ("NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), catalog of Xid events.",),
    )


def _facts(rest: str, match: re.Match[str]) -> tuple[Fact, ...]:
    facts = []
    bus = match.groupdict().get("bus")
    if bus:
        facts.append(Fact(Text("device (PCI)"), bus))
    process = _PROCESS.search(rest)
    if process:
        name = (process["name"] or "").strip()
        facts.append(Fact(Text("process"), f"{process['pid']} {name}".strip()))
    if rest:
        facts.append(Fact(Text("the driver adds"), rest.strip()[:160]))
    return tuple(facts)


def _table(found: list[re.Match[str]]) -> tuple[Table, ...]:
    counted: dict[tuple[int, str], int] = {}
    for match in found:
        key = int(match["code"]), match["bus"]
        counted[key] = counted.get(key, 0) + 1
    if len(counted) < 2:
        return ()
    unknown = Text("see NVIDIA's catalog")
    rows = tuple(
        (
            f"Xid {code}",
            bus,
            count,
            XIDS[code].meaning if code in XIDS else unknown,
            WHERE[xid_where(code)],
        )
        for (code, bus), count in list(counted.items())[:24]
    )
    return (
        Table(
            Text("All Xid lines of this text"),
            (
                Column(Text("code")),
                Column(Text("device")),
                Column(Text("times"), "count"),
                Column(Text("meaning")),
                Column(Text("where to look")),
            ),
            rows,
        ),
    )
