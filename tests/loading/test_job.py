"""Thin timelines: device work as it was, the host left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nsys_databases import make, step_tables

from gpuscope.analysis.time_classes import rank_time
from gpuscope.errors import InputFileError
from gpuscope.loading.job import Job, run_job, thinned
from gpuscope.program.types import Op
from gpuscope.timeline.types import DEVICE_KINDS


@pytest.fixture
def reading(tmp_path: Path):
    return run_job(Job(str(make(tmp_path / "s.sqlite", step_tables())), "nsys"))


def test_device_work_is_as_it_was(reading) -> None:
    whole, thin = reading.timeline, thinned(reading.timeline)
    work = whole.events.kind < DEVICE_KINDS
    assert len(thin.events) == work.sum() == len(thin.recorded)
    for name in ("start_ns", "duration_ns", "kind", "lane"):
        np.testing.assert_array_equal(getattr(thin.events, name), getattr(whole.events, name)[work])
    names = [whole.names[n] for n in whole.events.name[work]]
    assert [thin.names[n] for n in thin.events.name] == names
    assert set(thin.names) == set(names)
    np.testing.assert_array_equal(thin.recorded.grid, whole.recorded.grid)
    assert thin.steps == whole.steps
    before, after = (replace(rank_time(t, 0), idle_by_cause={}) for t in (whole, thin))
    assert before == after


def test_operators_of_device_work_stay(reading) -> None:
    whole = reading.timeline
    work = np.flatnonzero(whole.events.kind < DEVICE_KINDS)
    op = np.full(len(whole.events), -1, np.int64)
    op[work[0]], op[work[1]] = 2, 0
    ops = tuple(Op(i, f"op{i}") for i in range(4))
    thin = thinned(replace(whole, ops=ops, events=replace(whole.events, op=op)))
    assert [o.name for o in thin.ops] == ["op0", "op2"]
    assert thin.events.op[:3].tolist() == [1, 0, -1]


def test_sums_that_tell_who_waits(reading) -> None:
    assert (reading.span_ns, reading.compute_ns, reading.communication_ns) == (1_900, 1_000, 300)


def test_a_kind_that_is_no_trace() -> None:
    with pytest.raises(InputFileError, match="no trace"):
        run_job(Job("x.pickle", "snapshot"))
