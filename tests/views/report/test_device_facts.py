"""Facts of a device for the page: the catalogue's own figures, with where they come from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import gpt_run

from gpuscope.document.plain import plain
from gpuscope.hardware import Distance, device, device_ids
from gpuscope.views.report.device_facts import device_facts, facts_of


def test_an_h200_by_its_datasheet() -> None:
    facts = device_facts(gpt_run())
    assert facts is not None
    assert facts.id == "nvidia-h200-sxm"
    assert (facts.compute_units, facts.compute_unit_label) == (132, "SM")
    assert facts.memory_bandwidth_bytes_per_s == 4.8e12
    assert {p.dtype: p.flops_per_s for p in facts.peaks if p.tensor}["bfloat16"] == 989.4e12
    assert [p.flops_per_s for p in facts.peaks] == sorted(
        (p.flops_per_s for p in facts.peaks), reverse=True
    )
    assert facts.scale_up is not None
    assert facts.scale_up.bandwidth_bytes_per_s == 450e9
    assert facts.host_link is not None
    assert facts.host_link.name.startswith("PCIe 5.0")
    assert facts.power_limit_w == 700
    assert facts.origins["l2_bytes"] == "measured"
    assert facts.origins["memory_bandwidth_bytes_per_s"] == "datasheet"
    assert facts.origins["l2_bytes_per_s"] == "calibrated"


def test_rates_of_the_l2_cache_are_above_those_of_memory() -> None:
    facts = facts_of(device("nvidia-h200-sxm"))
    assert facts.l2_bytes_per_s is not None
    assert facts.memory_bandwidth_bytes_per_s < facts.l2_bytes_per_s < 2e13
    assert facts.l2_unit_bytes_per_s is not None
    assert facts.l2_unit_bytes_per_s * 132 > facts.memory_bandwidth_bytes_per_s
    assert facts.tensor_flops_per_clock == pytest.approx(989.4e12 / 132 / 1.98e9)


def test_constants_of_another_device_are_estimates() -> None:
    facts = facts_of(device("nvidia-h100-sxm"))
    assert facts.calibrated_on == "nvidia-h200-sxm"
    assert facts.calibration != Distance.SAME_DEVICE
    assert facts.origins["l2_bytes_per_s"] == "estimated"


@pytest.mark.parametrize("name", device_ids())
def test_every_device_has_facts_and_missing_ones_are_none(name: str) -> None:
    known = device(name)
    facts = facts_of(known)
    assert facts.memory_bytes == known.memory_bytes
    assert facts.compute_units == known.compute_units
    assert all(p.flops_per_s > 0 for p in facts.peaks)
    assert (facts.l2_bytes_per_s is None) or (known.clock_hz is not None)
    assert 0 not in (facts.clock_hz, facts.power_limit_w, facts.l2_bytes_per_s)
    assert set(facts.origins.values()) <= {
        "datasheet",
        "secondary source",
        "measured",
        "calibrated",
        "estimated",
    }
    plain(facts)


def test_a_run_of_no_known_device_has_none() -> None:
    run = gpt_run()
    assert device_facts(replace(run, device_id="")) is None
    assert device_facts(replace(run, device_id="a-device-of-2060")) is None
