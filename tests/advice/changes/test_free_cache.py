"""Calls of `empty_cache`: found, silenced, edited away."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find
from gpuscope.advice.types import Seen

CODE = """import torch

def step():
    if True:
        torch.cuda.empty_cache()
    work()
"""


def test_silenced_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: called.append(1))
    with Live([find("free-cache")]):
        torch.cuda.empty_cache()
    assert not called
    torch.cuda.empty_cache()
    assert called == [1]


def test_edit(tmp_path) -> None:
    file = str(tmp_path / "train.py")
    (edit,) = find("free-cache").edits({file: CODE}, Seen(file=file))
    assert (edit.first, edit.last, edit.text) == (5, 5, "        pass\n")
    joined = CODE.replace("empty_cache()", "empty_cache(); work()")
    assert find("free-cache").edits({file: joined}, Seen(file=file)) is None


def test_where_it_fits(tmp_path) -> None:
    file = tmp_path / "train.py"
    file.write_text(CODE)
    case = case_of(lambda: lambda: torch.ones(3, device="cuda") * 2)
    change = find("free-cache")
    assert not change.fits(case).applies
    fit = change.fits(replace(case, seen=replace(case.seen, file=str(file))))
    assert fit.applies
    assert "train.py:5" in fit.why
    file.write_text("import torch\n")
    assert not change.fits(replace(case, seen=replace(case.seen, file=str(file)))).applies
