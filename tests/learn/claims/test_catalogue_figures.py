"""Figures of the catalogue as sources: value, words, origin, sources; and what is not there."""

from __future__ import annotations

import pytest

from gpuscope.document.text import render
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import device, devices
from gpuscope.learn.claims.catalogue_figures import (
    catalogue,
    has_rate,
    how_many,
    kind_is,
    link,
    most,
    own_link,
    process_nm,
    text_is,
    topology_has,
)


def test_a_field_with_its_origin_and_sources() -> None:
    found = catalogue("h100", "tdp_w")
    assert found.value == 700
    assert found.how == "NVIDIA H100 SXM5 80GB, power limit: 700 W (secondary source)"
    assert "二手来源" in render(found.how, "zh")
    assert found.method == "catalogue"
    assert found.sources == dict(device("h100").sources)["tdp_w"]
    assert catalogue("h200", "l2_bytes").how.endswith("(measured)")


def test_a_rate_is_the_dense_one() -> None:
    assert catalogue("rtx-4090", "bf16").value == pytest.approx(165.2e12)
    assert catalogue("mi300x", "fp8").label == "Instinct MI300X"


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(UnsupportedError):
        catalogue("a100", "fp8")
    with pytest.raises(UnsupportedError):
        catalogue("trainium3", "tdp_w")
    with pytest.raises(UnknownNameError):
        catalogue("h1000", "tdp_w")
    with pytest.raises(UnknownNameError, match="tdp_w"):
        catalogue("h100", "tdpw")
    with pytest.raises(UnsupportedError):
        own_link("rtx-4090", "scale_up")
    with pytest.raises(UnsupportedError):
        process_nm("trainium1")
    with pytest.raises(UnsupportedError):
        link("xe-link")


def test_yes_and_no() -> None:
    assert (has_rate("v100", "bf16").value, has_rate("a100", "bf16").value) == (0, 1)
    assert text_is("a100-sxm-40gb", "memory_type", "HBM2").value == 1
    assert kind_is("nvlink-c2c", "host", "coherent-host").value == 1
    assert kind_is("nvlink-4", "host", "coherent-host").value == 0
    assert topology_has("ici-v5p", "3D Torus").value == 1
    assert topology_has("efa-trn1", "torus").value == 0


def test_over_the_whole_catalogue() -> None:
    nvidia = [d for d in devices() if d.vendor == "NVIDIA"]
    assert most("compute_units", "NVIDIA").value == max(d.compute_units or 0 for d in nvidia)
    least = most("compute_units", "NVIDIA", least=True).value
    assert least == min(d.compute_units for d in nvidia if d.compute_units)
    assert how_many("AMD", "pytorch_device", "amd").value == 0
    assert how_many("AMD", "pytorch_device", "cuda").value == 1


def test_processes_and_links() -> None:
    assert process_nm("maia-100").value == 5e-9
    assert process_nm("mi350x").value == 3e-9
    assert link("nvlink-4").value == 450e9
    assert link("nvlink-4", "links_per_device").value == 18
    assert own_link("a800", "scale_up").value == 200e9
