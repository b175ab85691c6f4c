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
from gpuscope.document.text import Text, plural, sentences

_BUS = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE)
_GRAVE = re.compile(r"severity=(?:uncorrect|fatal)|uncorrect\w* \(|uncorrectable|link down", re.I)
_CORRECTED = re.compile(r"severity=correct|corrected error", re.IGNORECASE)


@check("kernel_log_pcie", "health", Text("PCIe errors in the kernel log (AER)"))
def kernel_log_pcie(machine: Machine) -> Iterable[Finding]:
    """Sort the lines by how grave they are and by where they happened."""
    log = kernel_log(machine)
    lines = log.matching(r"AER:|PCIe Bus Error|pcieport.*link down")
    grave = [line for line in lines if _GRAVE.search(line)]
    mild = [line for line in lines if line not in grave and _CORRECTED.search(line)]
    if not grave and not mild:
        if log.source is not None and has_accelerator(machine):
            yield Finding(
                "kernel_log_pcie",
                "ok",
                Text("No PCIe error in the kernel log."),
                Text("None, read by {source}.", source=log.source),
                known_by=str(log.source),
                values={"pcie_error_lines": 0},
            )
        return
    yield _finding(topology(machine), grave or mild, bool(grave), str(log.source))


def _finding(found: Topology, lines: list[str], grave: bool, source: str) -> Finding:
    places = Counter(m[1].lower() for line in lines for m in _BUS.finditer(line))
    hit = sorted(
        a.index for a in found.accelerators if any(bus in (*a.path, a.bus) for bus in places)
    )
    evidence = ", ".join(f"{bus} {n}x" for bus, n in places.most_common(4)) or "?"
    places_told = plural(
        "{count} line: {told}.", "{count} lines: {told}.", len(lines), told=evidence
    )
    way = Text("On the way to GPU {indices}.", indices=", ".join(map(str, hit))) if hit else None
    return Finding(
        "kernel_log_pcie",
        ("error" if hit else "warning") if grave else "note",
        Text("PCIe links lost data.") if grave else Text("PCIe links repaired errors."),
        sentences(places_told, way, Text("Last: {line}", line=lines[-1][:160])),
        Text("An uncorrected error can stop a device or fall off the bus.")
        if grave
        else Text("A few are harmless; many cost bandwidth and announce a bad contact."),
        Text("Seat the card again, change riser or slot, update the firmware."),
        ("sudo dmesg -T | grep -iE 'aer|pcie bus error'",),
        f"kernel log ({source})",
        hit[0] if len(hit) == 1 else None,
        {"pcie_error_lines": len(lines), "uncorrected": grave},
    )
