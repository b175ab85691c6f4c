"""Advice kept in a file: what comes back is what went in, and nothing else is taken for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuscope.advice.forecast.store import (
    AdviceOf,
    KeptAdvice,
    advice_of_target,
    read_advice,
    write_advice,
)
from gpuscope.advice.results import Forecast, Refusal
from gpuscope.advice.source.locating import locate
from gpuscope.advice.types import Fit, ModelSeen, OptimizerSeen, Seen
from gpuscope.document.text import recorded, render
from gpuscope.errors import InputFileError

_BOTH = recorded({"en": "why", "zh": "为什么"})


def _script(folder: Path, text: str = "def build():\n    return lambda: 1\n") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "train.py"
    file.write_text(text)
    return file


def _of(file: Path, **other: Any) -> AdviceOf:
    asked: dict[str, Any] = {"device": "h200", "devices": 1, "objective": "time", "allow": ()}
    return advice_of_target(locate(f"{file}:build"), **{**asked, **other})


def _kept(file: Path) -> KeptAdvice:
    optimizer = OptimizerSeen(
        "AdamW", {"betas": (0.9, 0.999), "lr": 3e-4}, 10, ("float32",), f"{file}:2"
    )
    model = ModelSeen("M", "torch.nn", json.__file__, 10, ("float32",), {"M": 1})
    seen = Seen((model,), (optimizer,), file=str(file), function="build", batch=8)
    single = Forecast(("tf32",), "helps", _BOTH, 1.5, 1.4, 1.6, 0.02, 10, 20, None, _BOTH)
    both = Forecast(("tf32", "fused-optimizer"), "helps", _BOTH, 1.7, 1.6, float("inf"), 0.018)
    none = Forecast((), "little", _BOTH, 1.0, 1.0, 1.0, 0.03)
    return KeptAdvice(
        _of(file),
        ("tf32", "fused-optimizer"),
        (single,),
        (none, single, both),
        ("tf32",),
        seen,
        "samples",
        8,
        (Refusal("fp8", Fit(False, _BOTH)),),
        (_BOTH,),
    )


def test_what_comes_back_is_what_went_in(tmp_path: Path) -> None:
    file = _script(tmp_path / "one")
    kept = _kept(file)
    write_advice(tmp_path / "advice.json", kept, file)
    assert read_advice(tmp_path / "advice.json", kept.of, file) == kept


def test_the_order_of_names_does_not_matter_and_the_unknown_is_none(tmp_path: Path) -> None:
    forecast = _kept(_script(tmp_path)).forecasting()
    found = forecast(("fused-optimizer", "tf32"))
    assert found is not None
    assert found.speedup == 1.7
    assert forecast(("sdpa",)) is None


def test_it_holds_on_another_machine_where_the_same_file_lies_elsewhere(tmp_path: Path) -> None:
    there, here = _script(tmp_path / "one"), _script(tmp_path / "two")
    path = tmp_path / "advice.json"
    kept = _kept(there)
    said = recorded(
        {
            "en": f"It failed (line 2 of {there}).",
            "zh": f"失败（{tmp_path}/site-packages/lib/a.py）。",
        }
    )
    failed = Forecast(("checkpoint",), "fails", said)
    write_advice(path, replace(kept, forecasts=(*kept.forecasts, failed)), there)
    assert str(tmp_path) not in path.read_text(), "no paths of the machine that wrote it"
    found = read_advice(path, _of(here), here)
    assert found.seen is not None
    assert found.seen.file == str(here)
    assert found.seen.optimizers[0].site == f"{here}:2"
    why = found.forecasts[-1].why
    assert why == f"It failed (line 2 of {here})."
    assert render(why, "zh") == "失败（{packages}/lib/a.py）。"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"device": "h100"}, "1xh200"),
        ({"devices": 2}, "1xh200"),
        ({"objective": "memory"}, "objective"),
        ({"allow": ("fp8",)}, "--allow"),
    ],
)
def test_advice_of_something_else_is_refused(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    file = _script(tmp_path)
    write_advice(tmp_path / "advice.json", _kept(file), file)
    with pytest.raises(InputFileError, match=said):
        read_advice(tmp_path / "advice.json", _of(file, **other), file)


def test_changed_code_is_refused(tmp_path: Path) -> None:
    file = _script(tmp_path)
    write_advice(tmp_path / "advice.json", _kept(file), file)
    _script(tmp_path, "def build():\n    return lambda: 2\n")
    with pytest.raises(InputFileError, match="the code"):
        read_advice(tmp_path / "advice.json", _of(file), file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "no advice"),
        ('{"schema": "gpuscope.ladder"}', "no advice"),
        ('{"schema": "gpuscope.advice", "version": 99}', "version 99"),
        ('{"schema": "gpuscope.advice", "version": 1}', "not whole"),
    ],
)
def test_what_is_no_advice_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = _script(tmp_path)
    path = tmp_path / "advice.json"
    path.write_text(text)
    with pytest.raises(InputFileError, match=said):
        read_advice(path, _of(file), file)
    with pytest.raises(InputFileError, match="Cannot read"):
        read_advice(tmp_path / "none.json", _of(file), file)


def test_changes_that_there_are_not_are_refused(tmp_path: Path) -> None:
    file = _script(tmp_path)
    path = tmp_path / "advice.json"
    write_advice(path, _kept(file), file)
    path.write_text(path.read_text().replace('"tf32"', '"tf64"'))
    with pytest.raises(InputFileError, match="tf64"):
        read_advice(path, _of(file), file)
