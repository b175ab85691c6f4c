"""Faults of wiring, health and settings on top of two real H200s: each is found, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.explanation import explain_diagnosis
from gpuscope.doctor.machine import Recording
from gpuscope.document.blocks import Facts

MACHINES = Path(__file__).resolve().parents[1] / "data" / "machines"

Fault = Callable[[Recording, dict[str, Any]], None]


def _set(*path: str, to: Any) -> Fault:
    """A fault of the second device: one reading is another."""

    def make_ill(_: Recording, device: dict[str, Any]) -> None:
        for key in path[:-1]:
            device = device[key]
        device[path[-1]] = to

    return make_ill


def _ports_down(_: Recording, device: dict[str, Any]) -> None:
    for port in device["nvlinks"][::2]:
        port["active"] = False


def _no_peers(machine: Recording, _: dict[str, Any]) -> None:
    machine.probes["nvml"]["pairs"][0]["p2p"]["read"] = "chipset_not_supported"  # type: ignore[index]


def _fell_off(machine: Recording, device: dict[str, Any]) -> None:
    slot = device["bus_id"].lower()[4:].rpartition(".")[0]
    line = f"[ 77.1] NVRM: Xid (PCI:{slot}): 79, pid=1, name=python, GPU has fallen off the bus."
    machine.probes["kernel_log"] |= {"lines": [line]}  # type: ignore[operator]


def _variable(name: str, value: str) -> Fault:
    def make_ill(machine: Recording, _: dict[str, Any]) -> None:
        machine.environment[name] = value

    return make_ill


@pytest.mark.parametrize(
    ("make_ill", "check", "severity", "device"),
    [
        (_ports_down, "nvlink", "warning", 1),
        (_set("pcie", "width", to=4), "pcie_link", "warning", 1),
        (_no_peers, "peer_to_peer", "warning", None),
        (_fell_off, "kernel_log_xid", "error", 1),
        (_set("temperature", "memory_c", to=96), "temperature", "warning", 1),
        (_set("clocks_event_reasons", to=["hw_thermal_slowdown"]), "throttle", "warning", 1),
        (_set("power", "limit_w", to=450.0), "power_limit", "warning", 1),
        (_set("clocks", "application_graphics_mhz", to=1200), "clocks", "warning", 1),
        (_set("ecc", "volatile_uncorrected", to=1), "ecc", "error", 1),
        (_set("remapped_rows", "pending", to=True), "remapped_rows", "warning", 1),
        (_set("remapped_rows", "failure", to=True), "remapped_rows", "error", 1),
        (_set("compute_mode", to="prohibited"), "compute_mode", "error", 1),
        (_set("mig_mode", to=True), "mig", "error", 1),
        (_variable("CUDA_LAUNCH_BLOCKING", "1"), "environment_cuda", "warning", None),
        (_variable("NCCL_IB_DISABLE", "1"), "environment_nccl", "warning", None),
        (_variable("TORCHDYNAMO_DISABLE", "1"), "environment_torch", "warning", None),
        (_variable("PYTORCH_CUDA_ALLOC_CONF", "nonsense"), "allocator", "warning", None),
        (_variable("OMP_NUM_THREADS", "1000"), "threads", "warning", None),
    ],
)
def test_each_fault_is_found_and_only_it(
    make_ill: Fault, check: str, severity: str, device: int | None
) -> None:
    machine = Recording.load(MACHINES / "h200-x2.json")
    make_ill(machine, machine.probes["nvml"]["devices"][1])  # type: ignore[index]
    bad = {
        (f.check, f.severity, f.device)
        for f in diagnose(machine).findings
        if f.severity in ("error", "warning")
    }
    extra = {("mig", "warning", 1)} if check == "mig" else set()  # the change waits for a reset
    assert bad - extra == {(check, severity, device)}


def test_the_page_gives_rates_their_unit() -> None:
    """A figure called bytes_per_s is a rate, not a time."""
    machine = Recording.load(MACHINES / "h200-x2.json")
    machine.probes["nvml"]["devices"][0]["pcie"]["width"] = 8  # type: ignore[index]
    shown = explain_diagnosis(diagnose(machine), machine)
    rows = [
        row
        for section in shown.sections
        for block in section.blocks
        if isinstance(block, Facts)
        for row in block.rows
        if row.label == "bytes_per_s"
    ]
    assert [(row.value, row.unit) for row in rows] == [(31.5e9, "bytes/s")]
