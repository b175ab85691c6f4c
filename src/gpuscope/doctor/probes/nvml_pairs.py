"""What NVML tells of each pair of devices: the way between them and whether they may use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Ask = Callable[..., Any]

TOPOLOGY = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
"""The nearest thing that two devices share (nvml.h, NVML_TOPOLOGY_*): one board, one PCIe switch,
several switches, a host bridge, a NUMA node, or only the link between processors."""

P2P_STATUS = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "ioh_topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
}

_CAPABILITIES = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3}


def pair_facts(nvml: Any, ask: Ask, handles: Sequence[Any]) -> list[dict[str, Any]]:
    """Return one entry a pair a < b: `topology`, and `p2p` by capability."""
    found = []
    for a, first in enumerate(handles):
        for b in range(a + 1, len(handles)):
            second = handles[b]
            if first is None or second is None:
                continue
            found.append(
                {
                    "a": a,
                    "b": b,
                    "topology": TOPOLOGY.get(
                        ask("nvmlDeviceGetTopologyCommonAncestor", first, second)
                    ),
                    "p2p": {
                        name: P2P_STATUS.get(ask("nvmlDeviceGetP2PStatus", first, second, number))
                        for name, number in _CAPABILITIES.items()
                    },
                }
            )
    return found
