"""From points to a saved calibration, and back into a prediction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gpuscope as gs
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.hardware import (
    CalibratedValue,
    Calibration,
    Distance,
    calibration_for,
    device,
    load_own,
)
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate import (
    calibrate,
    calibration_text,
    save_as_this,
    save_calibration,
)

H200 = device("h200")


def host_call(seconds: float) -> Point:
    return Point("host", "op", {"name": "mm", "variant": "no_grad"}, "host", seconds)


def build():
    weight = torch.randn(8, 8, device="cuda")
    x = torch.randn(8, 8, device="cuda")

    def step() -> None:
        with torch.no_grad():
            for _ in range(50):
                torch.mm(x, weight)

    return step


def test_a_slow_host_makes_a_host_bound_step_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path / "home"))
    slow_s = 3 * calibration_for(H200).value("host.op.mm.plain_s")  # the middle host: 1.55 times
    own = calibrate([host_call(slow_s)], H200, measured_with="a test")
    path = save_calibration(own, tmp_path / "mine")
    program = gs.capture(build)
    shipped = gs.predict(program, on="h200")
    brought = gs.predict(program, on="h200", calibration=path)
    assert brought.step_time_s > 1.5 * shipped.step_time_s
    save_as_this(own)
    here = gs.predict(program, on="this")
    assert here.step_time_s == pytest.approx(brought.step_time_s)
    assert here.device_id == "nvidia-h200-sxm"


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    entries = (
        ("matmul.bf16.efficiency", CalibratedValue(0.8, "1", "calibrated", 0.7, 0.9, 'a "note"')),
        ("odd.na me.x_s", CalibratedValue(1e-9, "s", "measured", 1e-9, 2e-9)),
    )
    own = Calibration(H200.id, H200.id, Distance.SAME_DEVICE, "H200, today", entries)
    assert load_own(save_calibration(own, tmp_path / "c.toml")) == own
    assert load_own(save_calibration(own, tmp_path / "folder").parent) == own
    assert calibration_text(own).startswith("# Constants of one machine")


def test_points_that_say_nothing_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="Nothing here calibrates"):
        calibrate([Point("x", "y", {}, "hot", 1.0)], H200)


def test_idle_and_limited_power() -> None:
    points = [
        Point(
            "power",
            "power",
            {"load": "idle_with_context"},
            "steady",
            None,
            values={"power_w": 105.0},
        ),
        Point(
            "power",
            "power",
            {"load": "matmul_bf16"},
            "steady",
            1e-3,
            throttled=("power_cap",),
            values={"power_w": 686.0},
        ),
        Point(
            "power",
            "power",
            {"load": "copy_hbm"},
            "steady",
            1e-3,
            throttled=(),
            values={"power_w": 640.0},
        ),
    ]
    own = calibrate(points, H200)
    assert own.value("power.idle_share") == pytest.approx(105 / 700)
    assert own.value("power.limit_share") == pytest.approx(0.98)


def test_what_nobody_measured_is_wider_on_a_device_of_its_own() -> None:
    b200 = device("b200")
    own = calibrate([host_call(5e-6)], b200)
    assert own.device_id == "nvidia-b200"
    assert own.spread("device.scale") > 0
    assert own.value("host.op.mm.plain_s") == 5e-6


def test_this_machine_without_a_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path))
    with pytest.raises(InputFileError, match="gpuscope bench --save"):
        gs.predict(build, on="this")
