"""Scaling tables: efficiency by hand, strong told from weak."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from test_job_document import small_job

from gpuscope.document.blocks import Lines, Table
from gpuscope.run import Run
from gpuscope.views.scaling import (
    efficiency,
    is_scaling,
    lost_share,
    render_scaling,
    scaling_blocks,
    sort_of,
)


@pytest.fixture(scope="module")
def job() -> Run:
    return small_job(tp=2, pp=2, global_batch=8)


def _halved(run: Run, tokens: int | None, step_s: float) -> Run:
    """The same job on half the devices, with another step."""
    results = tuple(
        replace(each, members=each.members[: len(each.members) // 2]) for each in run.rank_results
    )
    return replace(run, rank_results=results, tokens=tokens, step_time_s=step_s)


def test_efficiency_is_work_a_second_and_device_against_the_first(job: Run) -> None:
    assert job.tokens is not None
    half = _halved(job, job.tokens, 1.5 * job.step_time_s)
    assert is_scaling([half, job])
    assert sort_of([half, job]) == "strong"
    # Twice the devices do the same work 1.5 times as fast.
    assert efficiency(job, half) == pytest.approx(0.75)
    assert efficiency(half, half) == 1.0
    weak = _halved(job, job.tokens // 2, job.step_time_s)
    assert sort_of([weak, job]) == "weak"
    assert efficiency(job, weak) == pytest.approx(1.0)
    assert sort_of([_halved(job, job.tokens // 4, 1.0), job]) == "mixed"
    # Where tokens are not known, samples tell.
    assert sort_of([_halved(job, None, 1.0), replace(job, tokens=None)]) == "strong"


def test_one_number_of_devices_or_two_kinds_are_no_scaling(job: Run) -> None:
    assert not is_scaling([job])
    assert not is_scaling([job, job])
    other = replace(_halved(job, job.tokens, 1.0), device_id="other")
    assert not is_scaling([job, other])
    assert scaling_blocks([job, other]) == ()


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_says_which_scaling_and_what_limits_it(job: Run, width: int, lang: str) -> None:
    half = _halved(job, job.tokens, 1.5 * job.step_time_s)
    screen = io.StringIO()
    Console(file=screen, width=width).print(render_scaling([half, job], lang))
    text = screen.getvalue()
    assert ("Strong scaling" if lang == "en" else "强扩展") in text
    assert max(map(len, text.splitlines())) <= width
    if width == 100:
        assert "75.0 %" in text


def test_blocks_hold_the_curve_and_every_point(job: Run) -> None:
    half = _halved(job, job.tokens, 1.5 * job.step_time_s)
    blocks = scaling_blocks([job, half])
    lines = [block for block in blocks if isinstance(block, Lines)]
    assert lines[0].series[0].x == (8.0, 16.0)
    rates = lines[0].series[1].y
    assert rates[1] == pytest.approx(2 * (rates[0] or 0.0))
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == [8, 16]
    assert table.rows[1][4] == pytest.approx(0.75)
    assert table.rows[0][6] == lost_share(job, "bubble")
