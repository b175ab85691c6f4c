"""Device memory gives back what was written, and no memory errors were counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.deep import Answer, ask, bits, failures, plural
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.numbers import count, size
from gpuscope.explain.types import Words

NAME = "deep_memory"
TIMEOUT_S = 150.0
_PATTERNS = 9
_ROWS = "nvidia-smi -q -i {index} -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"


@check(NAME, "deep", "Patterns written to device memory and read again")
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
    where = size(float(first.get("offset_bytes", 0)))
    pattern, differ = first.get("pattern", "?"), bits(first.get("flipped_bits", "?"))
    return Finding(
        NAME, "error",
        Words(f"Memory of device {index} loses bits", f"设备 {index} 的显存出现比特错误"),
        Words(
            f"{count(wrong)} words of 8 bytes were read differently than written; the first at "
            f"{where} of {size(row['bytes_tested'])}, pattern '{pattern}', {differ.en}.",
            f"有 {count(wrong)} 个 8 字节的字读出与写入不同；第一个在被测 "
            f"{size(row['bytes_tested'])} 中的 {where} 处，模式“{pattern}”，{differ.zh}。",
        ),
        Words("Results are wrong without any error.", "结果会出错，却没有任何报错。"),
        Words(
            "Switch ECC on if it is off; reset the device, so that bad rows are replaced, and test "
            "again. If it stays, have the device replaced.",
            "若 ECC 关闭则开启；重置设备以替换坏行后再测。若仍出错，请更换设备。",
        ),
        (_ROWS.format(index=index), f"sudo nvidia-smi -i {index} --ecc-config=1",
         f"sudo nvidia-smi --gpu-reset -i {index}"),
        answer.known_by, index, {"wrong_words": wrong},
    )  # fmt: skip


def _counted(answer: Answer, row: Mapping[str, Any]) -> Finding | None:
    """Errors that the device's own check bits found during the test."""
    new = row.get("ecc_new") or {}
    beyond, mended = new.get("uncorrected") or 0, new.get("corrected") or 0
    if not beyond and not mended:
        return None
    index = int(row["index"])
    return Finding(
        NAME, "error" if beyond else "note",
        Words(f"Device {index} counted memory errors", f"设备 {index} 记录到显存错误"),
        Words(
            f"During the test: {beyond} that could not be corrected, {mended} corrected.",
            f"测试期间：不可纠正 {beyond} 个，已纠正 {mended} 个。",
        ),
        Words(
            "What cannot be corrected ends programs." if beyond
            else "Corrected errors do no harm; many of them announce worse.",
            "不可纠正的错误会终止程序。" if beyond else "已纠正的错误无害；大量出现则是前兆。",
        ),
        Words(
            "Reset the device, so that bad rows are replaced; if they come back, have it replaced.",
            "重置设备以替换坏行；若再次出现，请更换设备。",
        ) if beyond else None,
        (_ROWS.format(index=index),), answer.known_by, index,
        {"ecc_uncorrected_new": beyond, "ecc_corrected_new": mended},
    )  # fmt: skip


def _right(answer: Answer, rows: list[Mapping[str, Any]]) -> Finding:
    least = min(rows, key=lambda row: int(row["bytes_tested"]))
    tested, patterns = size(float(least["bytes_tested"])), len(least["patterns"])
    some = "" if patterns == _PATTERNS else f", {patterns} of {_PATTERNS} patterns in the time"
    some_zh = "" if patterns == _PATTERNS else f"，限时内完成 {patterns}/{_PATTERNS} 种模式"
    return Finding(
        NAME, "ok",
        Words(
            f"Memory of {plural(len(rows))} gave back what was written",
            f"{len(rows)} 个设备的显存读写一致",
        ),
        Words(f"{tested} on each device{some}.", f"每个设备 {tested}{some_zh}。"),
        known_by=answer.known_by,
        values={"devices_right": len(rows), "tested_patterns": patterns},
    )  # fmt: skip
