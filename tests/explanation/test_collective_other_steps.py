"""Diagrams of switches that add, tori and doubling distances: every box and way adds up."""

from __future__ import annotations

import pytest

from gpuscope.explanation.collective_case import CollectiveCase, make_case
from gpuscope.explanation.collective_other_steps import (
    doubling_diagram,
    switch_diagram,
    torus_diagram,
)


def case(operation: str, on: str, amount: str = "1GB") -> CollectiveCase:
    return make_case(operation, amount, on, "bf16")


@pytest.mark.parametrize(("on", "steps"), [("8xh200", 2), ("4x8xh100", 3), ("72xgb200", 2)])
def test_a_switch_is_read_and_written(on: str, steps: int) -> None:
    made = switch_diagram(case("all_reduce", on))
    names = {node.key for node in made.nodes}
    assert len(made.steps) == steps
    assert {link.step for link in made.links} == set(range(steps))
    assert all(link.a in names and link.b in names for link in made.links)
    assert ("out" in names) == (on != "8xh200")
    ranks = [n for n in names if n.startswith("r")]
    assert {link.a for link in made.links if link.step == 0} >= set(ranks)
    assert {link.b for link in made.links if link.step == steps - 1} >= set(ranks)


def test_a_plane_of_a_torus() -> None:
    made = torus_diagram(case("all_gather", "64xtpu-v5p"))
    assert len([n for n in made.nodes if n.key.startswith("r")]) == 16
    assert len(made.links) == 24
    assert made.note is not None
    assert "4 x 4 x 4; 3 of 3" in made.note


def test_distances_double_until_all_are_reached() -> None:
    made = doubling_diagram(case("all_gather", "16xgh200", "1MB"))
    assert len(made.steps) == 4
    reached = {"r0"}
    for step in range(4):
        for link in made.links:
            if link.step == step and link.a in reached:
                reached.add(link.b)
    assert len(reached) == 16
    assert len(made.links) == 15  # each gets it once
