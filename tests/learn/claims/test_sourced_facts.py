"""Stated facts: each has a document, and they agree with the catalogue."""

from __future__ import annotations

import pytest

from gpuscope.errors import UnknownNameError
from gpuscope.hardware import device
from gpuscope.learn.claims.scales import SCALES
from gpuscope.learn.claims.sourced_facts import fact, stated, terms

FACTS = stated().facts


def test_every_fact_is_whole() -> None:
    for name, found in FACTS.items():
        assert found.unit in SCALES, name
        assert found.value > 0, name
        assert len(found.source) > 10, name
        assert found.about, name
    for name, kind in stated().terms.items():
        assert kind.names, name
        assert kind.about, name
        assert len(kind.source) > 10, name


@pytest.mark.parametrize(
    ("name", "cores"),
    [("v100", "v100"), ("a100", "a100"), ("rtx-4090", "ada"), ("b200", "blackwell")],
)
def test_tensor_cores_fit_the_peak(name: str, cores: str) -> None:
    """Peak over cores and clock is nearly a power of two of multiply-adds."""
    found = device(name)
    per_clock = found.flops_per_clock_per_unit("fp16") / FACTS[f"{cores}.tensor_cores"].value / 2
    nearest = 2 ** round(per_clock - 1).bit_length()
    assert 0.9 < per_clock / nearest <= 1.02


def test_buses_and_pins_fit_the_bandwidth() -> None:
    rtx4090 = FACTS["rtx4090.bus"].value * FACTS["rtx4090.pin"].value / 8
    assert rtx4090 == pytest.approx(device("rtx-4090").memory_bandwidth_bytes_per_s, rel=0.01)
    a100 = FACTS["a100.bus"].value * FACTS["a100.memory_clock"].value * 2 / 8
    assert a100 == pytest.approx(device("a100-sxm-40gb").memory_bandwidth_bytes_per_s, rel=0.01)


def test_dojo_adds_up() -> None:
    d1 = device("dojo-d1")
    sram = FACTS["node.sram"].value * (d1.compute_units or 0)
    assert sram == pytest.approx(d1.on_chip_sram_bytes)
    assert FACTS["tile.chips"].value * (d1.compute_units or 0) == device("dojo-tile").compute_units


def test_an_unknown_fact_is_refused() -> None:
    with pytest.raises(UnknownNameError):
        fact("h100.transistor")
    with pytest.raises(UnknownNameError):
        terms("cuda")
