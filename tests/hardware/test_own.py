"""Calibrations brought from elsewhere: read from files and folders, laid over the catalogue's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import InputFileError
from gpuscope.hardware import Distance, applied, calibration_for, device, load_own
from gpuscope.hardware.calibration import CALIBRATIONS
from gpuscope.hardware.own import home, is_this, this_target

ONE = """device = "nvidia-h200-sxm"
measured_with = "a test"
[host.op.mm.plain_s]
value = 1e-5
unit = "s"
[matmul.bf16.efficiency]
value = 0.5
unit = "1"
low = 0.45
high = 0.55
"""


def test_names_of_this_machine() -> None:
    assert is_this("this")
    assert is_this("8xThis")
    assert not is_this("h200")
    assert not is_this("thistle")


def test_home_is_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("GPUSCOPE_HOME")
    assert home().name == "gpuscope"


def test_several_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path))
    (tmp_path / "this").mkdir()
    (tmp_path / "this" / "calibration.toml").write_text(ONE)
    name, own = this_target("4xthis")
    assert name == "4xnvidia-h200-sxm"
    assert own.value("matmul.bf16.efficiency") == 0.5


def test_own_constants_replace_the_catalogues_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ONE)
    h200 = device("h200")
    found = applied(load_own(path), h200)
    assert found.value("matmul.bf16.efficiency") == 0.5
    assert found.value("matmul.fp16.efficiency") == calibration_for(h200).value(
        "matmul.fp16.efficiency"
    )
    assert found.distance is Distance.SAME_DEVICE


def test_of_another_device_the_host_holds_and_kernels_are_carried(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ONE)
    own = load_own(path)
    known = applied(own, device("h200").replace(clock_hz=1e9))
    assert known.value("matmul.bf16.efficiency") == 0.5  # a what-if of the same device
    other = applied(own, device("rtx-4090"))
    assert other.value("host.op.mm.plain_s") == 1e-5
    assert other.distance is not Distance.SAME_DEVICE
    carried = other.entry("matmul.bf16.efficiency")
    assert carried.origin == "estimated"


def test_a_catalogue_folder_is_a_calibration() -> None:
    h200 = device("h200")
    found = applied(load_own(CALIBRATIONS / h200.id), h200)
    assert found.entries == calibration_for(h200).entries


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("device = ", "not valid TOML"),
        ('device = "nvidia-9000"', "which device"),
        ("", "which device"),
        (ONE.replace("low = 0.45", "low = 0.6"), "does not hold"),
        (ONE.replace('unit = "s"\n', ""), "no unit"),
    ],
)
def test_bad_files_say_why(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputFileError, match=says):
        load_own(path)


def test_a_folder_without_a_calibration(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="--replay"):
        load_own(tmp_path)
    with pytest.raises(InputFileError, match="does not exist"):
        load_own(tmp_path / "absent")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.toml"
        path.write_bytes(data)
        with pytest.raises(InputFileError):
            load_own(path)
