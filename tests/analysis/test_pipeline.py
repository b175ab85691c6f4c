"""Pipeline schedules by hand: GPipe's and 1F1B's bubbles are known in closed form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_builder import RankBuilder
from recorded_calls import TRACES

import gpuscope as gs
from gpuscope.analysis.pipeline import Pipeline, pipeline

_FORWARD, _BACKWARD = 20.0, 40.0


class _Schedule:
    """Blocks of two kernels each on ranks that send a microsecond's message after each."""

    def __init__(self, talks: bool = True) -> None:
        self.b, self.talks = RankBuilder(), talks
        self.op = {p: self.b.op(phase=p) for p in ("forward", "backward", "optimizer")}

    def block(self, rank: int, phase: str, start: float, length: float) -> None:
        for half in (0, 1):
            at = start + half * length / 2
            self.b.work(at, at + length / 2 - (1.0 if half else 0.0), op=self.op[phase], rank=rank)
        if self.talks:
            self.b.meet(
                {rank: start + length - 1.0},
                1.0,
                name="send",
                members=(0, 1),
                kernel="ncclDevKernel_SendRecv",
                stream="stream 9",
            )

    def found(self) -> Pipeline | None:
        return pipeline(self.b.timeline())


def _gpipe(stages: int, micro: int, talks: bool = True) -> Pipeline | None:
    schedule = _Schedule(talks)
    turn = (micro + stages - 1) * _FORWARD
    for rank in range(stages):
        for m in range(micro):
            schedule.block(rank, "forward", (rank + m) * _FORWARD, _FORWARD)
            back = turn + (stages - 1 - rank + m) * _BACKWARD
            schedule.block(rank, "backward", back, _BACKWARD)
    return schedule.found()


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 6), st.integers(1, 8))
def test_the_bubble_of_equal_stages_is_that_of_the_formula(stages: int, micro: int) -> None:
    found = _gpipe(stages, micro)
    assert found is not None
    assert (len(found.stages), found.depth, found.micro_batches) == (stages, stages, micro)
    assert found.ideal_share == pytest.approx((stages - 1) / (micro + stages - 1))
    # Each block of 20 or 40 us computes for one less: its send takes the last microsecond.
    own = micro * (_FORWARD + _BACKWARD - 2)
    length = (micro + stages - 1) * (_FORWARD + _BACKWARD) - 1
    assert found.bubble_share == pytest.approx(1 - own / length)
    assert abs(found.bubble_share - found.ideal_share) < 0.05
    for stage in found.stages:
        assert stage.busy_s + stage.bubble_s == pytest.approx(length * 1e-6)
        assert stage.busy_s == pytest.approx(own * 1e-6)
        phases = [block.phase for block in stage.blocks]
        assert phases == ["forward"] * micro + ["backward"] * micro
        assert [block.number for block in stage.blocks] == [*range(micro), *range(micro)]


def test_one_forward_one_backward_alternates_on_the_last_stage() -> None:
    schedule = _Schedule()
    for m in range(3):
        schedule.block(0, "forward", m * 20.0, 20.0)
        schedule.block(1, "forward", 20.0 + m * 60.0, 20.0)
        schedule.block(1, "backward", 40.0 + m * 60.0, 40.0)
        schedule.block(0, "backward", 80.0 + m * 60.0, 40.0)
    found = schedule.found()
    assert found is not None
    assert [b.phase for b in found.stages[1].blocks] == ["forward", "backward"] * 3
    assert found.micro_batches == 3


def _one_f_one_b(lengths: list[float], micro: int, first_us: float = 0.0) -> tuple[Pipeline, float]:
    """Stages of these lengths (us; a third of it forward), sends in no time; its length.

    `first_us`: what the first pass of each stage takes longer.
    """
    schedule = _Schedule(talks=False)
    p = len(lengths)
    ahead = [min(p - stage - 1, micro) for stage in range(p)]
    orders = [["F"] * n + ["F", "B"] * (micro - n) + ["B"] * n for n in ahead]
    ends: dict[tuple[int, str, int], float] = {}
    done, free = [0] * p, [0.0] * p
    while any(done[r] < len(orders[r]) for r in range(p)):
        for rank in range(p):
            if done[rank] == len(orders[rank]):
                continue
            what = orders[rank][done[rank]]
            number = orders[rank][: done[rank]].count(what)
            other = (rank - 1, "F", number) if what == "F" else (rank + 1, "B", number)
            needed = other if 0 <= other[0] < p else (rank, "F", number)
            if needed not in ends and not (what == "F" and rank == 0):
                continue
            begin = max(free[rank], ends.get(needed, 0.0))
            late = first_us if what == "F" and number == 0 else 0.0
            length = lengths[rank] * (1 if what == "F" else 2) / 3
            op = schedule.op["forward" if what == "F" else "backward"]
            schedule.b.work(begin + late, begin + late + length, op=op, rank=rank)
            free[rank] = ends[rank, what, number] = begin + late + length
            schedule.b.meet(
                {rank: free[rank]},
                1.0,
                name="send",
                members=(0, 1),
                kernel="ncclDevKernel_SendRecv",
                stream="stream 9",
            )
            done[rank] += 1
    found = schedule.found()
    assert found is not None
    return found, max(free)


@pytest.mark.parametrize(("stages", "micro"), [(2, 1), (4, 4), (4, 12), (6, 9)])
def test_equal_stages_and_instant_sends_leave_the_formulas_bubble(stages: int, micro: int) -> None:
    found, length_us = _one_f_one_b([60.0] * stages, micro)
    assert length_us == pytest.approx(60.0 * (micro + stages - 1))
    assert found.bubble_share == pytest.approx((stages - 1) / (micro + stages - 1), abs=1e-9)
    assert [part.share for part in found.parts] == pytest.approx(
        [found.ideal_share, 0, 0, 0], abs=1e-9
    )


def test_the_parts_of_a_bubble_say_where_it_comes_from() -> None:
    p, m = 4, 12
    formula = (p - 1) / (m + p - 1)
    uneven, length_us = _one_f_one_b([60.0, 60.0, 90.0, 60.0], m)
    mean_us = 67.5 * m
    assert uneven.bubble_share == pytest.approx(1 - mean_us / length_us)
    # t_1 .. t_p take sum(t) + (m - 1) max(t) at most, and the slowest has no rest between.
    assert 90 * m + 40 + 80 <= length_us <= 270 + (m - 1) * 90
    shares = [part.share for part in uneven.parts]
    assert shares == pytest.approx([formula, uneven.bubble_share - formula, 0, 0], abs=1e-9)

    late, length_us = _one_f_one_b([60.0] * p, m, first_us=30.0)
    assert length_us == pytest.approx(60.0 * (m + p - 1) + 30.0 * p)
    shares = [part.share for part in late.parts]
    assert sum(shares) == pytest.approx(late.bubble_share)
    # The schedule begins with the first kernel: three of the four delays are in it.
    expected = 1 - 60.0 * m / (60.0 * (m + p - 1) + 90.0)
    assert shares == pytest.approx([formula, 0, expected - formula, 0], abs=1e-9)
    assert "the first pass" in late.said
    assert "stages that take longer" not in late.said
    assert "公式" in late.said.to("zh")


def test_ranks_that_only_reduce_gradients_are_no_pipeline() -> None:
    assert _gpipe(3, 4, talks=False) is None
    for name in ("fsdp", "ddp_balanced"):
        assert pipeline(gs.load(TRACES / "4xh200" / name).timeline) is None


def test_ranks_that_exchange_in_step_are_no_pipeline() -> None:
    for late in (0.0, 30.0):
        schedule = _Schedule()
        for rank in (0, 1):
            for m in range(4):
                schedule.block(rank, "forward", m * 20 + rank * late, 20)
                schedule.block(rank, "backward", 200 + m * 40 + rank * late, 40)
        assert schedule.found() is None


def test_replicas_of_a_stage_count_once() -> None:
    schedule = _Schedule()
    for replica in (0, 1):
        for stage in (0, 1, 2):
            rank, shift = 2 * stage + replica, 2.0 * replica
            for m in range(4):
                schedule.block(rank, "forward", (stage + m) * 20 + shift, 20)
                schedule.block(rank, "backward", 120 + (2 - stage + m) * 40 + shift, 40)
    found = schedule.found()
    assert found is not None
    assert (len(found.stages), found.depth, found.micro_batches) == (6, 3, 4)
    assert found.ideal_share == pytest.approx(2 / 6)


def test_one_rank_or_one_phase_is_no_pipeline() -> None:
    schedule = _Schedule()
    schedule.block(0, "forward", 0, 20)
    assert schedule.found() is None
    schedule.block(1, "forward", 20, 20)
    assert schedule.found() is None
    schedule.block(1, "backward", 40, 20)
    assert schedule.found() is None


def test_the_step_in_the_middle_is_looked_at() -> None:
    schedule = _Schedule()
    for step in range(3):
        at = step * 1000.0
        for rank in (0, 1):
            schedule.b.step(at, at + 900.0, rank=rank)
            schedule.block(rank, "forward", at + 100 + rank * 20, 20)
            schedule.block(rank, "backward", at + 200 - rank * 40, 40)
    found = schedule.found()
    assert found is not None
    assert 1_000_000 <= found.start_ns < found.end_ns <= 1_900_000
    assert found.micro_batches == 1
