"""Published times of single operators on devices that are left out: NeuSight's, for `leave_one_out`.

`dataset/test` of NeuSight (see `published_operators.py`) holds float32 products on seven NVIDIA
devices, and elementwise steps, softmax and layer norms on six; `dataset_amd/test` holds products on
an MI100 and an MI210. A call's time holds what two events add, the shortest call of any operator of
its device, which is taken off; calls that are little else are left out (`published_operators`).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from published_operators import _family, _memory, _product
from recorded import Case

from gpuscope.hardware import Device, device

DEVICES: Mapping[str, tuple[str, float | None]] = {
    "NVIDIA H100 80GB HBM3": ("nvidia-h100-sxm", None),
    "NVIDIA A100 80GB PCIe": ("nvidia-a100-pcie-80gb", None),
    "NVIDIA A100-PCIE-40GB": ("nvidia-a100-pcie-40gb", None),
    "NVIDIA L4": ("nvidia-l4", None),
    "Tesla V100-PCIE-32GB": ("nvidia-v100-sxm2-32gb", 1.38e9),
    "Tesla T4": ("nvidia-t4", None),
    "AMD Instinct MI210": ("amd-mi210", None),
}
"""Name in the tables -> catalogue id, and the board's clock where it is another."""

FILES = ("bmm", "linear", "vec", "softmax", "ln")
NOT_JUDGED = ("pow", "powu", "divu")
"""Elementwise steps that the fits leave out, too."""


def rows(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Calls by the device's name in the tables."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    files = [folder / "dataset" / "test" / f"{name}.csv" for name in FILES]
    files += sorted((folder / "dataset_amd" / "test" / "collect").glob("*/*/*.csv"))
    for path in files:
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                found[row["Device"]].append(row)
    return found


def cases(of_device: list[dict[str, str]]) -> Iterator[tuple[str, Case]]:
    """Family of kernels and the call, of those that are long enough."""
    events_ms = min(float(row["Latency"]) for row in of_device)
    for row in of_device:
        name = row["OPName"]
        if name in NOT_JUDGED:
            continue
        sizes = {k: int(row[k]) for k in "BMNKH" if row.get(k)}
        seconds = (float(row["Latency"]) - events_ms) * 1e-3
        make = _product if _family(name) == "matmul" else _memory
        case = make(name, sizes, seconds)
        if case is not None:
            yield _family(name), case


def target_of(name: str) -> Device:
    """The board that was measured."""
    device_id, clock_hz = DEVICES[name]
    found = device(device_id)
    return found if clock_hz is None else found.replace(clock_hz=clock_hz)
