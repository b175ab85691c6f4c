"""Joining equal places of a sparse tensor, held to a recorded step on an H200.

`validation/recordings/h200/fourth/multi-task-ranking.csv.gz`: gradients of 16,384 and 819,200 rows
of 64 float32 values.
"""

from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.types import Kernel


def joined(count: int, left: int, hot: bool = True) -> tuple[Kernel, ...]:
    given = dense(1, count, dtype="int64"), dense(count, 64)
    made = dense(1, left, dtype="int64"), dense(left, 64)
    return run("_coalesce.sparse", given, made, hot=hot)


def names(count: int, left: int) -> list[str]:
    return [kernel.name for kernel in joined(count, left)]


@pytest.mark.parametrize(("count", "left", "passes"), [(16_384, 16_039, 3), (819_200, 348_246, 9)])
def test_runs_are_merged_pass_by_pass_as_recorded(count: int, left: int, passes: int) -> None:
    found = names(count, left)
    assert found.count("merge_sort_merge") == found.count("merge_sort_cuts") == passes
    assert found.count("merge_sort_runs") == 1


def test_runs_are_as_many_blocks_as_recorded() -> None:
    grids = {k.name: k.grid for k in joined(819_200, 348_246)}
    assert grids["merge_sort_runs"] == grids["merge_sort_merge"] == 400
    assert grids["unique_by_key"] == 167
    assert grids["coalesce_values"] == 87_062


def test_kernels_take_what_they_took() -> None:
    small = {k.name: k.duration_s for k in joined(16_384, 16_039)}
    large = {k.name: k.duration_s for k in joined(819_200, 348_246, hot=False)}
    assert small["merge_sort_runs"] == pytest.approx(15.7e-6, rel=0.15)
    assert large["merge_sort_runs"] == pytest.approx(49.3e-6, rel=0.4)
    assert small["merge_sort_merge"] == pytest.approx(3.9e-6, rel=0.2)
    assert small["unique_by_key"] == pytest.approx(5.4e-6, rel=0.2)
    assert large["coalesce_values"] == pytest.approx(113e-6, rel=0.25)


def test_one_place_has_nothing_to_be_joined_with() -> None:
    assert joined(1, 1) == ()
