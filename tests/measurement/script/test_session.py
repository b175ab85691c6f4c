"""From steps to a run: when recording begins, what is timed, and what may go wrong."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpuscope.measurement.script import session as module
from gpuscope.measurement.script import step_clock
from gpuscope.measurement.script.ranks import Arrived, Place, clear, say_done, wait_for_others
from gpuscope.measurement.script.session import Session, Settings


def _work(n: int, session: Session, sleep_s: float = 0.0) -> None:
    for _ in range(n):
        torch.ones(16, 16) @ torch.ones(16, 16)
        time.sleep(sleep_s)
        session.step()


def _run(session: Session, tmp_path: Path):
    path = tmp_path / "trace.json"
    session.export(path)
    return session.run_of(path)


def test_the_step_time_is_that_of_the_steps_that_were_not_recorded(tmp_path: Path) -> None:
    session = Session(Settings(steps=2, skip=10, name="s"))
    _work(60, session, sleep_s=0.002)
    session.stop()
    run = _run(session, tmp_path)
    # Recorded steps take several times as long; a busy machine wakes late from a sleep.
    assert 0.002 < run.step_time_s < 0.05
    assert len(run.timeline.steps) == 2
    assert run.measurement.warmup_steps == 10
    assert run.measurement.confidence >= 0.95
    assert len(run.measurement.blocks_s) >= 30


def test_recording_begins_once_the_time_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    # The times are the test's own: on a busy machine, a sleep of 4 ms can last 30.
    clock = SimpleNamespace(perf_counter=lambda: now_s, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(step_clock, "time", clock)
    session = Session(Settings())
    slow = 0
    for i in range(60):
        now_s += max(0.004, 0.03 - 0.0025 * i)  # gets faster until step 11
        session.step()
        if session._state == "waiting":
            slow += 1
    session.stop()
    assert 11 < slow <= 50
    assert session.why_nothing() is None


def test_few_steps_say_so(tmp_path: Path) -> None:
    session = Session(Settings(steps=1, skip=1))
    _work(5, session)
    session.stop()
    run = _run(session, tmp_path)
    assert any("Too few steps" in sentence for sentence in run.assumptions)
    assert run.measurement.confidence is None


def test_nothing_was_recorded() -> None:
    assert "No step was seen" in Session(Settings()).why_nothing()[0]
    session = Session(Settings(skip=10))
    _work(4, session)
    session.stop()
    what, then = session.why_nothing()
    assert "after 4 steps" in what
    assert "--skip 1" in then


def test_a_failure_of_ours_never_reaches_the_program(monkeypatch) -> None:
    from gpuscope.measurement import profiling

    def failing(*_, **__):
        raise RuntimeError("the profiler is in use")

    monkeypatch.setattr(profiling, "make_profiler", failing)
    session = Session(Settings(skip=2))
    _work(8, session)
    session.stop()
    assert "the profiler is in use" in session.why_nothing()[0]


def _keys(recorded) -> set[str]:
    return {event.key for event in recorded.key_averages()}


def test_a_program_under_its_own_profiler_is_left_alone(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    session = Session(Settings(steps=1, skip=2))
    with profile(activities=[ProfilerActivity.CPU]) as own:
        _work(8, session)
    assert "aten::mm" in _keys(own)
    _work(8, session)  # ours comes after
    session.stop()
    assert len(_run(session, tmp_path).timeline.steps) == 1


def test_a_program_that_starts_its_own_profiler_gets_it(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    session = Session(Settings(steps=50, skip=2))
    _work(8, session)
    with profile(activities=[ProfilerActivity.CPU]) as own:
        _work(3, session)
    assert "aten::mm" in _keys(own)
    _work(3, session)
    session.stop()
    run = _run(session, tmp_path)
    assert 1 <= len(run.timeline.steps) < 8
    assert any("its own profiler" in sentence for sentence in run.assumptions)
    with profile(activities=[ProfilerActivity.CPU]) as own:
        torch.ones(2) + 1
    assert "aten::add" in _keys(own)


def test_no_hook_stays_behind() -> None:
    from torch.optim import optimizer as torch_optimizer

    session = Session(Settings(steps=1, skip=1))
    session.start()
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(module.TIMED_AFTER + 10):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert not torch_optimizer._global_optimizer_post_hooks
    session.stop()


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Place(0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Place(3, 4)),
        ({"RANK": "4", "WORLD_SIZE": "4"}, Place(0, 1)),
        ({"RANK": "x", "WORLD_SIZE": "4"}, Place(0, 1)),
        ({"RANK": "1"}, Place(0, 1)),
    ],
)
def test_who_this_process_is(environment, place) -> None:
    assert Place.of(environment) == place


@pytest.mark.parametrize("settles", [True, False])
def test_ranks_begin_at_the_same_step_whether_their_times_settle_or_not(settles: bool) -> None:
    session = Session(Settings(world_size=2))
    for i in range(1, 25):
        time.sleep(0.001 if settles else 0.0005 * (25 - i))
        session.step()
        if i == module.RANKS_SKIP - module.PREPARE_BEFORE:
            assert session._prepared_at == i  # the profiler's first start, before it records
        if i == module.RANKS_SKIP - 1:
            assert session._state == "waiting"
        if i == module.RANKS_SKIP:
            assert session._state == "recording"
    session.stop()
    assert session.first_step == module.RANKS_SKIP


@pytest.mark.parametrize(
    ("settings", "first", "in_all"),
    [
        (Settings(), None, 5),
        (Settings(skip=7), 7, 5),
        (Settings(world_size=4), 12, 6),
        (Settings(skip=1, world_size=4, steps=2), 1, 5),
    ],
)
def test_when_recording_begins(settings: Settings, first: int | None, in_all: int) -> None:
    assert settings.fixed_skip == first
    assert settings.steps_in_all == in_all


def test_a_rank_records_what_was_asked_for_after_two_steps_left_out(tmp_path: Path) -> None:
    session = Session(Settings(steps=2, skip=4, world_size=2))
    _work(30, session, sleep_s=0.001)
    session.stop()
    run = _run(session, tmp_path)
    assert session.first_step == 4
    assert len(run.timeline.steps) == 2
    assert run.measurement.profiled_steps == 2
    assert session._recorded == 5


def test_the_first_kind_of_step_is_forgotten_when_another_comes() -> None:
    """An evaluation before the training: its calls are no steps of it."""
    session = Session(Settings(skip=6))
    session._on_boundary("forward")
    session._on_boundary("forward")
    for _ in range(3):
        session._on_boundary("optimizer")
    assert session.steps_seen == 3


def test_rank_0_waits_for_the_others_and_takes_who_is_there(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / Place(rank, 3).trace_name()).write_text("{}")
    say_done(tmp_path, Place(1, 3))
    say_done(tmp_path, Place(2, 3), first_step=12)
    assert wait_for_others(tmp_path, Place(0, 3), wait_s=5) == Arrived((0, 2), {2: 12})
    assert not list(tmp_path.glob(".rank-*"))
    start = time.monotonic()
    assert wait_for_others(tmp_path, Place(0, 3), wait_s=0.2) == Arrived((0, 2), {})
    assert time.monotonic() - start < 20
    clear(tmp_path, Place(2, 3))
    assert wait_for_others(tmp_path, Place(0, 3), wait_s=0).ranks == (0,)


def test_ranks_that_recorded_other_steps_are_named() -> None:
    assert Arrived((0, 1, 2), {1: 12, 2: 16}).apart(12) == [2]
    assert Arrived((0, 1), {}).apart(12) == []
