"""Whether devices reach each other's memory without the host.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetP2PStatus and its reasons).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, is_geforce, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Pair
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, joined, plural

_REASONS = {
    "chipset_not_supported": Text("the chipset does not allow it"),
    "gpu_not_supported": Text("the device does not offer it"),
    "ioh_topology_not_supported": Text("the way between them does not allow it"),
    "disabled_by_regkey": Text("a driver setting forbids it"),
    "not_supported": Text("it is not supported here"),
}
_BY = "NVML: nvmlDeviceGetP2PStatus (nvidia-smi topo -p2p r)"


@check("peer_to_peer", "topology", Text("Whether devices reach each other's memory directly"))
def peer_to_peer(machine: Machine) -> Iterable[Finding]:
    """Look at each pair of NVIDIA devices."""
    devices = nvidia_devices(machine)
    if len(devices) < 2 or any(d.get("mig_mode") for d in devices):
        return
    pairs = [p for p in topology(machine).pairs if p.peer is not None]
    bad = [p for p in pairs if not p.peer]
    if not pairs:
        return
    if not bad:
        yield _well(pairs)
        return
    consumer = all(is_geforce(d) for d in devices) and all(
        p.reason in ("gpu_not_supported", "not_supported", "chipset_not_supported") for p in bad
    )
    yield _bad(bad, len(pairs), consumer)


def _bad(bad: list[Pair], count: int, consumer: bool) -> Finding:
    reasons = [_REASONS[r] for r in sorted({p.reason for p in bad}) if r in _REASONS]
    some = ", ".join(f"{p.a}-{p.b}" for p in bad[:6]) + (" ..." if len(bad) > 6 else "")
    fix = Text(
        "Compare with 'nvidia-smi topo -p2p r'. In a virtual machine or with the IOMMU on, peer "
        "access may be off: see the check acs_iommu. NCCL then goes through the host's memory."
    )
    return Finding(
        "peer_to_peer",
        "note" if consumer else "warning",
        Text("Devices do not reach each other's memory."),
        Text(
            "{bad} of {count} pairs ({some}): {reasons}.",
            bad=len(bad),
            count=count,
            some=some,
            reasons=joined(reasons),
        ),
        Text(
            "Copies and collectives between them take the way through the host's memory, twice the "
            "traffic and a fraction of the rate."
        ),
        None if consumer else fix,
        ("nvidia-smi topo -p2p r",),
        _BY,
        None,
        {"refused_pairs": len(bad), "pairs": count},
    )


def _well(pairs: list[Pair]) -> Finding:
    names = gpus({p.a for p in pairs} | {p.b for p in pairs})
    over = sum(p.way == "NV" for p in pairs)
    count = len(pairs)
    evidence = plural("{count} pair", "all {count} pairs", count)
    if over == count:
        evidence = Text("{pairs}, over NVLink", pairs=evidence)
    elif over:
        evidence = Text("{pairs}, {over} over NVLink", pairs=evidence, over=over)
    return Finding(
        "peer_to_peer",
        "ok",
        Text("Devices reach each other's memory."),
        Text("{names}: {pairs}.", names=names, pairs=evidence),
        known_by=_BY,
        values={"refused_pairs": 0, "pairs": len(pairs), "nvlink_pairs": over},
    )
