"""A command's energy on the terminal and as JSON."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from gpuscope.document.text import Text, render
from gpuscope.hardware.grid import grid_factor
from gpuscope.views.watch_energy import METHODS, energy_document, render_energy
from gpuscope.watch.energy_of import DeviceEnergy, EnergyReport

GPU = DeviceEnergy("NVIDIA H200", 0, 2.7e6, 60.0, 500.0, 690.0, "counter")
OTHER = DeviceEnergy("NVIDIA H200", 1, 0.9e6, 90.0, 300.0, 310.0, "power")
SILENT = DeviceEnergy(
    "NVIDIA H200", 2, None, None, None, 75.0, "none", Text("It tells neither energy nor power.")
)
HOST = DeviceEnergy("package-0", None, 3.6e5, 20.0, 100.0, None, "counter")


def report(
    *devices: DeviceEnergy, host: DeviceEnergy | None = HOST, price: float | None = 0.5
) -> EnergyReport:
    command = ("python", "my file.py")
    return EnergyReport(command, 3, 3600.0, devices, host, grid_factor("fr"), price)


def shown(found: EnergyReport, lang: str = "en", width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render_energy(found, lang))
    return console.file.getvalue()


def test_known_answers() -> None:
    text = shown(report(GPU, OTHER))
    assert "python 'my file.py'" in text
    assert "2 × NVIDIA H200" in text
    assert "exit code 3" in text
    assert re.search(r"GPU 0 +2\.70 MJ +60 J +500 W +690 W +█+ +counter", text)
    assert re.search(r"GPU 1 +900 kJ .*integral", text)
    assert "3.96 MJ = 1,100 Wh" in text
    assert "61.6 g of CO2 equivalent  (56 g/kWh, France 2023, Ember" in text
    assert "$0.550  ($0.5/kWh, as given)" in text
    assert "≥" not in text


def test_a_device_that_is_missing_makes_it_a_lower_bound() -> None:
    text = shown(report(GPU, SILENT))
    assert "≥ 3.06 MJ" in text
    assert "GPU 2: It tells neither energy nor power." in text


def test_what_is_not_known_is_asked_for() -> None:
    text = shown(report(GPU, host=None, price=None))
    assert "--price" in text
    assert "The host's processors do not tell their energy here." in text
    assert "$" not in text


def test_a_machine_that_tells_nothing_is_met_calmly() -> None:
    text = shown(report(host=None))
    assert "nothing here that tells its energy" in text
    assert "CO2" not in text
    assert len(text.splitlines()) <= 4


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_it_fits_every_terminal(lang: str, width: int) -> None:
    text = shown(report(GPU, OTHER, SILENT), lang, width)
    assert "…" not in text
    assert "2.70 MJ" in text


def test_chinese() -> None:
    text = shown(report(GPU, OTHER, SILENT), "zh")
    for part in ("能耗", "峰值", "计数器", "功率积分", "克二氧化碳当量", "法国 2023", "主机 CPU"):
        assert part in text
    assert not re.search(r"\b(energy|counter|together|peak)\b", text)


def test_every_text_that_is_made_elsewhere_is_translated() -> None:
    from gpuscope.measurement.sensors import Replay
    from gpuscope.measurement.sensors.types import Reading, SensorInfo
    from gpuscope.watch.energy_of import Meter

    assert render(METHODS["counter"], "zh") != METHODS["counter"]
    whole, part = SensorInfo("nvidia", 0, "x"), SensorInfo("nvidia", 0, "x", slice=True)
    said = {Meter(Replay([Reading(0.0)])).result().why_not}
    for info, seconds in ((whole, 5.0), (whole, 0.5), (part, 5.0)):
        meter = Meter(Replay([Reading(0.0), Reading(seconds)], info))
        meter.read()
        meter.read()
        said.add(meter.result().why_not)
    assert len(said) == 4
    assert [text for text in said if render(text, "zh") == text] == []


def test_the_document_is_plain_and_missing_is_null() -> None:
    document = json.loads(json.dumps(energy_document(report(GPU, SILENT, host=None, price=None))))
    assert (document["schema"], document["version"]) == ("gpuscope.energy", 1)
    assert document["energy_j"] == 2.7e6
    assert document["complete"] is False
    assert document["host"] is None
    assert document["cost_usd"] is None
    assert document["devices"][1]["energy_j"] is None
    assert document["devices"][0]["why_not"] is None
    assert document["co2_g"] == pytest.approx(42.0)
    assert document["grid"] == {
        "code": "fr",
        "place": "France",
        "g_per_kwh": 56.0,
        "year": 2023,
        "source": "Ember, Yearly Electricity Data",
    }
