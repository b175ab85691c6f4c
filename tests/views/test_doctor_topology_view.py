"""The wiring as a tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "doctor"))

from wired_machines import server

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology import topology
from gpuscope.views.doctor_topology import render_topology


def printed(machine: Recording, lang: str = "en", width: int = 100) -> str:
    tree = render_topology(topology(machine), lang)
    assert tree is not None
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tree)
    return console.export_text()


def test_each_device_stands_below_its_switch_with_its_rates() -> None:
    text = printed(server())
    assert text.count("PCIe switch") == 8
    assert "GPU 7  NVIDIA H200  PCIe 5.0 x16 (63 GB/s)  NVLink x18 (450 GB/s)" in text
    assert "mlx5_3  InfiniBand 400 Gbit/s" in text
    assert text.index("GPU 3") < text.index("NUMA node 1") < text.index("GPU 4")


def test_faults_say_what_could_be() -> None:
    ill = server(2)
    devices = ill.probes["nvml"]["devices"]  # type: ignore[index]
    devices[0]["pcie"]["width"] = 8
    devices[1]["nvlinks"][0]["active"] = False
    text = printed(ill)
    assert "PCIe 5.0 x8 (32 GB/s)  of PCIe 5.0 x16" in text
    assert "NVLink x17/18 (425 GB/s)" in text


@pytest.mark.parametrize("width", [60, 100])
def test_it_is_told_in_chinese_and_fits(width: int) -> None:
    text = printed(server(4), "zh", width)
    assert "本机的连接方式" in text
    assert "PCIe switch" not in text


def test_there_is_no_tree_without_devices() -> None:
    assert render_topology(topology(Recording())) is None
