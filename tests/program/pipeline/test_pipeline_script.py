"""Orders and scripts of pipelines: bubbles, memory and transfers, against hand-made figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_simulation import simulate

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.pipeline.orders import (
    SPLIT,
    PipelineShape,
    bubble_fraction,
    compute_order,
    stage_of_rank,
)
from gpuscope.program.pipeline.script import Turn, in_flight, late_reductions, scripts

PASSES = {"forward": 1.0, "backward": 2.0, "backward_input": 1.0, "backward_weight": 1.0}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb", "zbv"]


def shape_of(schedule: str, ranks: int, rounds: int, virtual: int) -> PipelineShape:
    virtual = 1 if schedule in ("gpipe", "1f1b") else 2 if schedule == "zbv" else virtual
    return PipelineShape(schedule, ranks, ranks * rounds, virtual)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (4, 8), (4, 7), (8, 32)])
def test_bubble_of_single_stages(schedule: str, ranks: int, microbatches: int) -> None:
    """(p-1)/(m+p-1) of the step is idle: m passes of 3, and a ramp of p-1 of them."""
    shape = PipelineShape(schedule, ranks, microbatches)
    total = max(simulate(scripts(shape), PASSES))
    assert total == 3.0 * (microbatches + ranks - 1)
    assert bubble_fraction(shape) == pytest.approx(1 - 3.0 * microbatches / total)


@pytest.mark.parametrize(("ranks", "rounds", "virtual"), [(2, 2, 2), (4, 2, 2), (4, 3, 4)])
def test_bubble_of_interleaved(ranks: int, rounds: int, virtual: int) -> None:
    """(p-1)/(vm+p-1): the ramp is shorter by the number of virtual stages."""
    shape = PipelineShape("interleaved", ranks, ranks * rounds, virtual)
    total = max(simulate(scripts(shape), PASSES))
    assert total == 3.0 * (virtual * shape.microbatches + ranks - 1)
    assert bubble_fraction(shape) == pytest.approx(1 - 3.0 * virtual * shape.microbatches / total)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_zero_bubble_idles_less(ranks: int) -> None:
    """ZB1P with equal passes: a bubble of (p-1)(F+B-W) = p-1 instead of 3(p-1) (Qi et al. 2024)."""
    microbatches = 4 * ranks
    plain = max(simulate(scripts(PipelineShape("1f1b", ranks, microbatches)), PASSES))
    split = max(simulate(scripts(PipelineShape("zb", ranks, microbatches)), PASSES))
    assert plain - 3.0 * microbatches == 3.0 * (ranks - 1)
    assert split - 3.0 * microbatches == pytest.approx(ranks - 1)


def test_zbv_has_no_bubble_where_passes_are_equal() -> None:
    """After the ramp of ranks that start later there is no idle time in a V of equal passes."""
    ranks, microbatches = 4, 12
    shape = PipelineShape("zbv", ranks, microbatches, 2)
    total = max(simulate(scripts(shape), PASSES))
    assert total - 6.0 * microbatches <= ranks - 1


@pytest.mark.parametrize("microbatches", [4, 16])
def test_activations_held(microbatches: int) -> None:
    """GPipe holds all microbatches; stage i of 1F1B holds min(m, p - i)."""
    for rank, turns in enumerate(scripts(PipelineShape("1f1b", 4, microbatches))):
        assert in_flight(turns) == min(microbatches, 4 - rank)
    for turns in scripts(PipelineShape("gpipe", 4, microbatches)):
        assert in_flight(turns) == microbatches


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.25]),
)
def test_every_schedule_is_whole_and_does_not_hang(
    schedule: str, ranks: int, rounds: int, virtual: int, transfer_s: float
) -> None:
    shape = shape_of(schedule, ranks, rounds, virtual)
    every = scripts(shape)
    assert max(simulate(every, PASSES, transfer_s)) >= 3.0 * shape.virtual * shape.microbatches
    sends: Counter[tuple[int, int, str, int]] = Counter()
    for rank, turns in enumerate(every):
        passes = Counter((t.kind, t.stage, t.microbatch) for t in turns if not t.transfer)
        assert set(passes.values()) == {1}
        backs = ("backward_input", "backward_weight") if schedule in SPLIT else ("backward",)
        for stage in stage_of_rank(shape, rank):
            for kind in ("forward", *backs):
                for i in range(shape.microbatches):
                    assert (kind, stage, i) in passes
            assert ("reduce", stage, -1) in passes
        assert turns[-1].kind == "finish"
        assert all(w < i for i, turn in enumerate(turns) for w in turn.waits)
        for turn in turns:
            if turn.kind == "send":
                sends[rank, turn.peer, turn.payload, turn.microbatch] += 1
            elif turn.kind == "recv":
                sends[turn.peer, rank, turn.payload, turn.microbatch] -= 1
    assert not any(sends.values())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_received_data_is_waited_for_before_its_pass(schedule: str) -> None:
    for turns in scripts(shape_of(schedule, 4, 2, 2)):
        waited: set[int] = set()
        for turn in turns:
            waited |= set(turn.waits)
            if turn.kind in ("forward", "backward", "backward_input"):
                payload = "activation" if turn.kind == "forward" else "gradient"
                needed = {
                    i
                    for i, t in enumerate(turns)
                    if t.kind == "recv"
                    and (t.payload, t.stage, t.microbatch) == (payload, turn.stage, turn.microbatch)
                }
                assert needed <= waited


def test_one_rank_of_1f1b_by_hand() -> None:
    """The middle of three stages, three microbatches, as `Schedule1F1B` issues it."""
    turns = scripts(PipelineShape("1f1b", 3, 3))[1]
    words = [
        f"{t.kind[:1].upper()}{t.microbatch}"
        if not t.transfer
        else f"{t.kind}{t.payload[0]}{t.microbatch}" + ("*" if t.batch >= 0 else "")
        for t in turns
    ]
    assert words == [
        "recva0",
        "F0",
        "senda0",
        "recva1",
        "F1",
        "senda1*",
        "recvg0*",
        "B0",
        "sendg0*",
        "recva2*",
        "F2",
        "senda2*",
        "recvg1*",
        "B1",
        "sendg1",
        "recvg2",
        "B2",
        "sendg2",
        "R-1",
        "F-1",
    ]
    assert turns[7] == Turn("backward", 1, 0, waits=(5, 6))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_one_rank_alone_sends_nothing(schedule: str) -> None:
    (turns,) = scripts(PipelineShape(schedule, 1, 4))
    assert not any(turn.transfer for turn in turns)


def test_compute_order_is_that_of_the_script() -> None:
    for schedule in SCHEDULES:
        shape = shape_of(schedule, 4, 2, 2)
        for order, turns in zip(compute_order(shape), scripts(shape), strict=True):
            passes = [(t.kind, t.stage, t.microbatch) for t in turns if not t.transfer][:-1]
            assert passes == [(a.kind, a.stage, a.microbatch) for a in order]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("1f1b", 4, 3), "fewer than 4"),
        (("1f1b", 4, 8, 2), "one stage a rank"),
        (("interleaved", 4, 10, 2), ""),
        (("interleaved", 4, 9, 2), "rounds"),
        (("zbv", 4, 8, 3), "two stages"),
        (("gpipe", 0, 8), "cannot be"),
    ],
)
def test_what_a_schedule_refuses(arguments: tuple, says: str) -> None:  # type: ignore[type-arg]
    if not says:
        assert PipelineShape(*arguments).stages == 8
        return
    with pytest.raises(InvalidValueError, match=says):
        PipelineShape(*arguments)


def test_unknown_schedule() -> None:
    with pytest.raises(UnknownNameError, match="interleaved"):
        PipelineShape("interleave", 4, 8)


@pytest.mark.parametrize(
    "shape", [PipelineShape("1f1b", 3, 5), PipelineShape("interleaved", 2, 4, 2)]
)
@pytest.mark.parametrize("units", [1, 2])
def test_reductions_beside_the_passes_hold_up_nothing_but_the_end(
    shape: PipelineShape, units: int
) -> None:
    for rank, turns in enumerate(scripts(shape)):
        own = dict.fromkeys(stage_of_rank(shape, rank), units)
        beside = late_reductions(turns, "beside", own)
        assert Counter(map(_plain, beside)) == Counter(map(_plain, turns))
        for at, turn in enumerate(beside):
            assert all(wait < at for wait in turn.waits)
            if turn.kind != "reduce":
                continue
            assert at in beside[-1].waits
            last = max(
                n for n, t in enumerate(beside) if t.kind == "backward" and t.stage == turn.stage
            )
            assert at == last - 1 if units > 1 else at > last


def test_reductions_at_the_end_come_after_every_pass() -> None:
    shape = PipelineShape("interleaved", 2, 4, 2)
    for turns in scripts(shape):
        late = late_reductions(turns, "at_ends", {})
        assert [turn.kind for turn in late[-3:]] == ["reduce", "reduce", "finish"]
        assert [_plain(t) for t in late if t.kind != "reduce"] == [
            _plain(t) for t in turns if t.kind != "reduce"
        ]
        assert late_reductions(turns, "in_turn", {}) is turns


def _plain(turn: Turn) -> Turn:
    return replace(turn, waits=())
