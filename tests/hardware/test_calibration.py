"""Measured constants: read, refused, carried to devices that nobody measured."""

from pathlib import Path

import pytest

from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware import CalibratedValue, Calibration, Distance, calibration_for, device
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
    assert found.value("no.such", "kernel.gap") == 1e-6
    with pytest.raises(UnknownNameError):
        found.value("no.such")
    assert found.names("matmul") == ("matmul.bf16.efficiency_max",)
    assert found.measured_with.startswith("driver 1")
    with pytest.raises(UnknownNameError, match="efficiency_max"):
        found.value("matmul.bf16.eficiency_max")


def test_a_device_measured_in_whole_reads_no_other_file(folder: Path) -> None:
    (folder / "nvidia-h100-sxm.toml").write_text("no TOML, and nobody asked")
    assert _calibration_for(device("h200"), folder).distance is Distance.SAME_DEVICE
    with pytest.raises(CatalogueError, match="nvidia-h100-sxm"):
        _calibration_for(device("a100"), folder)


def test_a_what_if_keeps_the_calibration(folder: Path) -> None:
    what_if = device("h200").replace(memory_bandwidth_bytes_per_s=8e12)
    assert _calibration_for(what_if, folder).distance is Distance.SAME_DEVICE


@pytest.mark.parametrize(
    ("name", "distance", "factor", "least"),
    [
        ("h100", Distance.SAME_GENERATION, 1.5, 0.08),
        ("a100", Distance.SAME_VENDOR, 2.0, 0.15),
        ("mi300x", Distance.OTHER_VENDOR, 3.0, 0.25),
    ],
)
def test_others_get_estimates_that_widen_with_distance(
    folder: Path, name: str, distance: Distance, factor: float, least: float
) -> None:
    found = _calibration_for(device(name), folder)
    assert found.measured_on == "nvidia-h200-sxm"
    assert found.distance is distance
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
        ("[kernel.gap]", "[kernel.gap", "not valid TOML"),
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


def test_no_constant_stands_inside_of_another() -> None:
    """Saved, its table would be read as a field of the other's, and the file be refused."""
    names = {name for name, _ in calibration_for(device("h200")).entries}
    inside = [n for n in names if any(n.rpartition(".")[0] == other for other in names)]
    assert not inside


def test_the_catalogues_own_calibrations_load() -> None:
    for path in CALIBRATIONS.iterdir():
        assert path.stem in device_ids()
        assert load_calibration(path).entries
    assert calibration_for(device("h200")).device_id == "nvidia-h200-sxm"


def _one(name: str, value: float, *, host: bool = False) -> str:
    """A calibration of one constant; in whole, if it has one of the host."""
    low, high = 0.9 * value, 1.1 * value
    text = f'device = "{name}"\n[kernel.share]\nunit = "1"\n'
    text += f"value = {value}\nlow = {low}\nhigh = {high}\n"
    return text + ('[host.gap]\nvalue = 1e-6\nunit = "s"\n' if host else "")


@pytest.mark.parametrize(
    ("name", "value", "spread"),
    [
        ("h100", 0.5, 0.1),  # its own
        ("h20", 0.5, 0.15),  # of its generation with its kind of memory: the H100, not the H200
        ("a100", 0.4, 0.2),  # of its vendor: the H200, measured in whole, not the H100
        ("mi300x", 0.3, 0.2),  # of its vendor: the MI210, though the H200 was measured in whole
        ("gaudi3", 0.4, 0.3),  # nobody of its vendor: the one that was measured in whole
    ],
)
def test_a_missing_constant_is_the_nearest_relatives_and_less_sure(
    tmp_path: Path, name: str, value: float, spread: float
) -> None:
    (tmp_path / "nvidia-h200-sxm.toml").write_text(_one("nvidia-h200-sxm", 0.4, host=True))
    (tmp_path / "nvidia-h100-sxm.toml").write_text(_one("nvidia-h100-sxm", 0.5))
    (tmp_path / "amd-mi210.toml").write_text(_one("amd-mi210", 0.3))
    found = _calibration_for(device(name), tmp_path)
    assert found.value("kernel.share") == value
    assert found.spread("kernel.share") == pytest.approx(spread)
    assert found.origin("kernel.share") == ("calibrated" if name == "h100" else "estimated")


@pytest.mark.parametrize("name", device_ids())
def test_every_device_has_every_constant(name: str) -> None:
    known = set(calibration_for(device("h200")).names())
    assert known <= set(calibration_for(device(name)).names())


@pytest.mark.parametrize("name", ["nvidia-a100-sxm-80gb", "nobody's"])
def test_constants_by_hand_are_completed_by_the_relatives(name: str) -> None:
    entry = CalibratedValue(0.5, "1", "measured", 0.5, 0.5)
    own = Calibration(name, name, Distance.SAME_DEVICE, "", (("matmul.bf16.efficiency", entry),))
    assert own.value("matmul.bf16.efficiency") == 0.5
    lent = own.entry("kernel.scale")
    assert (lent.value, lent.origin) == (1.0, "estimated")
    assert lent.spread > calibration_for(device("h200")).spread("kernel.scale")


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
    assert found.distance is Distance.KERNELS_ONLY
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


def test_a_graphics_die_lends_to_one_with_stacked_memory_only_what_else_nobody_has(
    with_graphics: Path,
) -> None:
    found = _calibration_for(device("a100"), with_graphics)
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert found.value("matmul.bf16.floor_s") == 8e-7


def test_graphics_dies_of_a_generation_lend_each_other_everything(with_graphics: Path) -> None:
    found = _calibration_for(device("rtx-3090"), with_graphics)
    assert found.value("matmul.bf16.efficiency_max") == 0.6


def test_graphics_dies_of_other_generations_share_the_path_to_the_l2(with_graphics: Path) -> None:
    found = _calibration_for(device("rtx-5090"), with_graphics)
    assert found.value("matmul.bf16.l2_bytes_per_clock_per_unit") == 12.0
    assert found.value("matmul.bf16.floor_s") == 8e-7
    assert found.value("matmul.bf16.efficiency_max") == 0.8
    assert found.origin("matmul.bf16.floor_s") == "estimated"


def test_a_card_held_by_its_power_lends_its_lanes_to_none_with_more() -> None:
    """An L4's 72 W say nothing of other dies of its generation; what it has itself stays."""
    held = calibration_for(device("nvidia-l4")).value("matmul.fp32.efficiency")
    assert held < 0.5
    for name in ("nvidia-l40s", "nvidia-l20", "nvidia-rtx-3090", "nvidia-rtx-4090"):
        assert calibration_for(device(name)).value("matmul.fp32.efficiency") > 0.8, name
