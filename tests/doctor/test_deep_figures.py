from __future__ import annotations

import pytest
from deep_machines import healthy, no_device, row

from gpuscope.doctor.deep_figures import deep_section
from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.explanation import explain_diagnosis
from gpuscope.doctor.machine import Recording
from gpuscope.document.blocks import HeatMap, Lines, Table


def _section(machine: Recording, *only: str):
    return deep_section(diagnose(machine, deep=True, only=only or ("deep",)), machine)


def test_eight_devices_side_by_side() -> None:
    found = _section(healthy(8))
    assert found is not None
    products, copies, pairs, rate, clock, power, temperature = found.blocks
    assert isinstance(products, Table)
    assert len(products.rows) == 8
    assert [c.label for c in products.columns][:3] == ["device", "bf16", "fp16"]
    assert products.rows[0][1] == pytest.approx(720e12, rel=0.02)
    assert products.marked == ()
    assert isinstance(copies, Table)
    assert copies.rows[3][1] == pytest.approx(4.24e12, rel=0.01)
    assert isinstance(pairs, HeatMap)
    assert pairs.values[2][2] is None  # no way to itself
    assert pairs.values[0][1] == pytest.approx(390e9, rel=0.02)
    assert isinstance(rate, Lines)
    assert len(rate.series) == 8
    # An H200 held 671 TFLOP/s (validation/recordings/h200/micro/power.csv.gz, matmul_bf16).
    assert rate.marks[0].y == pytest.approx(671e12, rel=0.05)
    for lines, value in ((clock, 1.467e9), (power, 697.0), (temperature, 66.0)):
        assert isinstance(lines, Lines)
        assert lines.series[0].y[-1] == value


def test_the_device_that_stands_out_is_marked() -> None:
    machine = healthy(8)
    row(machine, "deep_copies", 5)["inside"]["bytes_per_s"] /= 2
    found = _section(machine)
    assert found is not None
    products, copies = found.blocks[:2]
    assert copies.marked == (5,)
    assert products.marked == ()


def test_a_device_that_failed_has_no_row() -> None:
    machine = healthy(3)
    row(machine, "deep_products", 1).update(error="CUDA error", lost=True)
    found = _section(machine, "deep_products")
    assert found is not None
    assert [cells[0] for cells in found.blocks[0].rows] == [0, 2]


def test_a_test_that_did_not_run_is_not_begun() -> None:
    class Asked(Recording):
        def probe(self, name: str, timeout_s: float = 20.0):
            asked.append(name)
            return super().probe(name, timeout_s)

    asked: list[str] = []
    machine = Asked(probes=healthy(2).probes)
    diagnosis = diagnose(machine, only=["deep_memory"], deep=True)
    asked.clear()
    assert deep_section(diagnosis, machine) is None
    assert asked == []


def test_one_device_has_no_pairs_to_begin() -> None:
    machine = healthy(1)
    machine.probes["torch_libraries"] = {"installed": True, "devices": [{"index": 0}]}
    diagnosis = diagnose(machine, only=["deep_pairs"], deep=True)
    machine.probes["deep_pairs"] = healthy(2).probes["deep_pairs"]  # if it were asked
    assert deep_section(diagnosis, machine) is None


def test_without_devices_there_is_nothing_to_show() -> None:
    assert _section(no_device()) is None


def test_the_page_shows_them_once() -> None:
    machine = healthy(2)
    page = explain_diagnosis(diagnose(machine, deep=True, only=["deep"]), machine)
    assert sum("side by side" in section.title for section in page.sections) == 1
    plain = explain_diagnosis(diagnose(machine, only=["container_kind"]), machine)
    assert not any("side by side" in section.title for section in plain.sections)
