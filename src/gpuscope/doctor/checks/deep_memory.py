"""Device memory gives back what was written, and no memory errors were counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.deep import Answer, ask, bits, failures
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Bytes, Count
from gpuscope.document.text import Text, plural

NAME = "deep_memory"
TIMEOUT_S = 150.0
_PATTERNS = 9
_ROWS = "nvidia-smi -q -i {index} -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"


@check(NAME, "deep", Text("Patterns written to device memory and read again"))
def deep_memory(machine: Machine) -> Iterable[Finding]:
    """Judge the memory of every device."""
    answer, found = ask(machine, NAME, "deep_memory", TIMEOUT_S)
    yield from found
    if answer is None:
        return
    yield from failures(answer)
    good = []
    for row in answer.devices:
        if "wrong_words" not in row:
            continue
        bad = _wrong(answer, row) or _counted(answer, row)
        if bad is not None:
            yield bad
        if bad is None or bad.severity == "note":
            good.append(row)
    if good:
        yield _right(answer, good)


def _wrong(answer: Answer, row: Mapping[str, Any]) -> Finding | None:
    wrong = int(row["wrong_words"])
    if not wrong:
        return None
    index, first = int(row["index"]), row.get("first") or {}
    where = Bytes(float(first.get("offset_bytes", 0)))
    pattern, differ = first.get("pattern", "?"), bits(first.get("flipped_bits", "?"))
    return Finding(
        NAME,
        "error",
        Text("Memory of device {index} loses bits", index=index),
        Text(
            "{wrong} words of 8 bytes were read differently than written; the first at {where} of "
            "{row}, pattern '{pattern}', {differ}.",
            wrong=Count(wrong),
            where=where,
            row=Bytes(row["bytes_tested"]),
            pattern=pattern,
            differ=differ,
        ),
        Text("Results are wrong without any error."),
        Text(
            "Switch ECC on if it is off; reset the device, so that bad rows are replaced, and test "
            "again. If it stays, have the device replaced."
        ),
        (
            _ROWS.format(index=index),
            f"sudo nvidia-smi -i {index} --ecc-config=1",
            f"sudo nvidia-smi --gpu-reset -i {index}",
        ),
        answer.known_by,
        index,
        {"wrong_words": wrong},
    )


def _counted(answer: Answer, row: Mapping[str, Any]) -> Finding | None:
    """Errors that the device's own check bits found during the test."""
    new = row.get("ecc_new") or {}
    beyond, mended = new.get("uncorrected") or 0, new.get("corrected") or 0
    if not beyond and not mended:
        return None
    index = int(row["index"])
    return Finding(
        NAME,
        "error" if beyond else "note",
        Text("Device {index} counted memory errors", index=index),
        Text(
            "During the test: {beyond} that could not be corrected, {mended} corrected.",
            beyond=beyond,
            mended=mended,
        ),
        (
            Text("What cannot be corrected ends programs.")
            if beyond
            else Text("Corrected errors do no harm; many of them announce worse.")
        ),
        Text(
            "Reset the device, so that bad rows are replaced; if they come back, have it replaced."
        )
        if beyond
        else None,
        (_ROWS.format(index=index),),
        answer.known_by,
        index,
        {"ecc_uncorrected_new": beyond, "ecc_corrected_new": mended},
    )


def _right(answer: Answer, rows: list[Mapping[str, Any]]) -> Finding:
    least = min(rows, key=lambda row: int(row["bytes_tested"]))
    tested, patterns = Bytes(float(least["bytes_tested"])), len(least["patterns"])
    return Finding(
        NAME,
        "ok",
        plural(
            "Memory of {count} device gave back what was written",
            "Memory of {count} devices gave back what was written",
            len(rows),
        ),
        Text("{tested} on each device.", tested=tested)
        if patterns == _PATTERNS
        else Text(
            "{tested} on each device, {patterns} of {all} patterns in the time.",
            tested=tested,
            patterns=patterns,
            all=_PATTERNS,
        ),
        known_by=answer.known_by,
        values={"devices_right": len(rows), "tested_patterns": patterns},
    )
