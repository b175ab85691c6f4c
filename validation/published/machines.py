"""Which catalogue device stands for the hardware that a row prints, and where it differs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuscope.api import resolve_target
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Cluster, device


@dataclass(frozen=True, slots=True)
class Machine:
    """A device, what to change of it, and why."""

    device: str
    changes: Mapping[str, Any] | None = None
    why: str = ""

    def cluster(self, devices: int) -> Cluster:
        """So many of them."""
        cluster = resolve_target(f"{devices}x{self.device}" if devices > 1 else self.device)
        if not self.changes:
            return cluster
        return replace(cluster, device=cluster.device.replace(**self.changes))


_TITAN = Machine(
    "h100-sxm",
    {"memory_bandwidth_bytes_per_s": 2.4e12, "tdp_w": 500.0},
    "an H100 with 96 GB of HBM2e at 2.4 TB/s, limited to 500 W (the source says so)",
)

MACHINES: Mapping[str, Machine] = {
    "A100-40GB": Machine("a100-sxm-40gb"),
    "A100-SXM4-40GB": Machine("a100-sxm-40gb"),
    "A100-80GB": Machine("a100-sxm-80gb"),
    "A100-SXM-80GB (Selene)": Machine("a100-sxm-80gb"),
    "A100-PCIE-40GB": Machine("a100-pcie-40gb"),
    "A100-80GB-PCIe": Machine("a100-pcie-80gb"),
    "H100-80GB": Machine("h100-sxm"),
    "H100-80GB-HBM3": Machine("h100-sxm"),
    "H100-SXM-80GB": Machine("h100-sxm"),
    "NVIDIA H100-SXM-80GB": Machine("h100-sxm"),
    "NVIDIA H100-SXM5-80GB": Machine("h100-sxm"),
    "H100-96GB-HBM2e (Grand Teton, 2.4TB/s, 500W)": _TITAN,
    "H200-SXM": Machine("h200-sxm"),
    "NVIDIA H200-SXM5-141GB": Machine("h200-sxm"),
    "B200": Machine("b200"),
    "B200-SXM": Machine("b200"),
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": Machine("b200"),
    "B300": Machine("b300"),
    "GB200": Machine("gb200"),
    "NVIDIA Blackwell GPU (GB200)": Machine("gb200"),
    "GB300": Machine("gb300"),
    "L4": Machine("l4"),
    "Tesla-T4": Machine("t4"),
    "Tesla-V100-PCIE-32GB": Machine(
        "v100-sxm2-32gb",
        {"clock_hz": 1.38e9},
        "the PCIe board's clock, 1.38 GHz (14 TFLOP/s, NVIDIA's V100 datasheet)",
    ),
    "AMD-Instinct-MI210": Machine("mi210"),
    "AMD-Instinct-MI250": Machine(
        "mi210", None, "one half of an MI250: the MI210's die, clock and memory (AMD's data sheets)"
    ),
    "MI325X": Machine("mi325x"),
    "MI355X": Machine("mi355x"),
    "MI300 (as printed)": Machine("mi300x"),
    "TPU v4": Machine("tpu-v4"),
    "TPU v5e": Machine("tpu-v5e"),
    "TPU v5p": Machine("tpu-v5p"),
    "TPU v6e (Trillium)": Machine("tpu-v6e"),
}
"""By what a row prints."""

_MAKERS = re.compile(r"\b(nvidia|amd|google|instinct|tesla|gpu|accelerator|hbm\w*)\b", re.I)
_SIZE = re.compile(r"\b(\d+)\s*GB\b", re.I)
_CAPACITY_OFF = 0.1


def machine_of(hardware: str) -> Machine:
    """The device that a row prints: as `MACHINES` has it, else by the catalogue's name for it.

    Raises:
        ValueError: the catalogue has none of that name, or it has another memory.
    """
    known = MACHINES.get(hardware)
    if known is not None:
        return known
    name = re.sub(r"[\s_-]+", "-", _MAKERS.sub(" ", _SIZE.sub(" ", hardware)).strip().lower())
    try:
        name = name.strip("-")
        found = device(name)
    except GpuscopeError as error:
        raise ValueError(f"the catalogue has no {hardware}") from error
    size = _SIZE.search(hardware)
    held = found.memory_bytes / 2**30
    if size is not None and abs(float(size[1]) / held - 1) > _CAPACITY_OFF:
        raise ValueError(f"the catalogue's {found.name} has {held:.0f} GB, not those of {hardware}")
    return Machine(name)


NVIDIA = ("A100", "H100", "H200", "B200", "B300", "GB200", "GB300", "L4", "T4", "V100", "NVIDIA")


def is_nvidia(hardware: str) -> bool:
    """Whether NVIDIA makes it."""
    return any(part in hardware for part in NVIDIA)
