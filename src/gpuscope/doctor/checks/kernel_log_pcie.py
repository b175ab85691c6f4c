"""PCIe errors that the kernel logged (AER, advanced error reporting).

Source: Linux kernel, Documentation/PCI/pcieaer-howto: "corrected" errors were repaired by sending
again, "uncorrected" ones lost data; "fatal" ones took the link down.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from gpuscope.doctor.kernel_log import kernel_log
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.presence import has_accelerator
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Topology
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BUS = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE)
_GRAVE = re.compile(r"severity=(?:uncorrect|fatal)|uncorrect\w* \(|uncorrectable|link down", re.I)
_CORRECTED = re.compile(r"severity=correct|corrected error", re.IGNORECASE)


@check("kernel_log_pcie", "health", "PCIe errors in the kernel log (AER)")
def kernel_log_pcie(machine: Machine) -> Iterable[Finding]:
    """Sort the lines by how grave they are and by where they happened."""
    log = kernel_log(machine)
    lines = log.matching(r"AER:|PCIe Bus Error|pcieport.*link down")
    grave = [line for line in lines if _GRAVE.search(line)]
    mild = [line for line in lines if line not in grave and _CORRECTED.search(line)]
    if not grave and not mild:
        if log.source is not None and has_accelerator(machine):
            yield Finding(
                "kernel_log_pcie", "ok",
                Words("No PCIe error in the kernel log.", "内核日志中没有 PCIe 错误。"),
                Words(f"None, read by {log.source}.", f"没有，读取自 {log.source}。"),
                known_by=str(log.source), values={"pcie_error_lines": 0},
            )  # fmt: skip
        return
    yield _finding(topology(machine), grave or mild, bool(grave), str(log.source))


def _finding(found: Topology, lines: list[str], grave: bool, source: str) -> Finding:
    places = Counter(m[1].lower() for line in lines for m in _BUS.finditer(line))
    hit = sorted(
        a.index for a in found.accelerators if any(bus in (*a.path, a.bus) for bus in places)
    )
    told = ", ".join(f"{bus} {n}x" for bus, n in places.most_common(4)) or "?"
    above_en = f" On the way to GPU {', '.join(map(str, hit))}." if hit else ""
    above_zh = f"位于 GPU {', '.join(map(str, hit))} 的路径上。" if hit else ""
    return Finding(
        "kernel_log_pcie", ("error" if hit else "warning") if grave else "note",
        Words("PCIe links lost data.", "PCIe 链路丢失了数据。")
        if grave
        else Words("PCIe links repaired errors.", "PCIe 链路纠正过错误。"),
        Words(
            f"{len(lines)} lines: {told}.{above_en} Last: {lines[-1][:160]}",
            f"共 {len(lines)} 行：{told}。{above_zh}最后一条：{lines[-1][:160]}",
        ),
        Words(
            "An uncorrected error can stop a device or fall off the bus.",
            "不可纠正的错误可能使设备停止工作或从总线脱落。",
        )
        if grave
        else Words(
            "A few are harmless; many cost bandwidth and announce a bad contact.",
            "少量无害；大量会损失带宽，并预示接触不良。",
        ),
        Words(
            "Seat the card again, change riser or slot, update the firmware.",
            "重新插好板卡，更换转接卡或插槽，更新固件。",
        ),
        ("sudo dmesg -T | grep -iE 'aer|pcie bus error'",), f"kernel log ({source})",
        hit[0] if len(hit) == 1 else None, {"pcie_error_lines": len(lines), "uncorrected": grave},
    )  # fmt: skip
