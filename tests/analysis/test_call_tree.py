"""Two runs by their call tree, counted by hand."""

from __future__ import annotations

import pytest

from gpuscope.analysis.call_tree import call_tree
from gpuscope.analysis.types import ModuleShare


def tree(**times_ms: float) -> list[ModuleShare]:
    """Modules with their children's time; "_" stands for "." and "model" for the model."""
    return [
        ModuleShare(
            "" if path == "model" else path.replace("_", "."), "M", 0, ms / 1e3, 0, 0, 0, 0, 0
        )
        for path, ms in times_ms.items()
    ]


def test_a_difference_is_followed_down_to_its_part() -> None:
    a = tree(model=10.0, h=8.0, h_0=4.0, h_0_mlp=3.0, h_10=4.0, head=1.0)
    b = tree(model=14.0, h=12.0, h_0=8.0, h_0_mlp=7.0, h_10=4.0, head=1.0)
    found = call_tree(a, b, 14e-3)
    assert [(node.path, node.depth) for node in found] == [
        ("", 0), ("h", 1), ("h.0", 2), ("h.0.mlp", 3),
    ]  # fmt: skip
    assert {round(node.difference_s * 1e3, 6) for node in found} == {4.0}


def test_layers_come_in_their_order_and_new_ones_count_from_nothing() -> None:
    found = call_tree(tree(h_2=1.0, h_10=1.0), tree(h_2=3.0, h_10=4.0, x=2.0), 10e-3)
    assert [node.path for node in found] == ["h.2", "h.10", "x"]
    assert (found[2].a_s, found[2].b_s) == (0.0, pytest.approx(2e-3))
    assert [node.depth for node in found] == [0, 0, 0]


def test_equal_trees_have_no_difference() -> None:
    assert call_tree(tree(model=10.0, h=8.0), tree(model=10.1, h=8.1), 10e-3) == ()
