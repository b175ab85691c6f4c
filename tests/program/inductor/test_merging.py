"""Kernels that become one because they read the same data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fusion_programs import Steps

from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.inductor import merging
from gpuscope.program.inductor.graph import Group, Node, Value
from gpuscope.program.types import Op, TensorSpec

ROWS, COLUMNS = 8192, 2048


def test_loops_of_the_same_data_share_a_kernel_unless_one_needs_the_other() -> None:
    for apart in (False, True):
        s = Steps()
        x, w = s.tensor(ROWS, COLUMNS), s.tensor(COLUMNS, COLUMNS)
        first = s.call("exp", x)
        product = s.call("mm", first, w)
        # The second loop reads what a library makes of the first one's result, or does not.
        second = s.call("mul", x, product) if apart else s.call("sin", x)
        s.keep(s.call("mm", second, w), product)
        count = sum(op.name == FUSED for op in fuse(s.program()).ops)
        assert count == (2 if apart else 1)


def test_sums_along_and_across_share_a_kernel_whatever_lies_between() -> None:
    """As gradients of a norm's weight and input do, though other loops made what both read."""
    s = Steps()
    a, b, saved = (s.tensor(ROWS, COLUMNS, dtype="bfloat16") for _ in range(3))
    total = s.call("add", a, b, phase="backward")
    dx = s.call("mul", total, saved, phase="backward", dtype="float32")
    along = s.call("sum", dx, shape=(ROWS, 1), phase="backward", args={"dim": (1,)})
    out = s.call("mul", dx, along, phase="backward")
    weight = s.call("mul", total, saved, phase="backward", dtype="float32")
    across = s.call("sum", weight, shape=(COLUMNS,), phase="backward", args={"dim": (0,)})
    s.keep(out, across)
    made = [op for op in fuse(s.program()).ops if op.name == FUSED]
    assert [op.args["reduction"] for op in made] == ["both"]


@pytest.mark.parametrize("apart", [False, True])
def test_rows_whose_values_are_apart_do_not_share_with_sums_across(apart: bool) -> None:
    """As behind a convolution whose channels are taken for the last dimension."""
    s = Steps()
    x, dy = s.tensor(ROWS, COLUMNS), s.tensor(ROWS, COLUMNS)
    if apart:
        x = replace(x, stride=(1, ROWS))
    along = s.call("sum", x, shape=(ROWS, 1), phase="backward", args={"dim": (1,)})
    out = s.call("mul", dy, along, phase="backward")
    across = s.call("sum", x, shape=(COLUMNS,), phase="backward", args={"dim": (0,)})
    s.keep(out, across)
    made = [op for op in fuse(s.program()).ops if op.name == FUSED]
    assert ("both" in [op.args["reduction"] for op in made]) is not apart


def test_a_sum_over_everything_joins_the_sums_along_rows_before_it() -> None:
    """The gradient of a scale of all logits: the scores' gradient is never written for it."""
    s = Steps()
    logits, w = s.tensor(ROWS, 32000), s.tensor(32000, COLUMNS)
    grad = s.call("_softmax", logits, phase="backward", args={"dim": -1})
    product = s.call("mul", grad, logits, phase="backward")
    scale = s.call("sum", product, shape=(), phase="backward")
    half = s.call("_to_copy", grad, dtype="bfloat16", phase="backward")
    s.keep(scale, s.call("mm", half, w, shape=(ROWS, COLUMNS), phase="backward"))
    fused = fuse(s.program())
    made = [op for op in fused.ops if op.name == FUSED]
    first = next(op for op in made if "_softmax" in op.args["operators"])
    assert "sum" in first.args["operators"]
    assert {(t.shape, t.dtype) for t in first.outputs} == {
        ((ROWS, 32000), "bfloat16"),
        ((ROWS, 1), "float32"),
    }
    assert [op.args["columns"] for op in made] == [32000, ROWS]


def test_ways_between_kernels_are_found_without_looking_behind_a_cut(monkeypatch) -> None:
    """Blocks of shared reads, some of which need each other, with a product between the blocks."""
    looked, asked = [], merging._one_needs_the_other

    def both(group, other, cuts=None):
        found = asked(group, other, cuts)
        assert found == asked(group, other)
        looked.append((found, cuts is not None and max(map(cuts.before, (group, other))) > 0))
        return found

    monkeypatch.setattr(merging, "_one_needs_the_other", both)
    s = Steps()
    x, w = s.tensor(ROWS, COLUMNS), s.tensor(COLUMNS, COLUMNS)
    for _ in range(5):
        beside = [s.call("exp", x), s.call("sin", x)]
        products = [s.call("mm", each, w) for each in beside]
        after = [s.call("mul", x, each) for each in products]
        total = s.call("add", *after)
        s.keep(*products, total)
        x = s.call("mm", total, w)
    fuse(s.program())
    assert any(found for found, _ in looked)
    assert any(cut for _, cut in looked)


def test_a_way_through_a_kernel_that_lies_on_both_sides_is_found() -> None:
    spec = TensorSpec((4,), (1,), "float32")

    def node(number: int, *sources: Node) -> Node:
        made = Node(number, Op(number, "aten::exp"), "loop", None, 1)
        made.reads = [(source.writes[0], spec) for source in sources]
        made.writes = [Value(number, spec, made)]
        return made

    def kernel(*nodes: Node) -> Group:
        group = Group(1, 1, nodes=list(nodes))
        for each in nodes:
            each.group = group
        return group

    before = [node(0), node(1)]
    first = node(2)
    wanted = node(3)
    second = node(4, wanted)  # one kernel with the first: who reads that needs what this needs
    reader = node(5, first)
    for each in before:
        kernel(each)
    kernel(first, second)
    target, asking = kernel(wanted), kernel(reader)
    cuts = merging._Cuts([*before, first, wanted, second, reader])
    assert cuts.before(target) == 2
    assert merging._needs(asking, target, cuts)
    assert not merging._needs(target, asking, cuts)
