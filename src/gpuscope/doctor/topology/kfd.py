"""Links between AMD devices as the compute driver (KFD) lists them.

Files: Linux kernel, drivers/gpu/drm/amd/amdkfd: /sys/class/kfd/kfd/topology/nodes/<n>/properties
("location_id": bus, device and function; "domain") and .../io_links/<m>/properties ("type": 11 is
XGMI, AMD's Infinity Fabric between devices; "node_to").
"""

from __future__ import annotations

from gpuscope.doctor.machine import Machine

_NODES = "/sys/class/kfd/kfd/topology/nodes"
_XGMI = 11


def fabric_pairs(machine: Machine) -> frozenset[frozenset[str]]:
    """Return pairs of PCI addresses that Infinity Fabric joins."""
    buses: dict[int, str] = {}
    for name in machine.entries(_NODES) or ():
        given = _properties(machine, f"{_NODES}/{name}/properties")
        place = given.get("location_id", 0)
        if name.isdigit() and given.get("simd_count", 0) and place:
            buses[int(name)] = (
                f"{given.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}"
                f".{place & 7:x}"
            )
    joined = set()
    for node, bus in buses.items():
        folder = f"{_NODES}/{node}/io_links"
        for link in machine.entries(folder) or ():
            given = _properties(machine, f"{folder}/{link}/properties")
            other = buses.get(given.get("node_to", -1))
            if given.get("type") == _XGMI and other is not None and other != bus:
                joined.add(frozenset((bus, other)))
    return frozenset(joined)


def _properties(machine: Machine, path: str) -> dict[str, int]:
    pairs = (line.split() for line in (machine.text(path) or "").splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}
