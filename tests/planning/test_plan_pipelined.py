"""A pipeline's passes walked in their order, against what is known by hand."""

from __future__ import annotations

import pytest

from gpuscope.planning.pipelined import Stage, walked_s
from gpuscope.program.pipeline.orders import PipelineShape
from gpuscope.program.pipeline.plain_orders import plain_order


def period(shape: PipelineShape, stages: list[Stage], hop_s: float = 0.0) -> float:
    hops = [hop_s] * shape.ranks
    spans = walked_s(plain_order(shape), stages, hops, waits=shape.schedule == "1f1b")
    return max(end - begin for begin, end in spans)


def stage(forward: float, backward: float, weights: float = 0.0, host: float = 0.0) -> Stage:
    times = forward, backward, weights
    return Stage(times, times, (host, host, host if weights else 0.0))


@pytest.mark.parametrize(("ranks", "count", "virtual"), [(4, 8, 1), (8, 32, 1), (4, 8, 2)])
def test_equal_stages_idle_as_long_as_the_formula_says(
    ranks: int, count: int, virtual: int
) -> None:
    """(m + (p - 1) / v) passes of a rank's stages: Narayanan et al., 2021, section 2.2."""
    shape = PipelineShape("interleaved" if virtual > 1 else "1f1b", ranks, count, virtual)
    taken = period(shape, [stage(1.0, 2.0)] * (ranks * virtual))
    assert taken == pytest.approx(3 * virtual * (count + (ranks - 1) / virtual))


def test_the_slowest_stage_sets_the_pace() -> None:
    shape = PipelineShape("1f1b", 4, 40)
    uneven = [stage(1.0, 2.0)] * 3 + [stage(2.0, 4.0)]
    # All of the last one's passes, and one way down and up before the first rank ends.
    assert period(shape, uneven) == pytest.approx(40 * 6 + 3 * 3)


def test_messages_hold_a_rank_up_in_1f1b_and_not_beside_passes() -> None:
    hop = 0.1
    for name, count in (("1f1b", 40), ("zb", 40)):
        shape = PipelineShape(name, 4, count)
        own = [stage(1.0, 2.0) if name == "1f1b" else stage(1.0, 1.0, 1.0)] * 4
        more = period(shape, own, hop) - period(shape, own)
        # 1F1B: a message after each pass of the steady part, on the ranks that have two neighbours.
        if name == "1f1b":
            assert 2 * hop * (count - 4) <= more <= 2 * hop * (count + 8)
        else:
            assert hop < more < 20 * hop


def test_weights_gradients_fill_what_would_be_idle() -> None:
    """Passes of one second each: the bubble of 3 (p - 1) shrinks to (p - 1), Qi et al., 2024."""
    shape = PipelineShape("zb", 4, 16)
    taken = period(shape, [stage(1.0, 1.0, 1.0)] * 4)
    assert 3 * 16 < taken <= 3 * 16 + 3
    whole = period(PipelineShape("1f1b", 4, 16), [stage(1.0, 2.0)] * 4)
    assert whole == pytest.approx(3 * 16 + 9)


def test_a_host_that_sets_the_pace_waits_for_nobody() -> None:
    """It issues passes one after the other, however long other ranks take to send."""
    shape = PipelineShape("1f1b", 4, 32)
    taken = period(shape, [stage(0.1, 0.2, host=1.0)] * 4)
    assert taken == pytest.approx(2 * 32, abs=4)


def test_the_first_microbatch_differs() -> None:
    shape = PipelineShape("1f1b", 2, 8)
    own = stage(1.0, 2.0)
    first = Stage((1.5, 2.0, 0.0), own.later)
    assert period(shape, [first, own]) == pytest.approx(period(shape, [own, own]) + 0.5)
