"""Slices of devices: what one has of the whole, and what it cannot."""

from __future__ import annotations

import pytest

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import device, parse_target
from gpuscope.hardware.names import CATALOGUE, resolve, slice_names

FILES = sorted((CATALOGUE / "slices").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_slices_fit_into_their_device(path) -> None:
    whole = device(path.stem)
    for name in slice_names(path.stem):
        part = device(f"{path.stem}:{name}")
        most = {1: 7, 2: 3, 3: 2, 4: 1, 7: 1}[int(name[0])]
        if part.memory_bandwidth_bytes_per_s == whole.memory_bandwidth_bytes_per_s / 4:
            most = min(most, 4)
        assert part.compute_units * most <= whole.compute_units
        assert part.memory_bytes * most <= whole.memory_bytes
        assert part.memory_bandwidth_bytes_per_s * most <= whole.memory_bandwidth_bytes_per_s
        assert part.l2_bytes * most <= whole.l2_bytes
        # The name says its memory in GB, rounded; the driver's figure is in GiB and less.
        assert part.memory_bytes <= float(name.split(".")[1].removesuffix("gb")) * 2**30
        for rate, value in part.peaks:
            assert value / part.compute_units == pytest.approx(
                dict(whole.peaks)[rate] / whole.compute_units
            )
        assert part.origin("compute_units") == "datasheet"
        assert part.origin("tdp_w") == "estimated"
        assert "Multi-Instance" in part.source("memory_bytes")
        assert part.scale_up is None


@pytest.mark.parametrize(
    ("name", "units", "gib", "bandwidth"),
    [
        ("h200:1g.18gb", 16, 16.0, 600e9),
        ("h100:2g.20gb", 32, 19.625, 837.5e9),
        ("a100-80gb:3g.40gb", 42, 39.25, None),
        ("NVIDIA H100 PCIe:MIG-1g.10gb", 14, 9.75, None),
    ],
)
def test_known_slices(name: str, units: int, gib: float, bandwidth: float | None) -> None:
    part = device(name)
    assert part.compute_units == units
    assert part.memory_bytes == gib * 2**30
    if bandwidth:
        assert part.memory_bandwidth_bytes_per_s == pytest.approx(bandwidth)


def test_what_is_no_slice_is_refused() -> None:
    assert resolve("h200:1G.18GB") == "nvidia-h200-sxm:1g.18gb"
    with pytest.raises(UnknownNameError, match=r"1g\.18gb"):
        device("h200:1g.10gb")
    with pytest.raises(UnknownNameError):
        device("rtx-4090:1g.10gb")
    with pytest.raises(InvalidValueError, match="no link between more than 1"):
        parse_target("2xh100:1g.10gb")


def test_a_power_limit_costs_time_and_saves_energy() -> None:
    pytest.importorskip("torch")
    import torch

    import gpuscope as gs
    from gpuscope.hardware import parse_overrides

    def build():
        model = torch.nn.Linear(8192, 8192, bias=False, dtype=torch.bfloat16).cuda()
        x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        return lambda: model(x)

    runs = [
        gs.predict(build, on="h200", overrides=parse_overrides([f"power_limit={watts}W"]))
        for watts in (700, 500, 300)
    ]
    times = [run.step_time_s for run in runs]
    energies = [run.energy_j for run in runs]
    assert times == sorted(times)
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] / times[-1] == pytest.approx(300, rel=0.05)


def test_a_slice_is_slower_than_the_whole() -> None:
    pytest.importorskip("torch")
    import torch

    import gpuscope as gs

    def build():
        model = torch.nn.Linear(4096, 4096, bias=False).cuda()
        x = torch.randn(4096, 4096, device="cuda")
        return lambda: model(x)

    whole = gs.predict(build, on="h100")
    parts = [gs.predict(build, on=f"h100:{name}") for name in ("4g.40gb", "2g.20gb", "1g.10gb")]
    times = [run.step_time_s for run in (whole, *parts)]
    assert times == sorted(times)
    # A product that fills the device follows its multiprocessors: 132 to 16.
    assert times[-1] / times[0] == pytest.approx(132 / 16, rel=0.25)
    low, high = parts[-1].step_time_interval_s
    assert (high - low) / times[-1] > (
        whole.step_time_interval_s[1] - whole.step_time_interval_s[0]
    ) / times[0]
