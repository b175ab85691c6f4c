"""Infinity Fabric between AMD devices: pairs that lack the link which the others have.

Source: AMD, Instinct platforms (MI250, MI300): the devices of a board are joined all to all.
Written to the kernel's files and tested on made-up ones: not seen on a device yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BY = "/sys/class/kfd/kfd/topology"


@check("infinity_fabric", "topology", Text("Infinity Fabric between AMD devices"))
def infinity_fabric(machine: Machine) -> Iterable[Finding]:
    """Say nothing where no pair has it: cards in slots are joined by PCIe."""
    found = topology(machine)
    devices = {a.index for a in found.accelerators if a.vendor == "amd" and not a.integrated}
    if not devices or any(a.vendor == "nvidia" for a in found.accelerators):
        return
    joined = [p for p in found.pairs if p.way == "XGMI"]
    lacking = [p for p in found.pairs if p.way != "XGMI"]
    if not joined:
        return
    values: dict[str, float | int | str | bool | None] = {
        "joined_pairs": len(joined),
        "pairs": len(found.pairs),
    }
    if lacking:
        some = ", ".join(f"{p.a}-{p.b}" for p in lacking[:6]) + (" ..." if len(lacking) > 6 else "")
        yield Finding(
            "infinity_fabric",
            "warning",
            Text("Some pairs of devices have no Infinity Fabric."),
            Text(
                "{lacking} of {pairs} pairs: {some}.",
                lacking=len(lacking),
                pairs=len(found.pairs),
                some=some,
            ),
            Text("Traffic between them takes PCIe; collectives of all devices go at its pace."),
            Text("If they are of one board, look at links that are down."),
            ("amd-smi topology", "amd-smi xgmi"),
            _BY,
            None,
            values,
        )
        return
    yield Finding(
        "infinity_fabric",
        "ok",
        Text("Infinity Fabric joins the devices."),
        Text("All {joined} pairs.", joined=len(joined)),
        known_by=_BY,
        values=values,
    )
