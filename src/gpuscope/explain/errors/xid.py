"""Xid lines of NVIDIA's kernel driver: what the number means, and whether it is the hardware."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.errors.xid_codes import (
    GRAVITY,
    REMEDIES,
    WHERE,
    XID_LINE,
    XIDS,
    xid_where,
)
from gpuscope.explain.types import Column, Fact, Table, Words

_PROCESS = re.compile(r"pid='?(?P<pid>\d+|<unknown>)'?(?:, name=(?P<name>[^,]+))?")


@error_reader
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
        cause = Words(
            f"Xid {code} is not in the table here; NVIDIA's catalog lists it.",
            f"此处没有 Xid {code} 的说明；请查阅 NVIDIA 的目录。",
        )
    else:
        cause = Words(
            f"Xid {code}: {known.meaning.en}. Where to look: {WHERE[where].en}.",
            f"Xid {code}：{known.meaning.zh}。排查方向：{WHERE[where].zh}。",
        )
    return Diagnosis(
        "xid",
        Words(f"The driver reports Xid {code}", f"驱动报告 Xid {code}"),
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
        facts.append(Fact(Words("device (PCI)", "设备（PCI）"), bus))
    process = _PROCESS.search(rest)
    if process:
        name = (process["name"] or "").strip()
        facts.append(Fact(Words("process", "进程"), f"{process['pid']} {name}".strip()))
    if rest:
        facts.append(Fact(Words("the driver adds", "驱动的补充"), rest.strip()[:160]))
    return tuple(facts)


def _table(found: list[re.Match[str]]) -> tuple[Table, ...]:
    counted: dict[tuple[int, str], int] = {}
    for match in found:
        key = int(match["code"]), match["bus"]
        counted[key] = counted.get(key, 0) + 1
    if len(counted) < 2:
        return ()
    unknown = Words("see NVIDIA's catalog", "见 NVIDIA 目录")
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
            Words("All Xid lines of this text", "文本中的全部 Xid"),
            (
                Column(Words("code", "编号")),
                Column(Words("device", "设备")),
                Column(Words("times", "次数"), "count"),
                Column(Words("meaning", "含义")),
                Column(Words("where to look", "排查方向")),
            ),
            rows,
        ),
    )
