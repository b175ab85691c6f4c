"""A predicted job keeps who talks to whom when it is saved and read again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec
from gpuscope.run.timeline_document import timeline_document
from gpuscope.run.timeline_reader import read_timeline
from gpuscope.timeline.simulate_ranks import simulate_ranks


def job():
    spec = TensorSpec((64,), (1,), "bfloat16", storage=1)
    op = Op(0, "c10d::allreduce_", inputs=(spec,), outputs=(spec,), group=0)
    kernel = Kernel(
        "collective_all_reduce", "collective", 0, 1e-5, 1e-5, 1e-5, lane="link", limiter="link"
    )
    program = Program("job", (op,), world_size=4, groups=(ProcessGroup("0", "dp", (0, 1, 2, 3)),))
    cost = CostedProgram(program, "h200", (CostedOp(op, (kernel,), HostCost(1e-6, 1e-6, 0.0)),))
    return simulate_ranks([cost], [(0, 1, 2, 3)]).timeline


def test_messages_survive():
    timeline = job()
    read = read_timeline(json.loads(json.dumps(timeline_document(timeline, 1000))))
    assert read.stands_for == {0: (0, 1, 2, 3)}
    assert read.collectives == timeline.collectives
    assert read.messages is not None
    assert timeline.messages is not None
    for name in ("event", "collective", "sequence"):
        assert np.array_equal(getattr(read.messages, name), getattr(timeline.messages, name))


def test_messages_of_events_that_are_left_out_are_left_out():
    document = timeline_document(
        job(), 2
    )  # of step, operator, launch and collective the longest two
    assert document["events_total"] == 4
    assert len(document["messages"]["event"]) == 1
    assert document["messages"]["event"][0] < 2


def test_messages_outside_of_the_events_are_refused():
    document = json.loads(json.dumps(timeline_document(job(), 1000)))
    document["messages"]["event"] = [99]
    with pytest.raises(ValueError, match="outside"):
        read_timeline(document)
