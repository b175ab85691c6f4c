"""Pairs of AMD devices with and without Infinity Fabric."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import instincts, server

from gpuscope.doctor.machine import Recording

BASE = "/sys/class/kfd/kfd/topology/nodes"


def test_a_healthy_board_is_told_in_one_line() -> None:
    only = the(findings("infinity_fabric", instincts(8)), "ok")
    assert only.values == {"joined_pairs": 28, "pairs": 28}


def test_a_pair_that_lacks_its_link_is_named() -> None:
    ill = instincts(4)
    for node, other in ((1, 2), (2, 1)):
        path = f"{BASE}/{node}/io_links"
        for link in ill.folders[path] or ():
            text = ill.texts[f"{path}/{link}/properties"] or ""
            if f"node_to {other}\n" in text:
                ill.texts[f"{path}/{link}/properties"] = text.replace("type 11", "type 2")
    told = the(findings("infinity_fabric", ill), "warning")
    assert told.values == {"joined_pairs": 5, "pairs": 6}
    assert "0-1" in told.found


def test_nothing_is_said_of_cards_in_slots_or_of_others() -> None:
    slots = instincts(2)
    slots.folders.pop(BASE)
    assert findings("infinity_fabric", slots) == []
    assert findings("infinity_fabric", server(2)) == []
    assert findings("infinity_fabric", Recording()) == []
    assert sorts(findings("infinity_fabric", instincts(2))) == ["ok"]
