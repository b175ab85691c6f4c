"""What ranks do with a step, by hand: parts that add up, waiting told from moving data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.analysis.job import job_story, place_of
from gpuscope.analysis.job_types import JobStory
from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.document.text import render
from gpuscope.program.types import MeshDimension, Op, ProcessGroup, Program, TensorSpec
from gpuscope.timeline.simulate_ranks import simulate_ranks

MS = 1e-3
NUMBERS = TensorSpec((1024,), (1,), "bfloat16")


def _rank(rank: int, compute_ms: float, *, beside: bool = False, pair: int = -1) -> CostedProgram:
    """A kernel and a message: an all-reduce of both ranks, or a send or receive."""
    group = ProcessGroup("0", "pp" if pair >= 0 else "dp", (0, 1))
    name = "c10d::allreduce_" if pair < 0 else ("c10d::send" if rank == 0 else "c10d::recv_")
    receives = name == "c10d::recv_"
    # Unless it runs beside, what comes second waits for the first, and the next step for both.
    first, second = ((), ()) if beside else ((-1,), (0,))
    if beside or receives:
        talk = Op(0, name, inputs=(NUMBERS,), group=0, peer=pair, waits=first)
        work = Op(1, "aten::mm", inputs=(NUMBERS,), waits=second)
    else:
        work = Op(0, "aten::mm", inputs=(NUMBERS,), waits=first)
        talk = Op(1, name, inputs=(NUMBERS,), group=0, peer=pair, waits=second)
    ops = tuple(sorted((work, talk), key=lambda op: op.index))
    program = Program(
        "two", ops, rank=rank, world_size=2, groups=(group,), mesh=(MeshDimension(group.label, 2),)
    )

    def kernel(op: Op) -> Kernel:
        if op is talk:
            return Kernel("talk", "collective", op.index, 2 * MS, 2 * MS, 2 * MS, lane="link")
        length = compute_ms * MS
        return Kernel("mm", "matmul", op.index, length, length, length, flops=compute_ms)

    costed = tuple(CostedOp(op, (kernel(op),), HostCost(0.0, 0.0, 0.0)) for op in ops)
    return CostedProgram(program, "h200", costed, launch_latency_s=0.0, kernel_gap_s=0.0)


def _story(*ranks: CostedProgram, step_s: float | None = None) -> JobStory:
    found = simulate_ranks(ranks, [(rank.program.rank,) for rank in ranks])
    story = job_story(
        found.timeline,
        step_time_s=found.step_time_s if step_s is None else step_s,
        program=ranks[0].program,
    )
    assert story is not None
    return story


def test_the_faster_rank_waits_and_both_move_data() -> None:
    story = _story(_rank(0, 10.0), _rank(1, 4.0))
    slow, fast = story.ranks
    assert slow.compute_s == pytest.approx(10 * MS)
    assert (slow.exposed_s, slow.imbalance_s) == pytest.approx((2 * MS, 0.0), abs=1e-6)
    assert (fast.exposed_s, fast.imbalance_s) == pytest.approx((2 * MS, 6 * MS), abs=1e-6)
    assert slow.bubble_s == fast.bubble_s == 0.0
    assert story.mean_model_flops == pytest.approx(7.0)
    assert story.limit.startswith("Unequal ranks limit scaling: they wait for each other 25 %")
    assert "25 %" in render(story.limit, "zh")


def test_waiting_for_another_stage_is_the_bubble() -> None:
    story = _story(_rank(0, 10.0, pair=1), _rank(1, 4.0, pair=0))
    first, second = story.ranks
    assert second.bubble_s > 3 * MS
    assert second.imbalance_s == first.imbalance_s == 0.0
    assert second.groups[0].pipeline
    assert story.mesh == (("pp", 2),)
    assert [rank.place for rank in story.ranks] == [(0,), (1,)]


def test_communication_under_kernels_is_hidden() -> None:
    story = _story(_rank(0, 10.0, beside=True), _rank(1, 10.0, beside=True))
    for rank in story.ranks:
        assert rank.exposed_s == pytest.approx(0.0, abs=1e-6)
        assert rank.groups[0].hidden_s == pytest.approx(2 * MS, abs=1e-6)
    assert story.limit.startswith("Nothing between the ranks limits this job")


def test_what_is_known_of_chance_is_told() -> None:
    story = _story(_rank(0, 10.0), _rank(1, 10.0), step_s=20 * MS)
    assert story.chance_s == pytest.approx(8 * MS, abs=1e-6)
    assert story.limit.startswith("Chance limits scaling")
    assert sum(part.time_s for part in story.parts) == pytest.approx(20 * MS)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 20), st.floats(0.5, 20), st.booleans(), st.booleans())
def test_the_parts_of_each_rank_add_up_to_the_step(
    first: float, second: float, beside: bool, pair: bool
) -> None:
    ranks = [
        _rank(n, time, beside=beside and not pair, pair=1 - n if pair else -1)
        for n, time in enumerate((first, second))
    ]
    story = _story(*ranks)
    for rank in story.ranks:
        parts = (rank.compute_s, rank.exposed_s, rank.bubble_s, rank.imbalance_s, rank.idle_s)
        assert min(parts) >= 0
        assert sum(parts) + story.chance_s == pytest.approx(story.step_s, rel=1e-6)
    assert sum(part.time_s for part in story.parts) == pytest.approx(story.step_s, rel=1e-6)


def test_one_rank_alone_is_no_job() -> None:
    alone = _rank(0, 10.0)
    found = simulate_ranks([alone], [(0, 1)])
    story = job_story(found.timeline, step_time_s=found.step_time_s)
    assert story is not None
    assert story.mesh == ()
    assert story.ranks[0].count == 2
    assert story.ranks[0].imbalance_s == 0.0


@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.data())
def test_places_count_like_digits(sizes: list[int], data: st.DataObject) -> None:
    mesh = tuple((f"d{n}", size) for n, size in enumerate(sizes))
    world = 1
    for size in sizes:
        world *= size
    rank = data.draw(st.integers(0, world - 1))
    back = 0
    for (_, size), at in zip(mesh, place_of(rank, mesh), strict=True):
        assert 0 <= at < size
        back = back * size + at
    assert back == rank
