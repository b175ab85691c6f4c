"""Prices: of a file, of the catalogue, their age; they change the cost and nothing else."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from made import asked

from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError
from gpuscope.hardware import device
from gpuscope.planning.prices import OLD_DAYS, told, with_prices

ROW = '[h200]\nusd_per_hour = 2.5\ndate = 2026-11-01\nregion = "eu"\nsource = "contract"\n'


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_changes_the_price_of_its_devices_alone(tmp_path: Path) -> None:
    usual = asked(on="h200,h100", devices="8")
    mine = asked(on="h200,h100", devices="8", prices=_file(tmp_path, ROW))
    assert mine.clusters[0].price_usd_per_hour == pytest.approx(20.0)
    assert mine.clusters[1] == usual.clusters[1]
    assert mine.clusters[0].device.source("price_usd_per_hour") == "contract"
    assert mine.clusters[0].device.tdp_w == usual.clusters[0].device.tdp_w
    assert with_prices(usual.clusters, {}) == usual.clusters


def test_a_device_without_a_price_can_be_given_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="is not known") as error:
        asked(on="mi325x", goal="cost")
    assert "--prices FILE" in str(error.value.next_step)
    given = _file(tmp_path, ROW.replace("h200", "mi325x"))
    assert asked(on="mi325x", goal="cost", prices=given).clusters[0].price_usd_per_hour == 20.0


def test_the_age_of_a_price_is_told(tmp_path: Path) -> None:
    clusters = asked(devices="1..8", prices=_file(tmp_path, ROW)).clusters
    read = datetime.date(2026, 11, 1)
    devices = [cluster.device for cluster in clusters]
    fresh = [str(line) for line in told(devices, read + datetime.timedelta(OLD_DAYS))]
    assert len(fresh) == 1  # one device, though several numbers of it
    assert "2.5" in fresh[0]
    assert "eu; 2026-11-01; contract" in fresh[0]
    old = [str(line) for line in told(devices, read + datetime.timedelta(OLD_DAYS + 1))]
    assert "91 days old" in old[1]


def test_a_price_of_no_known_day_says_so_and_none_says_nothing() -> None:
    today = datetime.date(2026, 11, 24)
    assert "no known day" in str(told([device("a100-80gb-pcie")], today)[1])
    assert told([device("mi325x")], today) == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", InputFileError),
        ("h200", InputFileError),
        ("[h20000]\nusd_per_hour = 1", UnknownNameError),
        ("h200 = 3", InvalidValueError),
        (ROW.replace("2.5", "-1"), InvalidValueError),
        (ROW.replace("2.5", "nan"), InvalidValueError),
        (ROW.replace("2026-11-01", '"some day"'), InvalidValueError),
        (ROW.replace("usd_per_hour", "eur_per_hour"), UnknownNameError),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, kind: type[GpuscopeError]) -> None:
    with pytest.raises(kind) as error:
        asked(prices=_file(tmp_path, text))
    assert error.value.next_step


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        asked(prices=tmp_path / "none.toml")
