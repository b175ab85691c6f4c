"""Bandwidth of device memory and of the link to the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import (
    Answer,
    against,
    ask,
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
from gpuscope.explain.numbers import percent, rate
from gpuscope.explain.types import Words

NAME = "deep_copies"
TIMEOUT_S = 150.0
INSIDE_SPREAD, HOST_SPREAD = 0.06, 0.3
"""By which healthy devices differ: memory hardly at all; the link to the host by the processor
whose memory the process happened to get."""

WAYS = {"h2d_pinned": "h2d", "d2h_pinned": "d2h"}
_WAY_WORDS = {
    "h2d_pinned": Words("copies from the host", "主机到设备拷贝"),
    "d2h_pinned": Words("copies to the host", "设备到主机拷贝"),
}


@check(NAME, "deep", "Bandwidth of device memory and of copies to and from the host")
def deep_copies(machine: Machine) -> Iterable[Finding]:
    """Judge the copies of every device."""
    answer, found = ask(machine, NAME, "deep_copies", TIMEOUT_S)
    yield from found
    if answer is None:
        return
    yield from failures(answer)
    bad: set[int] = set()
    for finding in (*_inside(answer), *_host(answer)):
        if finding.severity == "warning" and finding.device is not None:
            bad.add(finding.device)
        yield finding
    yield from _narrow_link(answer)
    yield from _right(answer, bad)


def _rates(answer: Answer, kind: str) -> dict[int, float]:
    return {
        int(row["index"]): float(row[kind]["bytes_per_s"]) for row in answer.devices if kind in row
    }


def _inside_expected(answer: Answer) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is not None and "inside" in row:
            found[int(row["index"])] = models.copy_inside(device, int(row["inside"]["bytes"]))
    return found


def _inside(answer: Answer) -> Iterator[Finding]:
    rates = _rates(answer, "inside")
    what = Words("copies within device memory", "显存内拷贝")
    outliers = models.slow_ones(rates, INSIDE_SPREAD)
    for slow in judge(what, "B/s", rates, _inside_expected(answer), outliers):
        yield slow_finding(
            answer, [slow],
            Words(
                "Most operators of a network are as slow as the memory.",
                "网络中的大多数算子受限于显存带宽。",
            ),
            Words(
                "Look at the memory clock, ECC errors and remapped rows, and at other programs on "
                "the device.",
                "检查显存频率、ECC 错误与行重映射，以及设备上的其他程序。",
            ),
            (f"nvidia-smi -q -i {slow.index} -d CLOCK,ECC,ROW_REMAPPER,UTILIZATION",),
            {"inside_bytes_per_s": slow.rate},
        )  # fmt: skip


def _host_expected(answer: Answer, kind: str) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is None or kind not in row:
            continue
        found[int(row["index"])] = models.host_copy(
            device, WAYS[kind], int(row[kind]["bytes"]), row.get("pcie_generation"),
            row.get("pcie_width"),
        )  # fmt: skip
    return found


def _host(answer: Answer) -> Iterator[Finding]:
    for kind, what in _WAY_WORDS.items():
        rates = _rates(answer, kind)
        outliers = models.slow_ones(rates, HOST_SPREAD)
        for slow in judge(what, "B/s", rates, _host_expected(answer, kind), outliers):
            yield slow_finding(
                answer, [slow],
                Words(
                    "Data loading, offloading and checkpoints wait for this link.",
                    "数据加载、卸载与检查点都要等这条链路。",
                ),
                Words(
                    "See the check of the PCIe link; run the process on the processor that the "
                    "device is attached to; on bare metal, boot with iommu=pt.",
                    "查看 PCIe 链路检查；让进程运行在与设备相连的处理器上；"
                    "物理机请用 iommu=pt 启动。",
                ),
                ("gpuscope doctor --only topology", "nvidia-smi topo -m",
                 "numactl --cpunodebind=N --membind=N python ..."),
                {f"{kind}_bytes_per_s": slow.rate},
            )  # fmt: skip


def _narrow_link(answer: Answer) -> Iterator[Finding]:
    """Under load the link runs slower than the device could: the board's choice, or a bad seat."""
    for row in answer.devices:
        device = answer.catalogued(row)
        generation, width = row.get("pcie_generation"), row.get("pcie_width")
        if device is None or device.host_link is None:
            continue
        share = models.link_share(device, generation, width)
        if share > 0.95:
            continue
        index = int(row["index"])
        yield Finding(
            NAME, "note",
            Words(
                f"The link of device {index} carries {percent(share)} of what the device could",
                f"设备 {index} 的链路只有其能力的 {percent(share)}",
            ),
            Words(
                f"Under load: PCIe {generation} x{width}; the device has {device.host_link.name}.",
                f"负载下为 PCIe {generation} x{width}；设备支持 {device.host_link.name}。",
            ),
            Words("Copies to and from the host are as much slower.", "与主机的拷贝相应变慢。"),
            Words(
                "If board and slot could do more: reseat the card, check riser and firmware.",
                "若主板与插槽支持更高：重新插卡，检查转接线与固件。",
            ),
            (f"nvidia-smi -q -i {index} -d PCIE",), answer.known_by, index,
            {"pcie_generation": generation, "pcie_width": width},
        )  # fmt: skip


def _right(answer: Answer, bad: set[int]) -> Iterator[Finding]:
    good = [row for row in answer.devices if int(row["index"]) not in bad and "inside" in row]
    if not good:
        return
    indexes = {int(row["index"]) for row in good}
    parts_en, parts_zh = [], []
    values: dict[str, float | int | str | bool | None] = {}
    kinds: Mapping[str, tuple[str, str, Any]] = {
        "inside": ("memory", "显存", lambda: _inside_expected(answer)),
        "h2d_pinned": ("from the host", "主机到设备", lambda: _host_expected(answer, "h2d_pinned")),
        "d2h_pinned": ("to the host", "设备到主机", lambda: _host_expected(answer, "d2h_pinned")),
        "both_pinned": ("both ways at once, each", "双向同时，每个方向", dict),
    }
    for kind, (en, zh, should) in kinds.items():
        rates = {i: r for i, r in _rates(answer, kind).items() if i in indexes}
        if not rates:
            continue
        values[f"{kind}_bytes_per_s"] = min(rates.values())
        share = share_text(rates, should())
        told = span(rates.values(), "B/s") + (f" ({share})" if share else "")
        parts_en.append(f"{en} {told}")
        parts_zh.append(f"{zh} {told}")
    together = [float(r["together_bytes_per_s"]) for r in good if "together_bytes_per_s" in r]
    if together:
        values["together_bytes_per_s"] = sum(together)
        all_en, all_zh = rate(sum(together), "B/s"), rate(sum(together), "B/s")
        parts_en.append(f"from the host to all at once {all_en}")
        parts_zh.append(f"主机到全部设备同时 {all_zh}")
    judged = any("(" in part for part in parts_en)
    end = against(judged)
    fine = Words(" run as they should", "带宽正常") if judged else Words(": measured", "带宽已测")
    yield Finding(
        NAME, "ok",
        Words(
            f"Memory and host link of {plural(len(good))}{fine.en}",
            f"{len(good)} 个设备的显存与主机链路{fine.zh}",
        ),
        Words(", ".join(parts_en) + end.en, "，".join(parts_zh) + end.zh),
        known_by=answer.known_by, values=values,
    )  # fmt: skip
