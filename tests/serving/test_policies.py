"""Rules of each policy, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fresh import asked, bare, limits, served

from gpuscope.serving.engine import engine
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Limits, policy


def with_policy(name: str, chosen: str, requests: Requests, room: Limits) -> Record:
    how = bare(name).with_policy(chosen)
    ratio = {
        "reserve": how.reserve, "reserve_least": how.reserve_least,
        "reserve_steps": how.reserve_steps, "reserve_ahead": how.reserve_ahead,
    }  # fmt: skip
    return served(requests, how, replace(room, **ratio))


def prompts(found: Record) -> list[int]:
    return [row[4] for row in found.each() if row[4]]


def test_priority_goes_first_and_is_put_off_last() -> None:
    requests = replace(asked([0.0] * 4, [160] * 4, [100] * 4), priority=np.array([3, 2, 1, 0]))
    one = with_policy("vllm", "priority", requests, limits(sequences=1))
    assert sorted(range(4), key=one.started.__getitem__) == [3, 2, 1, 0]
    assert with_policy("vllm", "fcfs", requests, limits(sequences=1)).started[0] == 0
    tight = with_policy("vllm", "priority", requests, limits(45))
    assert tight.preemptions[0] > 0
    assert tight.preemptions[3] == 0


def test_sglang_works_on_prompts_before_decodes() -> None:
    requests = asked([0.0, 0.05], [100, 1000], [200, 5])
    found = with_policy("sglang", "fcfs", requests, limits(block_tokens=1))
    assert all(row[5] == 0 for row in found.each() if row[4])
    assert found.behind[0] > 0.9 * found.prefill[1]


def test_sglang_with_mixed_chunks_lets_decodes_step_beside_prompts() -> None:
    requests = asked([0.0, 0.05], [100, 1000], [200, 5])
    room = limits(block_tokens=1)
    mixed = with_policy("sglang", "mixed-chunk", requests, room)
    apart = with_policy("sglang", "fcfs", requests, room)
    assert any(row[5] for row in mixed.each() if row[4])
    assert sum(prompts(mixed)) == sum(prompts(apart)) == 1100
    assert mixed.finished[0] < apart.finished[0]  # it never waits for the other's prompt


def test_whole_prompts_of_sglang_share_a_budget() -> None:
    requests = asked([0.0] * 6, [300] * 6, [20] * 6)
    found = with_policy("sglang", "mixed-chunk", requests, limits(tokens=700, chunked=False))
    assert set(prompts(found)) <= {300, 600}


def test_sglang_reckons_with_a_share_of_what_runs_and_all_of_what_comes() -> None:
    """0.7 of 400 tokens to come are reckoned with: 100 + 280 + 500 of 800 is too much at first."""
    requests = asked([0.0, 0.01], [100, 100], [400, 400])
    room = limits(800, block_tokens=1)
    second = with_policy("sglang", "fcfs", requests, room)
    assert second.started[1] > 0.05
    wider = with_policy("sglang", "fcfs", requests, limits(900, block_tokens=1))
    assert wider.started[1] < 0.02


def test_sglang_retracts_who_made_fewest_and_keeps_nothing() -> None:
    # Three fit by what is reckoned with, and need 690 tokens when the first ends.
    requests = asked([0.0, 0.02, 0.04, 0.06], [50] * 4, [200] * 4)
    found = with_policy("sglang", "fcfs", requests, limits(650, block_tokens=1))
    put_off = np.flatnonzero(found.preemptions)
    assert len(put_off) > 0
    assert 0 not in put_off  # who began first has made most
    worked = sum(prompts(found))
    assert worked > 4 * 50 + sum(found.preemptions) * 50  # from the first token, what was made too


def test_lpm_takes_the_longest_prefix_first_while_the_queue_is_short() -> None:
    def load(count: int) -> Requests:
        """One request fills the cache; the last of those behind it shares its prompt."""
        prefix = np.full(count, -1)
        prefix[[0, -1]] = 0
        times = np.concatenate(([0.0], np.full(count - 1, 1e-4)))
        return Requests(
            times, np.full(count, 320), np.full(count, 4), prefix=prefix,
            prefix_tokens=np.full(count, 320),
        )  # fmt: skip

    room = limits(sequences=1)
    few, many = load(20), load(200)
    assert np.argsort(with_policy("sglang", "lpm", few, room).started)[1] == 19
    assert np.argsort(with_policy("sglang", "fcfs", few, room).started)[1] == 1
    assert np.argsort(with_policy("sglang", "lpm", many, room).started)[1] == 1


def test_no_evict_waits_where_max_utilization_begins() -> None:
    requests = asked([0.0, 0.0], [160, 160], [320, 320])
    room = limits(40)  # each takes 30 blocks to its end, 10 for its prompt
    careful = with_policy("tensorrt-llm", "guaranteed-no-evict", requests, room)
    bold = with_policy("tensorrt-llm", "max-utilization", requests, room)
    assert sum(careful.preemptions) == 0
    assert careful.started[1] >= careful.finished[0] - 1e-9
    assert bold.started[1] < bold.finished[0]
    assert list(np.flatnonzero(bold.preemptions)) == [1]


def test_unchunked_prompts_are_whole() -> None:
    requests = asked([0.0] * 6, [300] * 6, [20] * 6)
    whole = served(requests, bare("vllm"), limits(tokens=700, chunked=False))
    assert set(prompts(whole)) <= {300, 600}
    cut = served(requests, bare("vllm"), limits(tokens=700))
    assert 700 in prompts(cut)


@pytest.mark.parametrize(("delay", "batches"), [(0.0, [1, 3]), (0.5, [4])])
def test_triton_waits_for_a_preferred_batch(delay: float, batches: list[int]) -> None:
    requests = asked([0.0, 0.001, 0.002, 0.003], [10] * 4, [8] * 4)
    how = replace(bare("static"), scheduler="triton")
    found = served(requests, how, limits(sequences=4, delay_s=delay))
    assert [count // 10 for count in prompts(found)] == batches


def test_triton_sends_the_largest_preferred_size_and_the_rest_after_the_delay() -> None:
    requests = asked([0.0] * 7, [10] * 7, [4] * 7)
    how = replace(bare("static"), scheduler="triton")
    found = served(requests, how, limits(sequences=8, sizes=(2, 4), delay_s=0.25))
    assert [count // 10 for count in prompts(found)] == [4, 2, 1]
    assert found.started[6] == pytest.approx(0.25)


def test_every_policy_of_an_engine_is_there() -> None:
    for name in ("vllm", "sglang", "tensorrt-llm"):
        profile = engine(name)
        assert profile.scheduler in profile.policies.values()
        assert all(policy(file).plan for file in profile.policies.values())
