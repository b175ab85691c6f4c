"""The event-driven core beside a step-by-step twin, queueing theory, and random settings."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from fresh import asked, bare, limits, linear, run, served
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.errors import DoesNotFitError
from gpuscope.serving.requests import Floats, Requests
from gpuscope.serving.schedulers import Beside, Limits


def twin(asked: Requests, room: Limits) -> tuple[list[float], list[float], list[int]]:
    """vLLM's rules one iteration at a time: first tokens, ends, preemptions of each request."""
    count, now, size = len(asked), 0.0, room.block_tokens
    need, done, made = list(map(int, asked.input_tokens)), [0] * count, [0] * count
    first, end, put_off = [np.nan] * count, [np.nan] * count, [0] * count
    coming, waiting, running = deque(range(count)), deque[int](), list[int]()
    barred = False  # in an iteration that put one off none is admitted
    while coming or waiting or running:
        if not waiting and not running:
            now = max(now, float(asked.arrival_s[coming[0]]))
        while coming and asked.arrival_s[coming[0]] <= now:
            waiting.append(coming.popleft())
        free = room.kv_blocks - sum(-(-done[i] // size) for i in running)
        decoding = [i for i in running if done[i] >= need[i]]
        grow = sum(done[i] % size == 0 for i in decoding)
        if grow > free:
            last = running.pop()
            put_off[last] += 1
            need[last], done[last] = int(asked.input_tokens[last]) + made[last], 0
            waiting.appendleft(last)
            barred = True
            continue
        budget, free, chunks = room.max_tokens - len(decoding), free - grow, []
        todo = [i for i in running if done[i] < need[i]] + ([] if barred else list(waiting))
        barred = False
        seats = room.max_sequences - len(running)
        for i in todo:
            tokens = min(need[i] - done[i], budget)
            blocks = -(-(done[i] + tokens) // size) - -(-done[i] // size)
            if tokens <= 0 or blocks > free or (i not in running and seats <= 0):
                break
            if i not in running and -(-need[i] // size) > free:
                break
            seats -= i not in running
            budget, free = budget - tokens, free - blocks
            chunks.append((i, tokens))
        if not chunks and not decoding:
            last = running.pop()
            put_off[last] += 1
            done[last] = 0
            waiting.appendleft(last)
            barred = True
            continue
        pairs = sum(c * done[i] + c * (c + 1) / 2 for i, c in chunks)
        ends = sum(done[i] + c >= need[i] for i, c in chunks)
        keys = float(sum(done[i] + 1 for i in decoding))
        now += linear(sum(c for _, c in chunks), pairs, ends, len(decoding), keys)
        for i, c in chunks:
            if i not in running:
                waiting.remove(i)
                running.append(i)
            done[i] += c
        for i in decoding + [i for i, _ in chunks if done[i] >= need[i]]:
            done[i] += i in decoding
            made[i] += 1
            if made[i] == 1:
                first[i] = now
            if made[i] == asked.output_tokens[i]:
                end[i] = now
                running.remove(i)
    return first, end, put_off


def drawn(seed: int, count: int = 60, rate: float = 40.0) -> Requests:
    """Requests of all sizes."""
    random = np.random.default_rng(seed)
    return Requests(
        np.cumsum(random.exponential(1 / rate, count)),
        random.integers(1, 400, count),
        random.integers(1, 120, count),
    )


@pytest.mark.parametrize(("seed", "blocks"), [(1, 100_000), (2, 120), (3, 60), (4, 200)])
def test_stretches_are_what_single_steps_are(seed: int, blocks: int) -> None:
    requests, room = drawn(seed), limits(blocks, sequences=16, tokens=256)
    first, end, put_off = twin(requests, room)
    found = served(requests, bare(prefix_cache=False), room, linear)
    assert list(found.preemptions) == put_off
    assert list(found.first) == pytest.approx(first, rel=1e-9)
    assert list(found.finished) == pytest.approx(end, rel=1e-9)
    assert (sum(put_off) > 0) == (blocks < 100)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000), blocks=st.integers(33, 400), sequences=st.integers(1, 30),
    tokens=st.integers(31, 2000), rate=st.floats(1, 2000),
)  # fmt: skip
def test_stretches_are_what_single_steps_are_whatever_is_set(
    seed: int, blocks: int, sequences: int, tokens: int, rate: float
) -> None:
    requests, room = drawn(seed, 25, rate), limits(blocks, sequences, tokens)
    first, end, put_off = twin(requests, room)
    found = served(requests, bare(prefix_cache=False), room, linear)
    assert list(found.preemptions) == put_off
    assert list(found.first) == pytest.approx(first, rel=1e-9)
    assert list(found.finished) == pytest.approx(end, rel=1e-9)


def lindley(times: Floats, services: Floats) -> Floats:
    """Waiting in front of one server: W(n + 1) = max(0, W(n) + S(n) - (t(n + 1) - t(n)))."""
    walk = np.concatenate(([0.0], np.cumsum(services[:-1] - np.diff(times))))
    return walk - np.minimum.accumulate(walk)


@pytest.mark.parametrize("lengths", ["fixed", "uniform", "exponential"])
def test_waiting_is_that_of_a_single_server(lengths: str) -> None:
    """M/D/1 and M/G/1: each request waits as the recursion says, the mean is that of the formula.

    Pollaczek and Khinchine: rate E[S^2] / (2 (1 - rho)).
    """
    random = np.random.default_rng(5)
    count, rho = 3_000_000, 0.3  # enough for a sampling error of some 0.2 %
    tokens = {
        "fixed": np.full(count, 50.0),
        "uniform": random.integers(1, 400, count).astype(float),
        "exponential": np.ceil(random.exponential(120, count)),
    }[lengths]
    services = 1e-3 + 2e-5 * tokens
    rate = rho / services.mean()
    times = np.cumsum(random.exponential(1 / rate, count))
    waited = lindley(times, services)
    formula = rate * (services**2).mean() / (2 * (1 - rho))
    assert waited.mean() == pytest.approx(formula, rel=0.005)

    few = slice(0, 2000)
    requests = Requests(times[few], tokens[few].astype(np.int64), np.ones(2000, np.int64))
    room = limits(sequences=1, tokens=int(tokens.max()))
    found = served(requests, bare(prefix_cache=False), room, _fixed)
    ours = found.column("started") - times[few]
    assert ours == pytest.approx(waited[few], rel=1e-9, abs=1e-9)


def _fixed(prefill: int, pairs: float, sampled: int, sequences: int, keys: float) -> float:
    return 1e-3 + 2e-5 * prefill


def test_number_in_the_system_is_rate_times_time() -> None:
    """Little's law, over a run that begins and ends empty."""
    found = run(drawn(11, 400, 60.0), limits(sequences=8))
    start, end = found.column("intended"), found.column("finished")
    moments = np.sort(np.concatenate((start, end)))
    inside = np.searchsorted(np.sort(start), moments, side="right") - np.searchsorted(
        np.sort(end), moments, side="right"
    )
    span = moments[-1] - moments[0]
    number = (inside[:-1] * np.diff(moments)).sum() / span
    assert number == pytest.approx(len(start) / span * (end - start).mean(), rel=1e-9)


def test_one_request_by_hand() -> None:
    found = run(asked([1.0], [100], [3]), limits())
    prompt = linear(100, 100 * 101 / 2, 1, 0, 0.0)
    steps = linear(0, 0, 0, 1, 101.0), linear(0, 0, 0, 1, 102.0)
    assert found.first[0] == pytest.approx(1.0 + prompt)
    assert found.finished[0] == pytest.approx(1.0 + prompt + sum(steps))
    assert found.device[0] == pytest.approx(sum(steps))


def test_a_closed_loop_keeps_its_places_full_and_no_more() -> None:
    found = run(asked([0.0] * 20, [64] * 20, [32] * 20, places=4), limits())
    busy = [(s, e) for s, e in zip(found.intended, found.finished, strict=True)]
    for at in found.started:
        assert sum(s <= at < e for s, e in busy) <= 4
    assert sorted(found.intended)[4:] == pytest.approx(sorted(found.finished)[:16])


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm", "static"])
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000), blocks=st.integers(33, 400), sequences=st.integers(1, 40),
    tokens=st.integers(40, 3000), rate=st.floats(1, 2000), places=st.integers(0, 12),
)  # fmt: skip
def test_whatever_is_set_all_is_served(
    name: str, seed: int, blocks: int, sequences: int, tokens: int, rate: float, places: int
) -> None:
    requests = drawn(seed, 40, rate)
    if places:
        requests = requests.at_concurrency(places)
    room = limits(blocks, sequences, tokens, reserve=0.5 if name == "sglang" else 1.0)
    found = run(requests, room, name)
    first, end = np.array(found.first), np.array(found.finished)
    assert (np.array(found.intended) <= np.array(found.started)).all()
    assert (np.array(found.started) <= first).all()
    assert (first <= end).all()
    assert max(row[6] for row in found.each()) <= blocks
    decoded = sum(row[1] * row[5] for row in found.each())
    assert decoded + sum(p + 1 for p in found.preemptions) >= sum(requests.output_tokens) - 40
    assert all(row[2] >= 0 and row[3] >= 0 for row in found.each())


def test_more_room_is_never_slower() -> None:
    requests = drawn(9, 80, 200.0)
    ends = [max(run(requests, limits(blocks)).finished) for blocks in (60, 120, 500, 5000)]
    assert ends == sorted(ends, reverse=True)


def test_what_never_fits_is_said() -> None:
    with pytest.raises(DoesNotFitError, match="longest request has 1600"):
        run(asked([0.0], [1000], [600]), limits(blocks=50))


def test_equal_beginnings_are_worked_on_once() -> None:
    requests = Requests(
        np.arange(5.0), np.full(5, 1000), np.full(5, 2),
        prefix=np.zeros(5, int), prefix_tokens=np.full(5, 800),
    )  # fmt: skip
    found = run(requests, limits())
    assert list(found.cached) == [0, 800, 800, 800, 800]
    assert found.prefill[1] < 0.35 * found.prefill[0]


def test_who_comes_after_the_plan_waits_for_two_iterations() -> None:
    # Three iterations of 10 ms: the second is planned when the first begins.
    def cost(prefill: int, pairs: float, sampled: int, sequences: int, keys: float) -> float:
        return 0.01

    work, room = asked([0.0, 0.004], [10, 10], [9, 9]), limits()
    plain, overlapped = (served(work, bare(overlapped=how), room, cost) for how in (False, True))
    assert plain.first[1] == pytest.approx(0.02)
    assert overlapped.first[1] == pytest.approx(0.03)
    assert overlapped.first[0] == plain.first[0] == pytest.approx(0.01)


def test_tokens_queue_for_the_process_that_streams_them() -> None:
    def cost(prefill: int, pairs: float, sampled: int, sequences: int, keys: float) -> float:
        return 0.01

    # Eleven iterations of two tokens, 8 ms each: 16 ms of work every 10 ms.
    made = served(asked([0.0, 0.0], [10, 10], [11, 11]), bare(token_s=8e-3), limits(), cost)
    assert made.first[0] == made.first[1] == pytest.approx(0.01 + 0.016)
    assert made.finished[0] == pytest.approx(0.01 + 11 * 0.016)
    quick = served(asked([0.0, 0.0], [10, 10], [11, 11]), bare(token_s=4e-3), limits(), cost)
    assert quick.finished[0] == pytest.approx(0.11 + 0.008)
    # Who comes while it is behind waits until it has the earlier tokens out.
    third = served(
        asked([0.0, 0.0, 0.1], [10, 10, 10], [11, 11, 1]), bare(token_s=8e-3), limits(), cost
    )
    assert third.started[2] > 0.01 + 9 * 0.016


def test_an_engine_that_looks_seldom_lets_who_comes_wait_for_its_step() -> None:
    """One decodes at 10 ms a step; who comes at 15 ms is seen at the first look, and waits."""

    def cost(prefill: int, pairs: float, sampled: int, sequences: int, keys: float) -> float:
        return 0.010

    load = asked([0.0, 0.015], [10, 10], [100, 3])
    often = served(load, bare("sglang"), limits(), cost)
    seldom = served(load, bare("sglang", look_steps=30), limits(), cost)
    assert often.first[1] == pytest.approx(0.030)
    assert seldom.first[1] == pytest.approx(0.010 + 30 * 0.010 + 0.010)
    assert seldom.finished[0] > seldom.finished[1]


def test_what_a_request_has_beside_its_tokens_is_taken_once_and_given_back() -> None:
    """Of 40 blocks a request takes two for its tokens, three for a window, five for a state."""
    beside = Beside(groups=1, most=3, state=5)
    room = limits(blocks=40, beside=beside)
    load = asked([0.0] * 8, [20] * 8, [60] * 8)
    record = run(load, room)
    assert max(record.rows[6]) <= 40
    # Eight beside, and two of tokens at first: four fit, until they have five.
    assert max(record.rows[5]) == 4
    assert sum(record.preemptions) > 0
    assert all(record.finished[each] > 0 for each in range(8))


def test_a_prompt_of_whole_blocks_leaves_all_of_them_and_finds_all_but_its_last() -> None:
    """vLLM: one token at least is worked on, and every full block is kept by name."""
    requests = Requests(
        np.array([0.0, 10.0, 20.0]), np.array([64, 64, 80]), np.full(3, 2),
        prefix=np.zeros(3, np.int64), prefix_tokens=np.full(3, 64),
    )  # fmt: skip
    assert list(run(requests, limits()).cached) == [0, 48, 64]
