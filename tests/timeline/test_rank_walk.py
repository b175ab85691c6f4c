"""Jobs that hang are found, and said plainly: who waits for whom, in which line."""

from __future__ import annotations

import pytest
from timeline_programs import US, batch, call, kernel, ranked, recv, send, talk

from gpuscope.errors import HangError
from gpuscope.program.types import ProcessGroup
from gpuscope.timeline.simulate_ranks import simulate_ranks

BOTH = ProcessGroup("0", "dp", (0, 1))
OTHER = ProcessGroup("1", "tp", (0, 1))
EACH = [(0,), (1,)]


def job(*ranks, groups=(BOTH, OTHER)):
    return [ranked(ops, rank, groups, len(ranks)) for rank, ops in enumerate(ranks)]


def test_two_groups_in_opposite_order_behind_each_other_hang():
    def rank(first, second, line):
        return [
            talk(5, group=first, site=f"train.py:{line}"),
            call(kernel(1), waits=(0,)),
            talk(5, group=second, site=f"train.py:{line + 1}"),
        ]

    with pytest.raises(HangError) as caught:
        simulate_ranks(job(rank(0, 1, 10), rank(1, 0, 20)), EACH)
    said = dict(caught.value.waiting)
    assert "train.py:10" in said[0]
    assert "rank 1" in said[0]
    assert "train.py:20" in said[1]
    assert "order" in caught.value.next_step


def test_two_groups_in_opposite_order_on_streams_of_their_own_go_on():
    """Each communicator has a stream of its own: without an order between them both proceed."""

    def rank(first, second):
        return [
            talk(5, group=first, stream=1),
            talk(5, group=second, stream=2),
            call(kernel(1), waits=(0, 1)),
        ]

    r = simulate_ranks(job(rank(0, 1), rank(1, 0)), EACH, steps=1)
    assert r.first_step_s < 40 * US


def test_a_wait_ahead_of_an_independent_call_is_no_hang():
    """Rank 0's host goes on past work that cannot begin yet, as a real one does."""
    ahead = [recv(5, 1, group=0, stream=1), call(kernel(3), waits=(0,)), talk(5, group=1, stream=2)]
    behind = [talk(5, group=1, stream=2), call(kernel(3), waits=(0,)), send(5, 0, group=0)]
    r = simulate_ranks(job(ahead, behind), EACH, steps=1)
    assert r.first_step_s < 60 * US


def test_both_send_before_they_receive():
    def rank(peer):
        first = send(5, peer, site="ring.py:7")
        return [first, call(waits=(0,)), recv(5, peer, waits=(0,), site="ring.py:8")]

    with pytest.raises(HangError, match="batch_isend_irecv"):
        simulate_ranks(job(rank(1), rank(0)), EACH)


def test_a_batch_that_goes_both_ways_is_no_hang():
    def rank(peer):
        return [*batch(send(5, peer), recv(7, peer)), call(kernel(1), waits=(0, 1))]

    r = simulate_ranks(job(rank(1), rank(0)), EACH, steps=1)
    # Launch calls, latency, both messages side by side, then the kernel.
    assert r.first_step_s == pytest.approx((2 + 3 + 1 + 2 + 3 + 4 + 7 + 1 + 1) * US, abs=3 * US)


def test_a_ring_of_equal_ranks_meets_itself():
    ranks = ProcessGroup("0", "cp", (0, 1, 2, 3))
    ops = [*batch(send(5, 1), recv(5, 3)), call(kernel(50), waits=(0, 1))]
    r = simulate_ranks([ranked(ops, 0, (ranks,), 4)], [(0, 1, 2, 3)], steps=1)
    assert r.first_step_s == pytest.approx((2 + 3 + 1 + 2 + 3 + 4 + 5 + 50) * US, abs=4 * US)


def test_a_ring_of_equal_ranks_that_all_send_first_hangs():
    ranks = ProcessGroup("0", "cp", (0, 1))
    ops = [send(5, 1), call(waits=(0,)), recv(5, 1, waits=(0,))]
    with pytest.raises(HangError, match="Rank 0 waits in send"):
        simulate_ranks([ranked(ops, 0, (ranks,), 2)], [(0, 1)])
