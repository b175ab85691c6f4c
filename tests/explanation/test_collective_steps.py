"""What the diagram of a collective shows: every rank's steps, and bytes that add up."""

from __future__ import annotations

from collections import Counter

import pytest

from gpuscope.document.blocks import Diagram
from gpuscope.explanation.collective_case import make_case
from gpuscope.explanation.collective_steps import steps_diagram


def drawn(operation: str, on: str, amount: str = "64MB") -> Diagram:
    return steps_diagram(make_case(operation, amount, on, "bf16"))


@pytest.mark.parametrize(
    ("operation", "on", "steps", "each"),
    [
        ("all_reduce", "8xa100-sxm-80gb", 14, 8),
        ("all_gather", "8xh200", 7, 8),
        ("reduce_scatter", "4xh200", 3, 4),
        ("all_reduce", "2xh200", 2, 2),
    ],
)
def test_a_ring_uses_every_way_in_every_step(
    operation: str, on: str, steps: int, each: int
) -> None:
    block = drawn(operation, on)
    assert len(block.steps) == steps
    assert Counter(link.step for link in block.links) == dict.fromkeys(range(steps), each)
    for step in range(steps):
        links = [link for link in block.links if link.step == step]
        assert (
            {link.a for link in links}
            == {link.b for link in links}
            == {node.key for node in block.nodes}
        )


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_the_parts_that_are_sent_do_what_the_operation_means(operation: str, n: int) -> None:
    """Whose contributions each rank holds of each part, step after step."""
    block = drawn(operation, f"{n}xa100-sxm-80gb", "1680KB")
    gathers = operation == "all_gather"
    held = [[{p} if not gathers or p == r else set() for p in range(n)] for r in range(n)]
    if not gathers:
        held = [[{r} for _ in range(n)] for r in range(n)]
    for step in range(len(block.steps)):
        sent = []
        for link in (link for link in block.links if link.step == step):
            assert link.label is not None
            part = int(link.label.removeprefix("part "))
            sent.append((int(link.b[1:]), part, set(held[int(link.a[1:])][part])))
        for rank, part, contributions in sent:
            held[rank][part] |= contributions
    everyone = set(range(n))
    for rank in range(n):
        if operation == "all_reduce":
            assert held[rank] == [everyone] * n
        elif operation == "reduce_scatter":
            assert held[rank][rank] == everyone
        else:
            assert held[rank] == [{part} for part in range(n)]


def test_the_ring_carries_what_its_ranks_send() -> None:
    case = make_case("all_reduce", "64MB", "8xa100-sxm-80gb", "bf16")
    block = steps_diagram(case)
    for link in block.links:
        assert link.bytes_per_s == pytest.approx(case.taken.sent_bytes / case.taken.time_s)
        assert link.bytes_per_s is not None
        assert link.limit_bytes_per_s == 300e9 > link.bytes_per_s


def test_a_switch_that_adds_is_read_and_written_by_every_rank() -> None:
    block = drawn("all_reduce", "8xh200", "1GB")
    assert len(block.steps) == 2
    for step, end in ((0, "b"), (1, "a")):
        links = [link for link in block.links if link.step == step]
        assert len(links) == 8
        assert {getattr(link, end) for link in links} == {"switch"}


@pytest.mark.parametrize("on", ["64xtpu-v5p", "256xtpu-v5e", "16xtrainium2"])
def test_a_torus_has_neighbours(on: str) -> None:
    block = drawn("all_gather", on)
    names = {node.key for node in block.nodes}
    assert len(names) == 16
    assert len(block.links) == 2 * 4 * 3
    assert all(link.a in names and link.b in names for link in block.links)


def test_pairs_go_from_all_to_all() -> None:
    block = drawn("all_to_all", "8xh200")
    assert len({(link.a, link.b) for link in block.links}) == 8 * 7


@pytest.mark.parametrize("operation", ["all_reduce", "all_to_all", "broadcast", "all_gather"])
@pytest.mark.parametrize("on", ["8x8xh100", "72xgb200", "16xh200"])
def test_of_many_ranks_one_domain_is_drawn_and_said(operation: str, on: str) -> None:
    block = drawn(operation, on)
    names = {node.key for node in block.nodes}
    assert "out" in names
    assert len(names) <= 17
    assert all(link.a in names and link.b in names for link in block.links)
    leaving = [link for link in block.links if "out" in (link.a, link.b)]
    assert leaving
    if on == "72xgb200":
        assert not any(link.narrowest for link in block.links)
        assert {link.limit_bytes_per_s for link in leaving} == {900e9}
    else:
        assert all(link.narrowest for link in leaving)
        assert {link.limit_bytes_per_s for link in leaving} == {50e9}


def test_a_tree_goes_up_and_comes_down() -> None:
    block = drawn("all_reduce", "8x8xh100", "1MB")
    assert len(block.steps) == 4
    up = [(link.a, link.b) for link in block.links if link.step == 0]
    down = [(link.b, link.a) for link in block.links if link.step == 3]
    assert sorted(up) == sorted(down)
    assert [(k.a, k.b) for k in block.links if k.step in (1, 2)] == [("r0", "out"), ("out", "r0")]


def test_no_way_carries_more_than_it_can() -> None:
    for operation in ("all_gather", "all_to_all", "broadcast", "reduce_scatter"):
        for on in ("8xh200", "2x8xh200", "8xmi300x", "4x8xb200"):
            for link in drawn(operation, on, "1GB").links:
                assert link.bytes_per_s is not None
                assert link.limit_bytes_per_s is not None
                assert link.bytes_per_s <= link.limit_bytes_per_s
