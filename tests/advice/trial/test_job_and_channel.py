"""A job and its messages arrive as they were sent."""

from __future__ import annotations

import os

import pytest

from gpuscope.advice.results import Target
from gpuscope.advice.trial.channel import Channel
from gpuscope.advice.trial.job import Job


def test_a_job_survives_its_line() -> None:
    target = Target("script", "训练.py", {"batch": 4, "dtype": None}, ("--lr", "0.1"))
    job = Job(
        target,
        ("tf32", "fused-optimizer"),
        "cpu",
        3,
        5,
        1e-3,
        10,
        share="turns",
        memory_bytes=7,
        own_changes=("own.py",),
        allow_writes=True,
        rank=1,
        processes=2,
    )
    line = job.line()
    assert "\n" not in line
    assert Job.of_line(line) == job


@pytest.fixture
def ends() -> tuple[Channel, Channel]:
    one, two = os.pipe(), os.pipe()
    return Channel(one[0], two[1]), Channel(two[0], one[1])


def test_messages_arrive_in_order_and_whole(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    for number in range(3):
        assert here.send({"number": number, "text": "x\n" * 1000})
    assert [there.receive()["number"] for _ in range(3)] == [0, 1, 2]  # type: ignore[index]


def test_no_answer_in_time(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].receive(0.05)


def test_the_other_end_is_gone(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there.close()
    there.close()
    assert here.receive(1.0) is None
    assert not here.send({"more": 1})
