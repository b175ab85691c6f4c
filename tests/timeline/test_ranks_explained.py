"""Predicted ranks are explained by the code that explains recorded ones: causes built in, found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pipeline_programs import one_f_one_b_order, pipeline
from timeline_programs import US, call, kernel, ranked, talk

from gpuscope.analysis import analyze
from gpuscope.analysis.collective_match import match_collectives
from gpuscope.analysis.communication import communication
from gpuscope.analysis.mesh import mesh
from gpuscope.analysis.pipeline import pipeline as read_pipeline
from gpuscope.program.types import ProcessGroup, TensorSpec
from gpuscope.timeline.simulate_ranks import simulate_ranks
from gpuscope.timeline.types import EVENT_KINDS
from gpuscope.timeline.walk import Pace

EIGHT = ProcessGroup("0", "dp", tuple(range(8)))
KIB = 256
"""float32 elements of a kibibyte."""


def big(item, kib: int):
    spec = TensorSpec((kib * KIB,), (1,), "float32", storage=900)
    return replace(item, op=replace(item.op, inputs=(spec,)))


def step(rank: int):
    ops = []
    for _ in range(6):
        ops += [call(kernel(200), reads=[5]), big(talk(80, stream=1, waits=(len(ops),)), 1024)]
    return ranked([*ops, call(kernel(50), reads=[5], waits=(11,))], rank, (EIGHT,), 8)


def straggling(**pace):
    members = [tuple(r for r in range(8) if r != 3), (3,)]
    return simulate_ranks([step(0), step(3)], members, paces=[Pace(), Pace(**pace)])


def test_a_slow_device_is_named_with_its_reason():
    found = analyze(straggling(device=1.3).timeline).ranks
    assert found is not None
    assert found.matched == 6
    assert found.complete
    assert found.straggler is not None
    assert found.straggler.rank == 3
    assert found.straggler.reason == "slower kernels"
    assert found.straggler.seen == "steps"
    assert "record" not in found.sentence


def test_the_waits_are_those_of_the_simulation():
    simulation = straggling(device=1.3)
    found = analyze(simulation.timeline).ranks
    assert found is not None
    for share, rank in zip(found.ranks, simulation.ranks, strict=True):
        assert share.waiting_s == pytest.approx(sum(rank.waiting_s.values()), abs=2e-8)
        assert share.transfer_s == pytest.approx(6 * 80 * US, abs=2e-8)


def test_equal_ranks_wait_for_nobody_and_their_rates_are_exact():
    simulation = simulate_ranks([step(0)], [tuple(range(8))])
    assert analyze(simulation.timeline).ranks is None
    match = match_collectives(simulation.timeline)
    assert match.alone.all()
    assert match.complete
    (sort,) = communication(simulation.timeline, 0).sorts
    assert not sort.is_lower_bound
    assert (sort.name, sort.group, sort.group_size) == ("all_reduce", "dp", 8)
    assert sort.message_bytes == 1 << 20
    assert sort.bus_bytes_per_s == pytest.approx((1 << 20) / (80 * US) * 2 * 7 / 8, rel=1e-3)


def test_the_mesh_has_all_ranks_and_what_they_send():
    simulation = simulate_ranks([step(0)], [tuple(range(8))])
    found = mesh(simulation.timeline, None, {0: 1.0})
    assert found is not None
    assert [rank.rank for rank in found.ranks] == list(range(8))
    assert found.groups[0].ranks == EIGHT.ranks
    assert found.ranks[0].sent_bytes == pytest.approx(6 * (1 << 20) * 2 * 7 / 8)


def test_a_pipeline_is_recognised():
    orders = [one_f_one_b_order(4, 8, stage) for stage in range(4)]
    programs, members = pipeline(orders, message_us=1)
    phased = [
        replace(
            program,
            ops=tuple(
                replace(item, op=replace(item.op, phase="backward"))
                if item.op.name == "B"
                else item
                for item in program.ops
            ),
        )
        for program in programs
    ]
    timeline = simulate_ranks(phased, members).timeline
    story = analyze(timeline).ranks
    assert story is not None
    assert story.straggler is None  # the bubble of equal stages is nobody's fault
    found = read_pipeline(timeline)
    assert found is not None
    assert (found.depth, found.micro_batches) == (4, 8)
    assert found.ideal_share == pytest.approx(3 / 11)
    assert found.bubble_share == pytest.approx(3 / 11, abs=0.02)


def test_every_send_finds_its_receive():
    orders = [one_f_one_b_order(4, 8, stage) for stage in range(4)]
    timeline = simulate_ranks(*pipeline(orders, message_us=20)).timeline
    match = match_collectives(timeline)
    # Three links, eight micro-batches, forwards and backwards.
    assert match.count == 3 * 8 * 2
    assert (match.id >= 0).all()
    assert match.given_up == ()
    talks = timeline.events.kind == EVENT_KINDS.index("communication")
    assert int(np.count_nonzero(talks)) == 2 * match.count
