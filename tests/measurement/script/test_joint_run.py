"""The joint run of several ranks, from real recordings with a known cause."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpuscope.measurement.script.ranks import Place, merged
from gpuscope.measurement.script.result import Seen, run_of_timeline
from gpuscope.measurement.script.step_times import Intervals

RECORDED = Path(__file__).resolve().parents[2] / "data" / "traces" / "4xh200"


class Played:
    """The accelerator of a machine that is not here."""

    is_gpu, kind, index, name = True, "cuda", 0, "NVIDIA H200"

    def catalogue_device(self):
        import gpuscope as gs

        return gs.device("h200")

    def software(self) -> dict[str, str]:
        return {"torch": "2.11.0"}

    def peak_allocated_bytes(self) -> None:
        return None

    peak_reserved_bytes = peak_allocated_bytes


def _timeline(name: str, folder: Path):
    for rank in range(4):
        source = RECORDED / name / f"rank-{rank}.json.gz"
        shutil.copy(source, folder / Place(rank, 4).trace_name())
    return merged(folder, 4, range(4), on_host=False)


@pytest.mark.parametrize(
    ("name", "rank", "kind"),
    [("ddp_slow_host", 1, "host_bound"), ("ddp_imbalance", 3, "wait_for_rank")],
)
def test_the_rank_that_holds_up_the_others_is_named(name, rank, kind, tmp_path: Path) -> None:
    run = run_of_timeline(_timeline(name, tmp_path), Seen(name, Played()))
    first = run.analysis.findings[0]
    assert first.kind == kind
    assert f"rank {rank} " in first.title
    assert "began later" not in first.title
    assert len({(step.start_ns, step.end_ns) for step in run.timeline.steps}) == 1
    assert {step.rank for step in run.timeline.steps} == {0, 1, 2, 3}
    assert run.device_busy_s <= run.step_time_s
    assert run.measurement.profiled_steps == 1


def test_nothing_seems_lost_after_the_cut(tmp_path: Path) -> None:
    run = run_of_timeline(_timeline("ddp_slow_host", tmp_path), Seen("s", Played()))
    assert {remark.code for remark in run.analysis.trust.remarks} <= {"no_memory_events"}


def test_a_device_is_never_busy_for_longer_than_a_step(tmp_path: Path) -> None:
    """Steps are shorter without the profiler, and what it adds is waiting in collectives."""
    timeline = _timeline("ddp_slow_host", tmp_path)
    whole = run_of_timeline(timeline, Seen("s", Played()))
    shorter_s = whole.device_busy_s * 0.8
    timed = Intervals((shorter_s,) * 20, (shorter_s,) * 20)
    run = run_of_timeline(timeline, Seen("s", Played(), timed))
    assert run.step_time_s == shorter_s
    assert run.device_busy_s == shorter_s
    assert any("collectives wait longer" in sentence for sentence in run.assumptions)


def test_a_step_is_never_shorter_than_its_own_work(tmp_path: Path) -> None:
    timeline = _timeline("ddp_imbalance", tmp_path)
    whole = run_of_timeline(timeline, Seen("s", Played()))
    run = run_of_timeline(timeline, Seen("s", Played(), Intervals((1e-4,) * 20)))
    assert run.step_time_s == whole.step_time_s
    assert any("Boundaries lie 100 µs apart" in sentence for sentence in run.assumptions)
