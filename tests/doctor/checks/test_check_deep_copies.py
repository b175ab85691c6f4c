from __future__ import annotations

import pytest
from deep_machines import by_severity, healthy, row

from gpuscope.doctor.checks.deep_copies import deep_copies


def test_the_healthy_are_told_with_their_rates() -> None:
    found = list(deep_copies(healthy(8)))
    assert by_severity(found) == {"ok": [None]}
    assert found[0].values["together_bytes_per_s"] == pytest.approx(8 * 40e9)
    assert found[0].values["h2d_pinned_bytes_per_s"] == pytest.approx(55.4e9, rel=0.02)


def test_memory_a_tenth_slower_than_the_neighbours_is_named() -> None:
    machine = healthy(8)
    row(machine, "deep_copies", 5)["inside"]["bytes_per_s"] = 3.8e12
    found = list(deep_copies(machine))
    assert by_severity(found) == {"warning": [5], "ok": [None]}
    assert "device memory" in found[0].title


@pytest.mark.parametrize("kind", ["h2d_pinned", "d2h_pinned"])
def test_a_slow_link_to_the_host(kind) -> None:
    machine = healthy(1)
    row(machine, "deep_copies", 0)[kind]["bytes_per_s"] = 26e9
    found = list(deep_copies(machine))
    assert by_severity(found) == {"warning": [0]}
    assert "host" in found[0].title


def test_the_far_processor_is_no_alarm() -> None:
    """Half of the devices hang on the other processor: a third slower is usual there."""
    machine = healthy(8)
    for index in range(4, 8):
        row(machine, "deep_copies", index)["d2h_pinned"]["bytes_per_s"] = 37e9
    assert by_severity(deep_copies(machine)) == {"ok": [None]}


def test_an_older_slot_is_a_note_and_its_rate_is_right_for_it() -> None:
    machine = healthy(1)
    entry = row(machine, "deep_copies", 0)
    entry |= {"pcie_generation": 4}
    for kind in ("h2d_pinned", "d2h_pinned"):
        entry[kind]["bytes_per_s"] = 26e9
    found = list(deep_copies(machine))
    assert by_severity(found) == {"note": [0], "ok": [None]}
    assert "PCIe 4 x16" in found[0].found


def test_a_link_that_is_not_told_is_taken_as_the_devices_own() -> None:
    machine = healthy(1)
    entry = row(machine, "deep_copies", 0)
    del entry["pcie_generation"], entry["pcie_width"]
    assert by_severity(deep_copies(machine)) == {"ok": [None]}
