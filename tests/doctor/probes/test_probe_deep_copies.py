from __future__ import annotations

import pytest
import torch

from gpuscope.doctor.probes import deep_copies
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.bench import transfers

CPU = Accelerator("cpu")


@pytest.fixture(autouse=True)
def _no_pinned_memory(monkeypatch) -> None:
    """Host memory is pinned for a device; here there is none."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(transfers, "_side_by_side", lambda _, a, b: lambda: (a(), b()))


def test_a_copy_reads_and_writes() -> None:
    found = deep_copies.inside(CPU, 1 << 20)["inside"]
    assert found["bytes"] == 1 << 20
    assert found["bytes_per_s"] == pytest.approx(2 * (1 << 20) / found["seconds"])


def test_a_small_device_gets_a_small_copy(monkeypatch) -> None:
    monkeypatch.setattr(deep_copies, "free_bytes", lambda _: 8 << 20)
    assert deep_copies.inside(CPU, 1 << 30)["inside"]["bytes"] == 2 << 20


def test_each_way_is_measured() -> None:
    found = deep_copies.to_host(CPU, 1 << 16)
    for kind in ("h2d_pinned", "d2h_pinned", "both_pinned"):
        assert found[kind]["bytes_per_s"] == pytest.approx((1 << 16) / found[kind]["seconds"])


def test_a_device_that_failed_is_left_out_of_what_follows(monkeypatch) -> None:
    second = Accelerator("cpu")
    second.index = 1
    monkeypatch.setattr(deep_copies, "HOST_BYTES", 1 << 16)

    def inside(accelerator: Accelerator) -> dict:
        if accelerator.index:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return {"inside": {"bytes": 1, "bytes_per_s": 1.0}}

    monkeypatch.setattr(deep_copies, "inside", inside)
    monkeypatch.setattr(deep_copies, "to_host", lambda _: {"pcie_width": 16})
    first, failed = deep_copies.copies([CPU, second])["devices"]
    assert first["pcie_width"] == 16
    assert "together_bytes_per_s" not in first  # alone, there is no "together"
    assert failed["lost"]
    assert "pcie_width" not in failed
