"""What is kept for trials: the sets that a search asks for, and advice that can be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuscope.advice.forecast.advise import advise
from gpuscope.advice.forecast.known_changes import with_unforeseen
from gpuscope.advice.forecast.saving import likely_sets
from gpuscope.advice.results import Forecast
from gpuscope.advice.trial.candidates import Asked, find_candidates
from gpuscope.advice.types import LoaderSeen, Seen
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

_SCRIPT = """\
import torch


def build():
    model = torch.nn.Linear(4096, 4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 4096, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step
"""


class _H200:
    is_gpu = True
    name = "NVIDIA H200"

    def catalogue_device(self) -> None:
        return None


def test_steps_put_what_compiles_last() -> None:
    sets = likely_sets(("compile", "tf32", "fused-optimizer"))
    assert ("tf32",) in sets
    assert ("tf32", "fused-optimizer") in sets
    assert ("tf32", "fused-optimizer", "compile") in sets
    assert ("compile", "tf32") in sets, "half of the path, and the path without one"
    assert len(sets) == len(set(sets))
    assert likely_sets(()) == []


def test_kept_advice_gives_the_same_candidates(tmp_path: Path) -> None:
    file, path = tmp_path / "train.py", tmp_path / "advice.json"
    file.write_text(_SCRIPT)
    target, only = f"{file}:build", ("tf32", "fused-optimizer")
    advice = advise(target, "h200", only=only, save=path)
    asked = Asked(on="h200", only=only, advice=path)
    found = find_candidates(target, asked, _H200())  # type: ignore[arg-type]
    assert found.wanted.path
    assert advice.best is not None
    assert set(found.wanted.path) == set(advice.best.names)
    best = found.forecast(found.wanted.path)
    assert best is not None
    assert best.speedup == pytest.approx(advice.best.speedup, rel=1e-6)
    assert found.seen is not None
    assert found.seen == advice.case.seen
    assert found.forecast(("sdpa",)) is None
    with pytest.raises(InputFileError, match="--allow"):
        find_candidates(target, replace(asked, allow=("fp8",)), _H200())  # type: ignore[arg-type]
    fewer = find_candidates(target, replace(asked, only=("tf32",)), _H200())  # type: ignore[arg-type]
    assert fewer.wanted.path == ("tf32",)


def test_what_no_prediction_knows_is_tried(tmp_path: Path) -> None:
    both = Text("")

    def single(name: str) -> Forecast:
        return Forecast((name,), "little", both, 1.0, run=run)

    run: Any = SimpleNamespace(origin="predicted")
    singles = [single("loader-workers"), single("prefetch-batches"), single("tf32")]
    for loaders, wanted in (((LoaderSeen({}),), ("loader-workers", "prefetch-batches")), ((), ())):
        case: Any = SimpleNamespace(run=run, seen=Seen(loaders=loaders))
        found = with_unforeseen(("sdpa",), singles, case)
        assert found[0] == "sdpa"
        assert found[1:] == wanted
    assert "prefetch-batches" not in with_unforeseen(("whole-step-graph",), singles, case)
