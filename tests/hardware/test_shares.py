"""Shares of a device by MPS and time slicing: what one has of it, and how sure its times are."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.errors import UnknownNameError
from gpuscope.hardware import device
from gpuscope.hardware.names import resolve
from gpuscope.hardware.shares import MOST, share_named, widened


@pytest.mark.parametrize("of", [2, 3, 48])
def test_shares_add_up_to_the_device(of: int) -> None:
    whole = device("h200")
    for way in ("mps", "time"):
        part = device(f"h200:{way}-{of}")
        assert part.memory_bytes * of <= whole.memory_bytes
        assert part.memory_bandwidth_bytes_per_s * of == pytest.approx(
            whole.memory_bandwidth_bytes_per_s
        )
        for (rate, mine), (same, all_) in zip(part.peaks, whole.peaks, strict=True):
            assert (rate, mine * of) == (same, pytest.approx(all_))
        assert part.origin("memory_bytes") == "estimated"
        assert "equal shares" in part.source("memory_bytes")
        assert part.scale_up is None
        assert part.compute_units == max(whole.compute_units // of, 1)
    assert device(f"h200:mps-{of}").l2_bytes == whole.l2_bytes // of
    assert device(f"h200:time-{of}").l2_bytes == whole.l2_bytes


@pytest.mark.parametrize(
    "name", ["h200:mps-1", f"h200:time-{MOST + 1}", "h200:mps", "mi300x:mps-2"]
)
def test_what_is_no_share_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        device(name)


def test_names() -> None:
    assert resolve("H200:MPS-2") == "nvidia-h200-sxm:mps-2"
    assert share_named("1g.18gb") is None


def test_the_interval_reaches_from_resting_neighbours_to_twice_the_distance() -> None:
    low, high, why = widened("nvidia-h200-sxm:time-4", 10.0, 9.0, 11.0, 8.0)
    assert (low, high) == (pytest.approx(9.0 - 8.0 * 0.75), pytest.approx(12.0))
    assert why is not None
    assert widened("nvidia-h200-sxm:1g.18gb", 10.0, 9.0, 11.0, 8.0) == (9.0, 11.0, None)


@pytest.mark.parametrize("way", ["mps", "time"])
def test_a_predicted_step_is_slower_and_less_sure(way: str) -> None:
    torch = pytest.importorskip("torch")

    def build():
        x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        return lambda: [x @ x for _ in range(8)]

    whole, half = gs.predict(build, on="h200"), gs.predict(build, on=f"h200:{way}-2")
    assert half.step_time_s > 1.5 * whole.step_time_s
    low, high = half.step_time_interval_s
    assert low < whole.step_time_interval_s[1] < half.step_time_s < high
    assert any("neighbours rest" in str(said) for said in half.assumptions)
