"""Plans that would make a job fit: tried in order, passed over where they cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from gpuscope import api
from gpuscope.cli import fit_trials as trials
from gpuscope.cli.app import app
from gpuscope.cli.fit_trials import ENOUGH, MOST_TRIALS, fit_trials, told, trials_on_more
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import parse_target
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions

CLUSTER = parse_target("8xh200")


Job = tuple[int, bool, Callable[[], float]]


def _job(fits: bool) -> Job:
    return 2**30, fits, lambda: 1.0


def _tried(monkeypatch, answer, plan: ParallelOptions) -> tuple[list[ParallelOptions], list[str]]:
    """The plans asked for, and the words of those that came back."""
    asked: list[ParallelOptions] = []

    def predicted(workload, cluster, options, calibration):
        asked.append(options.parallel)
        return answer(options.parallel)

    monkeypatch.setattr(trials, "predicted", predicted)
    options = WorkloadOptions(task="train", parallel=plan)
    found = fit_trials("llama-3.1-8b", CLUSTER, options, None, lambda _: None)
    return asked, [trial.options for trial in found]


def test_it_stops_when_enough_fit(monkeypatch) -> None:
    asked, words = _tried(monkeypatch, lambda _: _job(True), ParallelOptions(fsdp="none", dp=8))
    assert words == ["--fsdp full", "--recompute full"]
    assert len(asked) == ENOUGH
    assert asked[0].fsdp == "full"


def test_it_gives_up_after_a_few(monkeypatch) -> None:
    asked, words = _tried(monkeypatch, lambda _: _job(False), ParallelOptions(fsdp="none"))
    assert len(asked) == len(words) == MOST_TRIALS


def test_plans_that_cannot_be_are_passed_over(monkeypatch) -> None:
    def answer(plan: ParallelOptions) -> Job:
        if plan.tp is not None:
            raise InvalidValueError("heads do not divide")
        return _job(plan.pp == 2)

    full = ParallelOptions(fsdp="full", recompute="full", dp=8)
    asked, words = _tried(monkeypatch, answer, full)
    assert words == ["--pp 2 --dp 4"]
    assert [plan.tp for plan in asked] == [2, None]


def test_without_a_parallel_job_nothing_is_tried() -> None:
    """Inference has no plan; training on several devices is data parallel, and has one."""
    options = WorkloadOptions(task="prefill")
    assert fit_trials("gpt2", CLUSTER, options, None, pytest.fail) == ()


def test_the_story_names_the_rank_and_what_fits(monkeypatch) -> None:
    monkeypatch.setattr(trials, "predicted", lambda *_: _job(True))
    line = (
        "predict llama-3.2-1b --task train --layers 2 --seq 1024 --on 4xh200 --pp 2 --fsdp none"
        " --set memory=3GiB"
    )
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "does not fit: it needs" in text
    assert "Rank " in text
    assert "Predicted to fit: --" in text


def _on_more(monkeypatch, fits, workload: str = "llama-3.2-1b", **more) -> list[str]:
    """What is tried for a block and an embedding whose states take 5.2 GB, on devices of 1.2."""
    options = WorkloadOptions(layers=1, seq=128, batch=1, **more)
    one = parse_target("h200")
    small = one.with_device(one.device.replace(memory_bytes=1_200_000_000))
    run = api.predict("llama-3.2-1b", small, options=options)
    assert run.fits is False
    asked: list[str] = []

    def predicted(workload, cluster, options, calibration):
        asked.append(f"{cluster.n_devices} {options.parallel.fsdp} {options.parallel.recompute}")
        assert cluster.device == small.device
        return _job(fits(cluster.n_devices, options.parallel.recompute))

    monkeypatch.setattr(trials, "predicted", predicted)
    found = trials_on_more(workload, run, small, options, None, lambda _: None)
    tried = [trial.options.split()[1].split("x")[0] for trial in found]
    assert tried == [each.split()[0] for each in asked]
    if found:
        hint = str(told(run, found).analysis.findings[0].hint)
        assert hint.startswith(f"It fits on more devices, as predicted, with {found[-1].options} (")
        assert found[-1].options.endswith(" --microbatch 1")
    return asked


def test_one_device_too_small_names_the_fewest_that_hold_it(monkeypatch) -> None:
    asked = _on_more(monkeypatch, lambda devices, recompute: devices == 16 and recompute == "full")
    assert asked == ["8 full None", "8 full full", "16 full None", "16 full full"]


def test_code_of_the_users_is_not_tried_on_more(monkeypatch) -> None:
    assert _on_more(monkeypatch, lambda *_: True, workload="train.py:build") == []


def test_what_is_told_is_what_a_whole_prediction_says() -> None:
    """The peak and time of a plan, costed or not until it is asked for, are those of `recost`."""
    plan = ParallelOptions(fsdp="full", microbatch=1)
    options = WorkloadOptions(layers=1, seq=128, parallel=plan)
    two = parse_target("2xh200")
    for memory_bytes in (two.device.memory_bytes, 1_000_000_000):
        on = two.with_device(two.device.replace(memory_bytes=memory_bytes))
        peak, fits, time = trials.predicted("llama-3.2-1b", on, options, None)
        whole = api.recost("llama-3.2-1b", on, options=options)
        assert (peak, fits, time()) == (whole.peak_memory_bytes, whole.fits, whole.step_time_s)
