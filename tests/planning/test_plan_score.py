"""The bounds by hand, and how they move with the machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import asked, judged

from gpuscope.planning.score import score
from gpuscope.planning.space import candidates


def test_states_of_one_device_are_sixteen_bytes_a_parameter_less_the_gradients() -> None:
    question = asked(devices="1")
    found, _ = candidates(question)
    least = score(question, found).least_bytes
    # 8.03 billion parameters: 4 bytes each and two moments of 4; norms are left out.
    assert least == pytest.approx(np.full(len(found), 12 * 8.03e9), rel=2e-3)


def test_no_step_is_quicker_than_its_arithmetic() -> None:
    question = asked()
    found, _ = candidates(question)
    scores = score(question, found)
    # 6 x (8.03 - 0.525) billion a token, and 6 x 32 x 4096 x 4096 of attention; 262,144 tokens.
    flops = (6 * 7.505e9 + 6 * 32 * 4096 * 4096) * 262144
    assert scores.least_s == pytest.approx(flops / 989.5e12 / 8, rel=5e-3)
    assert (scores.estimate_s > scores.least_s).all()


def test_sharding_divides_the_states() -> None:
    question = asked()
    found, _ = candidates(question)
    least = score(question, found).least_bytes
    by_kind = {each.plan.fsdp: b for each, b in zip(found, least, strict=True) if each.plan.dp == 8}
    assert by_kind["none"] == pytest.approx(8 * by_kind["full"])
    assert by_kind["zero1"] == pytest.approx(by_kind["none"] * (4 + 1) / 12)


def test_more_bandwidth_makes_no_estimate_worse() -> None:
    question = asked()
    found, _ = candidates(question)
    slow = score(question, found).estimate_s
    cluster = question.clusters[0]
    link = cluster.device.scale_up
    assert link is not None
    device = replace(cluster.device, scale_up=link.with_bandwidth(2e12))
    better = [replace(e, cluster=cluster.with_device(device)) for e in found]
    assert (score(question, better).estimate_s <= slow).all()


def test_context_parallelism_pays_for_keys_and_values() -> None:
    question = asked(seq=8192)
    found, _ = candidates(question)
    scores = score(question, found)
    of = {each.words: n for n, each in enumerate(found)}
    alone = of["dp 2, tp 4, fsdp zero1, microbatch 1"]
    shared = of["tp 4, cp 2, fsdp zero1, microbatch 1"]
    # A block's 4,096 tokens of the other part: keys and values of 2 heads of 128, gathered twice in
    # bfloat16, their gradients once in float32; 32 blocks, 64 micro-batches, 70 % of 450 GB/s.
    moved_s = (2 * 2 + 4) * 2 * 2 * 128 * 4096 * 32 * 64 / (0.7 * 450e9)
    tokens_s = scores.estimate_s[shared] - scores.estimate_s[alone]
    assert tokens_s == pytest.approx(moved_s, rel=0.05)


def test_schedules_that_put_work_off_hold_more() -> None:
    question = asked(devices="8", global_batch=64)
    layout = {"dp": 2, "pp": 4, "fsdp": "zero1", "microbatch": 1, "microbatches": 32}
    plans = [
        judged(1.0, **layout, **more).candidate
        for more in ({}, {"schedule": "interleaved", "virtual": 2}, {"schedule": "zb"})
    ]
    found = score(question, plans)
    kept = found.estimate_bytes - found.least_bytes
    gradients = 4 * 8.03e9 / 4
    once, virtual, zero = kept - gradients
    assert once < virtual < zero
    # 4 stages in two parts: 4 × (1 + 3 / 8) micro-batches in flight.
    assert virtual / once == pytest.approx(1.375, rel=0.05)
    assert zero / once == pytest.approx(2.0, rel=0.05)


def test_zero_2_holds_more_than_zero_3_and_less_than_zero_1_and_moves_less() -> None:
    """Gathered parameters stay in bfloat16 (ZeRO-2), whole parameters and gradients in float32
    (ZeRO-1); ZeRO-3 gathers parameters again for the backward pass."""
    question = asked(devices="8", global_batch=64)
    shardings = ("full", "zero2", "zero1")
    plans = [
        judged(1.0, dp=8, fsdp=each, microbatch=1, microbatches=8).candidate for each in shardings
    ]
    found = score(question, plans)
    full, kept, late = found.estimate_bytes
    assert full < kept < late
    assert kept - full == pytest.approx(2 * question.size.parameters, rel=0.1)
    assert found.estimate_s[1] < found.estimate_s[0]
