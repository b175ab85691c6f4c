"""Measured constants: read, refused, carried to devices that nobody measured."""

from pathlib import Path

import pytest

from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware import calibration_for, device
from gpuscope.hardware.calibration import CALIBRATIONS, _calibration_for, load_calibration
from gpuscope.hardware.names import device_ids

GOOD = """
device = "nvidia-h200-sxm"
measured_with = "driver 1, PyTorch 2, 2030-01-01"

[matmul.bf16.efficiency_max]
value = 0.8
unit = "1"
low = 0.76
high = 0.84
note = "largest square matmul"

[kernel.gap]
value = 1.0e-6
unit = "s"

[memory.read]
value = 4.2e12
unit = "bytes/s"

[host.dispatch]
value = 5e-6
unit = "s"
low = 4e-6
high = 8e-6
origin = "measured"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nvidia-h200-sxm.toml").write_text(GOOD)
    return tmp_path


def test_the_measured_device_gets_its_own(folder: Path) -> None:
    found = _calibration_for(device("h200"), folder)
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert found.origin("matmul.bf16.efficiency_max") == "calibrated"
    assert found.origin("host.dispatch") == "measured"
    assert found.spread("matmul.bf16.efficiency_max") == pytest.approx(0.05)
    assert found.spread("kernel.gap") == 0.0
    assert found.get("no.such", 7.0) == 7.0
    assert found.get("kernel.gap", 7.0) == 1e-6
    assert found.names("matmul") == ("matmul.bf16.efficiency_max",)
    assert found.measured_with.startswith("driver 1")
    with pytest.raises(UnknownNameError, match="efficiency_max"):
        found.value("matmul.bf16.eficiency_max")


def test_a_what_if_keeps_the_calibration(folder: Path) -> None:
    what_if = device("h200").replace(memory_bandwidth_bytes_per_s=8e12)
    assert _calibration_for(what_if, folder).distance == "same device"


@pytest.mark.parametrize(
    ("name", "distance", "factor", "least"),
    [
        ("h100", "same generation", 1.5, 0.08),
        ("a100", "same vendor", 2.0, 0.15),
        ("mi300x", "other vendor", 3.0, 0.25),
    ],
)
def test_others_get_estimates_that_widen_with_distance(
    folder: Path, name: str, distance: str, factor: float, least: float
) -> None:
    found = _calibration_for(device(name), folder)
    assert found.measured_on == "nvidia-h200-sxm"
    assert found.distance == distance
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert found.origin("matmul.bf16.efficiency_max") == "estimated"
    assert found.spread("matmul.bf16.efficiency_max") == pytest.approx(max(0.05 * factor, least))
    assert found.value("kernel.gap") == 1e-6  # fixed times are carried,
    assert found.spread("kernel.gap") == pytest.approx(least)
    assert "memory.read" not in found  # rates of another device are not
    assert "host.dispatch" in found


def test_the_nearest_is_chosen(folder: Path) -> None:
    other = GOOD.replace("nvidia-h200-sxm", "nvidia-a100-sxm-80gb").replace("0.8\n", "0.78\n")
    (folder / "nvidia-a100-sxm-80gb.toml").write_text(other)
    near = _calibration_for(device("a100-40gb").replace(compute_units=100), folder)
    assert near.measured_on == "nvidia-a100-sxm-80gb"
    assert near.value("matmul.bf16.efficiency_max") == 0.78


def test_nothing_measured_is_empty(tmp_path: Path) -> None:
    found = _calibration_for(device("h100"), tmp_path)
    assert found.entries == ()
    assert found.measured_on is None


def test_a_folder_is_read_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia-h200-sxm"
    folder.mkdir()
    (folder / "matmul.toml").write_text('[matmul.peak]\nvalue = 0.8\nunit = "1"\n')
    (folder / "host.toml").write_text(
        'measured_with = "a host"\n[host.gap]\nvalue = 1e-6\nunit = "s"'
    )
    found = _calibration_for(device("h200"), tmp_path)
    assert found.names() == ("host.gap", "matmul.peak")
    assert found.measured_with == "a host"
    (folder / "more.toml").write_text('[host.gap]\nvalue = 2e-6\nunit = "s"')
    with pytest.raises(CatalogueError, match="two files"):
        load_calibration(folder)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "1"', "", "unit"),
        ("low = 0.76", "low = 0.9", "does not hold"),
        ("value = 0.8", 'value = "high"', "numbers"),
        ("note =", "nota =", "nota"),
        ('origin = "measured"', 'origin = "guess"', "guess"),
        ('device = "nvidia-h200-sxm"', 'device = "h200"', "nvidia-h200-sxm"),
        ("[kernel.gap]", "stray = 1\n[kernel.gap]", "stray"),
        ("[kernel.gap]", "[kernel.gap", "cannot be read"),
    ],
)
def test_a_bad_file_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    path = folder / "nvidia-h200-sxm.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(CatalogueError) as error:
        load_calibration(path)
    assert path.name in str(error.value)
    assert said in str(error.value)


def test_the_catalogues_own_calibrations_load() -> None:
    for path in CALIBRATIONS.iterdir():
        assert path.stem in device_ids()
        assert load_calibration(path).entries
    assert calibration_for(device("h200")).device_id == "nvidia-h200-sxm"


KERNELS = """
measured_with = "published tables"

[matmul.bf16.efficiency_max]
value = 0.7
unit = "1"
low = 0.65
high = 0.75
"""


@pytest.fixture
def partly(folder: Path) -> Path:
    """The H200 calibrated with its host, the B200 only in its products."""
    (folder / "nvidia-b200.toml").write_text('device = "nvidia-b200"\n' + KERNELS)
    return folder


def test_known_kernels_replace_carried_ones(partly: Path) -> None:
    found = _calibration_for(device("b200"), partly)
    assert found.distance == "same device, kernels only"
    assert found.value("matmul.bf16.efficiency_max") == 0.7
    assert found.origin("matmul.bf16.efficiency_max") == "calibrated"
    assert found.value("host.dispatch") == 5e-6
    assert found.origin("host.dispatch") == "estimated"
    assert "published" in found.measured_with
    assert "driver 1" in found.measured_with


def test_a_neighbour_of_the_generation_lends_its_kernels(partly: Path) -> None:
    found = _calibration_for(device("gb200"), partly)
    assert found.value("matmul.bf16.efficiency_max") == 0.7
    assert found.origin("matmul.bf16.efficiency_max") == "estimated"
    assert found.spread("matmul.bf16.efficiency_max") > 0.07
    assert found.value("host.dispatch") == 5e-6


def test_a_partial_calibration_is_not_carried_to_other_generations(partly: Path) -> None:
    found = _calibration_for(device("a100"), partly)
    assert found.measured_on == "nvidia-h200-sxm"
    assert found.value("matmul.bf16.efficiency_max") == 0.8


GRAPHICS = """
measured_with = "published tables"

[matmul.bf16.efficiency_max]
value = 0.6
unit = "1"

[matmul.bf16.l2_bytes_per_clock_per_unit]
value = 12.0
unit = "1"

[matmul.bf16.floor_s]
value = 8e-7
unit = "s"
"""


@pytest.fixture
def with_graphics(partly: Path) -> Path:
    """Beside them a graphics die of the A100's compute capability."""
    (partly / "nvidia-l40s.toml").write_text('device = "nvidia-l40s"\n' + GRAPHICS)
    return partly


def test_a_graphics_die_lends_nothing_to_one_with_stacked_memory(with_graphics: Path) -> None:
    found = _calibration_for(device("a100"), with_graphics)
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert "matmul.bf16.floor_s" not in found


def test_graphics_dies_of_a_generation_lend_each_other_everything(with_graphics: Path) -> None:
    found = _calibration_for(device("rtx-3090"), with_graphics)
    assert found.value("matmul.bf16.efficiency_max") == 0.6


def test_graphics_dies_of_other_generations_share_the_path_to_the_l2(with_graphics: Path) -> None:
    found = _calibration_for(device("rtx-5090"), with_graphics)
    assert found.value("matmul.bf16.l2_bytes_per_clock_per_unit") == 12.0
    assert found.value("matmul.bf16.floor_s") == 8e-7
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert found.origin("matmul.bf16.floor_s") == "estimated"
