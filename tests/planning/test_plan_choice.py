"""Front, ties and choice of candidates made by hand."""

from __future__ import annotations

from dataclasses import replace

from made import judged, slower

from gpuscope.planning.choice import choose, front, tied


def test_a_small_difference_on_one_device_is_a_tie_and_the_simplest_wins() -> None:
    plain = judged(1.01, dp=8)
    split = judged(1.00, dp=2, tp=2, pp=2)
    far = judged(1.5, dp=4, tp=2)
    best, ties = choose([far, plain, split], "time")
    assert best is plain
    assert ties == (split, plain)


def test_errors_across_devices_do_not_cancel() -> None:
    one, other = judged(1.0), judged(1.05)
    assert not tied(one, other, "time")  # 4 % each, mostly shared
    assert tied(one, judged(1.05, "8xh100"), "time")


def test_front_has_what_nothing_beats() -> None:
    quick, cheap = judged(1.0, "8xh200"), judged(5.0, "1xh200")
    worse = judged(6.0, "2xh200")
    assert front([worse, cheap, quick]) == (quick, cheap)


def test_more_candidates_never_make_the_least_worse() -> None:
    few = [judged(2.0, dp=8), judged(1.4, dp=4, tp=2)]
    many = [*few, judged(1.2, dp=2, tp=4), judged(3.0, dp=4, pp=2)]
    for goal in ("time", "cost", "energy"):
        least_few = choose(few, goal)[1][0].value(goal)
        least_many = choose(many, goal)[1][0].value(goal)
        assert least_few is not None
        assert least_many is not None
        assert least_many <= least_few
        assert choose(many, goal) == choose(many[::-1], goal)


def test_without_a_price_cost_is_no_tie() -> None:
    known = judged(1.0)
    assert not tied(known, replace(slower(known, 1.0), usd=None), "cost")
