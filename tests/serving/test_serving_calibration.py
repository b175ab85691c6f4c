"""Constants of host and efficiency from measured runs: found again, judged on others, refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from vllm_recorded import deployed, half, measured

from gpuscope.cli.app import make_app
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError
from gpuscope.serving.calibrate import asked_again, calibrate, calibrate_files, observed
from gpuscope.serving.document import save_serving
from gpuscope.serving.result import Served, Serving
from gpuscope.serving.simulate import Deployment, serve_requests
from gpuscope.serving.tuning import Factor, Tuning, load_tuning, save_tuning, scaled

WRONG = {"device": 1.3, "host": 0.5, "request": 2.0, "stream": 0.6}


def _with(found: Deployment, factors: dict[str, float]) -> Deployment:
    engine = scaled(found.engine, factors)
    return replace(found, engine=engine, cost=replace(found.cost, scale=engine.device_scale))


def _error(found: Deployment, runs: list[Serving]) -> float:
    """Mean over the runs of the mean error of TTFT and TPOT."""
    off = []
    for run in runs:
        mine, truth = observed(serve_requests(found, asked_again(run)).served), observed(run.served)
        off.append(np.nanmean(np.abs(mine / truth - 1)))
    return float(np.mean(off))


@pytest.mark.parametrize(
    "factors",
    [
        {"device": 1.2, "host": 0.7, "request": 1.5},
        {"device": 1.1, "host": 0.8, "request": 1.2},
        {"device": 0.9, "host": 0.6, "request": 0.7},
    ],
)
def test_known_constants_are_found_again(factors: dict[str, float]) -> None:
    true = _with(deployed(), factors)
    runs = [
        replace(serve_requests(true, asked_again(each)), origin="measured")
        for each in map(measured, ("dec.c1", "dec.c16", "dec.c64", "chat.r30"))
    ]
    fit = calibrate(deployed(), runs).tuning
    # The host's time hides behind the device's in most iterations: few requests tell it.
    for name, near in (("device", 0.05), ("host", 0.1), ("request", 0.05)):
        assert fit.factors[name].value == pytest.approx(factors[name], rel=near)
    assert fit.error_after is not None
    assert fit.error_after < 0.02


def test_a_wrong_profile_is_set_right_by_one_half_and_judged_by_the_other() -> None:
    wrong, held = _with(deployed(), WRONG), half("held")
    fit = calibrate(wrong, half("fit")).tuning
    again = _with(wrong, {name: each.value for name, each in fit.factors.items()})
    assert _error(wrong, held) > 0.25
    assert _error(again, held) < 0.1
    right = calibrate(deployed(), half("fit")).tuning  # the same constants, wherever it starts
    for name, factor in WRONG.items():
        assert fit.factors[name].value * factor == pytest.approx(right.factors[name].value, rel=0.1)


@pytest.mark.parametrize("name", ["dec.c16", "pre.i2048", "chat.cap", "chat.r30"])
def test_one_load_cannot_tell_them_apart(name: str) -> None:
    with pytest.raises(InvalidValueError, match=r"cannot tell .* apart"):
        calibrate(deployed(), [measured(name)])


def test_loads_that_hardly_ask_for_a_constant_say_nothing_of_it() -> None:
    """Where tokens never queue, their streaming once came out as 2.4 +- 5 % of what it is."""
    run = measured("chat.r30")
    part = {f.name: getattr(run.served, f.name) for f in fields(run.served)}
    first = {name: column[:60] if len(column) else column for name, column in part.items()}
    quiet = [replace(run, served=Served(**first)), measured("dec.c1")]
    found = calibrate(deployed(), quiet).tuning.factors["stream"]
    assert (found.value, found.spread) == (1.0, None)


def test_a_file_is_what_was_kept(tmp_path: Path) -> None:
    kept = Tuning(engine="vllm", model="m", devices="h200", factors={"device": Factor(value=1.1)})
    path = tmp_path / "c.json"
    save_tuning(kept, path)
    assert load_tuning(path) == kept
    engine = deployed().engine
    assert kept.applied(engine).device_scale == pytest.approx(1.1 * engine.device_scale)
    with pytest.raises(InvalidValueError, match="not of sglang"):
        kept.applied(replace(engine, name="sglang"))
    document = json.loads(path.read_text())
    for factors in ({"speed": {"value": 1.0}}, {"device": {"value": 0}}, {"device": {}}):
        path.write_text(json.dumps({**document, "factors": factors}))
        with pytest.raises(InputFileError):
            load_tuning(path)


def test_runs_that_say_nothing_are_refused(tmp_path: Path) -> None:
    run = measured("dec.c16")
    cases = {
        "predicted": replace(run, origin="predicted"),
        "was the limit": replace(run, client={"void": "late"}),
        "cache": replace(
            run, server={"prefix_hit_tokens": 50.0, "prefix_queried_tokens": 100.0}
        ),
        "finished": replace(run, served=replace(run.served, status=run.served.status + 1)),
    }  # fmt: skip
    for word, each in cases.items():
        path = tmp_path / "m.json"
        save_serving(each, path)
        with pytest.raises(GpuscopeError, match=word):
            calibrate_files([path])


def test_the_verb_keeps_and_uses_them(tmp_path: Path) -> None:
    files = []
    for name in ("chat.cap", "chat.r30"):
        save_serving(measured(name), tmp_path / f"{name}.json.gz")
        files.append(str(tmp_path / f"{name}.json.gz"))
    app, kept = make_app(["serve"]), str(tmp_path / "c.json")

    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["serve", *words])
        return f"{done.exit_code} {' '.join(done.output.split())} {done.exception or ''}"

    told = said("--calibrate", ",".join(files), "--on", "h200", "--output", kept)
    assert told.startswith("0 ")
    assert "device time" in told
    assert "error before" in told
    used = said("llama-3.1-8b", "--rate", "2", "--requests", "20", "--calibration", kept)
    assert "2 measured runs of llama-3.1-8b" in used
    assert "cannot tell" in said("--calibrate", files[0])
    assert "No model is named" in said("--rate", "1")


def test_a_page_is_written_beside_json(tmp_path: Path) -> None:
    app, page = make_app(["serve"]), tmp_path / "p.html"
    load = ["serve", "llama-3.1-8b", "--rate", "2", "--requests", "20"]
    done = CliRunner().invoke(app, [*load, "--json", "--report", str(page)])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["schema"] == "gpuscope.serving"
    assert page.stat().st_size > 100_000
