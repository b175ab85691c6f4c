"""Changes that answer findings: predicted as forecasts are, with the patch that makes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.advice.forecast.advise import advise
from gpuscope.advice.forecast.answers import answering, answers, remedies_of
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.registry import changes
from gpuscope.analysis.findings.registry import finding_kinds

CODE = """import torch


def build():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1000), torch.nn.GELU()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(512, 1024, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).sigmoid().sum().backward()
        optimizer.step()

    return step
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "answered.py"
    path.write_text(CODE)
    return path


def test_the_table_names_findings_and_changes_that_there_are():
    names = {change.name for change in changes()}
    assert set(answering()) <= set(finding_kinds())
    assert {name for listed in answering().values() for name in listed} <= names
    assert all(len(set(listed)) == len(listed) for listed in answering().values())


def test_what_answers_a_finding_is_the_forecast_with_its_patch(file):
    with Forecaster(f"{file}:build") as forecaster:
        run = forecaster.case.run
        found = answers(forecaster, run)
        assert "fused-optimizer" in [each.change for each in found]
        for each in found:
            forecast = forecaster.forecast((each.change,))
            assert each.step_time_s == forecast.step_time_s
            assert each.speedup == pytest.approx(run.step_time_s / each.step_time_s)
            assert each.timeline is forecast.run.timeline
            for at in each.findings:
                assert each.change in answering()[run.analysis.findings[at].kind]
    fused = next(each for each in found if each.change == "fused-optimizer")
    assert "-    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)" in fused.diff
    assert "fused=True" in fused.diff
    assert f"a/{file.name}" in fused.diff


def test_of_advice_the_best_combination_stands_first(file):
    advice = advise(f"{file}:build", only=("fused-optimizer", "tf32", "optimizer-offload"))
    drawn = remedies_of(advice)
    assert advice.best is not None
    assert drawn[0].change == " + ".join(advice.best.names)
    assert drawn[0].step_time_s == advice.best.step_time_s
    assert drawn[0].findings == () or len(advice.best.names) == 1
    assert "optimizer-offload" not in [each.change for each in drawn]  # it hurts


def test_code_that_is_none_of_the_reader_s_has_no_patch(file, monkeypatch):
    with Forecaster(f"{file}:build") as forecaster:
        case = forecaster.case
        monkeypatch.setattr(forecaster, "_case", replace(case, seen=replace(case.seen, file="")))
        found = answers(forecaster, case.run)
    assert found
    assert all(each.diff == "" for each in found)
