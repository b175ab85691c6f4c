"""The one process that lets requests in and tells tokens, turn by turn."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import numpy as np
import pytest
from fresh import bare, limits, linear

from gpuscope.serving.fleet import serve_all
from gpuscope.serving.front import TOGETHER, Front, Spoken
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests


def front(turns: int = 1, token_s: float = 0.0, send_s: float = 0.0, rows: int = 600) -> Front:
    engine = bare(front_turns=turns, token_s=token_s, send_s=send_s)
    return Front(engine, Record(rows))


def iteration(made: Front, end_s: float, tokens: int, firsts: tuple[int, ...] = ()) -> None:
    made.say(Spoken(end_s - 1.0, 1.0, 0.0, 1, tokens))
    for each in firsts:
        made.first(each)


@pytest.mark.parametrize("turns", [1, 4])
def test_they_come_out_together_when_all_work_is_done(turns: int) -> None:
    made = front(turns)
    for each in range(5):
        made.add(each, 1.0, 0.25)
    assert len(made) == 5
    assert made.next_s(inf) == pytest.approx(2.25)
    assert made.out(2.2) == []
    assert made.out(2.26) == [0, 1, 2, 3, 4]
    assert (len(made), made.next_s(inf)) == (0, inf)


def test_one_that_comes_meanwhile_holds_up_those_before_it() -> None:
    """Work of 1 s in four turns: the second comes in the third turn, and joins the fourth."""
    made = front(4)
    made.add(0, 0.0, 1.0)
    made.add(1, 0.7, 1.0)
    assert made.next_s(inf) == pytest.approx(0.75 + 0.5)
    assert made.out(1.26) == [0]
    assert made.next_s(inf) == pytest.approx(1.25 + 0.75)


def test_so_many_at_a_time_and_work_is_never_lost() -> None:
    made = front()
    for each in range(TOGETHER + 3):
        made.add(each, 0.0, 0.5)
    assert made.next_s(inf) == pytest.approx(0.5 * TOGETHER)
    assert made.out(inf, 1) == [0]
    assert len(made.out(inf)) == TOGETHER - 1
    assert made.next_s(inf) == pytest.approx(0.5 * (TOGETHER + 3))


def test_tokens_have_their_turn_between_the_steps_of_a_request() -> None:
    """A burst each 10 ms that takes 12: every step waits for one."""
    made = front(3, token_s=1e-3)
    for at in range(1, 9):
        iteration(made, 0.01 * at, 12)
    made.advance(0.01)  # busy with the first until 22 ms
    made.add(0, 0.015, 0.003)
    # Turns begin at 22, 35 (12 and 1 ms later, the burst of 30 ms in it) and 48, and end at 61.
    assert made.next_s(inf) == pytest.approx(0.061)
    idle = front(3, token_s=1e-3)
    idle.add(0, 0.015, 0.003)
    assert idle.next_s(inf) == pytest.approx(0.018)


def test_tokens_of_a_sequence_that_wait_together_are_sent_together() -> None:
    made = front(token_s=1e-3, send_s=5e-3)
    iteration(made, 1.0, 10, firsts=(0,))
    for end_s in (1.01, 1.02, 1.03):
        iteration(made, end_s, 10, firsts=(round(end_s * 100) - 100,))
    made.advance(2.0)
    first = list(made.record.first[:4])
    assert first[0] == pytest.approx(1.0 + 10 * 6e-3)
    assert first[1:] == pytest.approx([1.06 + 30 * 1e-3 + 10 * 5e-3] * 3)


def test_last_tokens_set_places_free_one_turn_at_a_time() -> None:
    made = front(token_s=0.1)
    for end_s in (1.0, 2.0):
        iteration(made, end_s, 1)
        made.end(round(end_s))
    assert made.open
    made.advance(inf)
    assert (made.take_ended(), made.record.finished[1]) == ([1], pytest.approx(1.1))
    made.advance(inf)
    assert (made.take_ended(), made.open) == ([2], False)


def test_equal_iterations_are_told_as_one_by_one() -> None:
    """Whatever comes between, and however slow the process is."""
    random = Random(5)
    for _ in range(300):
        token_s, send_s = random.choice([0.0, 1e-4, 5e-3]), random.choice([0.0, 1e-3])
        whole, single = (front(random.choice([1, 3]), token_s, send_s) for _ in range(2))
        single.turns = whole.turns
        now = 0.0
        for each in range(20):
            steps, tokens = random.randint(1, 30), random.randint(1, 9)
            first, slope = random.uniform(1e-3, 2e-2), random.choice([0.0, 1e-5])
            begun = now
            whole.say(Spoken(begun, first, slope, steps, tokens))
            for step in range(steps):
                took = first + slope * step
                single.say(Spoken(now, took, 0.0, 1, tokens))
                now += took
            for one in (whole, single):
                one.first(each)
                one.advance(now)
            at_s = now + random.uniform(1e-6, 1e-3)
            for one in (whole, single):
                one.add(each + 100, at_s, 2e-3)
        for one in (whole, single):
            one.advance(inf)
        assert list(whole.record.first[:20]) == pytest.approx(list(single.record.first[:20]))
        assert [at for at, _ in whole.queued] == pytest.approx([at for at, _ in single.queued])


def test_a_burst_waits_for_the_work_on_all_and_the_first_goes_alone() -> None:
    engine = replace(bare(), accept_s=0.01, accept_token_s=1e-4)
    burst = Requests(np.zeros(8), np.full(8, 100), np.full(8, 4))
    record, rows, _ = serve_all(burst, engine, limits(), linear)
    started = sorted(record.started)
    assert started[0] == pytest.approx(8 * (0.01 + 100e-4))
    assert rows[0].rows[4][:2].tolist() == [100, 700]  # prompt tokens of the first two iterations
    alone, _, _ = serve_all(
        Requests(np.zeros(1), np.full(1, 100), np.full(1, 4)), engine, limits(), linear
    )
    assert alone.started[0] == pytest.approx(0.02)


def test_requests_far_apart_do_not_hold_each_other_up() -> None:
    engine = replace(bare(), accept_s=0.01)
    apart = Requests(np.arange(6.0), np.full(6, 50), np.full(6, 3))
    record, _, _ = serve_all(apart, engine, limits(), linear)
    assert np.asarray(record.started) == pytest.approx(np.arange(6.0) + 0.01)


def test_a_process_that_is_full_gives_tokens_at_its_own_pace() -> None:
    """64 sequences, a token each a millisecond or so, of which it tells one in 0.1 ms."""
    engine = replace(bare(), token_s=1e-4, front_turns=6)
    many = Requests(np.zeros(64), np.full(64, 10), np.full(64, 500))
    record, _, _ = serve_all(many, engine, limits(), linear)
    assert max(record.finished) == pytest.approx(64 * 500 * 1e-4, rel=0.02)
    together = replace(engine, token_s=1e-5, send_s=9e-5)
    record, _, _ = serve_all(many, together, limits(), linear)
    assert max(record.finished) < 0.75 * 64 * 500 * 1e-4
