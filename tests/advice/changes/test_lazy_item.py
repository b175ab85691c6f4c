"""Waits taken out of a step: priced, run, and written into the source alike."""

from __future__ import annotations

import itertools
from pathlib import Path
from textwrap import indent

import pytest
import torch
from changed_cases import case_of_file, loaded

import gpuscope as gs
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.patches import patch_of
from gpuscope.advice.types import ChangeCase, Seen
from gpuscope.errors import UnsupportedError

_numbers = itertools.count()


def _written(tmp_path: Path, *lines: str, device: str = "cuda") -> Path:
    path = tmp_path / f"train{next(_numbers)}.py"
    path.write_text(
        "import torch\n\n\ndef build():\n"
        f'    model = torch.nn.Linear(4, 4).to("{device}")\n'
        "    opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f'    x = torch.ones(2, 4, device="{device}")\n\n'
        "    def step():\n        opt.zero_grad()\n        loss = model(x).square().mean()\n"
        "        loss.backward()\n        opt.step()\n"
        + indent("".join(f"{line}\n" for line in lines), "        ")
        + "\n    return step\n"
    )
    return path


LAZY = plan(["lazy-item"])


def test_priced_and_patched_alike(tmp_path: Path) -> None:
    lines = "torch.cuda.synchronize()", "print(loss.item())", "return loss.item()"
    path = _written(tmp_path, *lines)
    case = case_of_file(path)
    assert case.program is not None
    assert [op.sync for op in case.program.ops if op.sync] == ["synchronize", "item", "item"]
    fit = find("lazy-item").fits(case)
    assert fit.applies
    assert "14, 15, 16" in fit.why
    live = Live(LAZY)
    changed = gs.capture(live.wrap(loaded(path)))
    live.close()
    assert case.seen is not None
    path.write_text(patch_of(["lazy-item"], case.seen).files[str(path)])
    patched = gs.capture(loaded(path))
    names = [(op.name, op.sync) for op in changed.ops]
    assert [(op.name, op.sync) for op in patched.ops] == names
    assert [sync for _, sync in names if sync] == ["synchronize"]  # for the step before


def test_the_same_numbers(tmp_path: Path) -> None:
    path = _written(tmp_path, "return loss.item()", device="cpu")
    torch.manual_seed(0)
    step = loaded(path)()
    eager = [step() for _ in range(3)]
    torch.manual_seed(0)
    live = Live(LAZY)
    step = live.wrap(loaded(path))()
    late = [step() for _ in range(3)]
    live.close()
    assert [float(value) for value in late] == eager
    assert isinstance(step(), float)  # as it was


@pytest.mark.parametrize(
    ("line", "why"), [("assert loss.item() > -1", "decides"), ("x.fill_(loss.item())", "followed")]
)
def test_what_cannot_go(tmp_path: Path, line: str, why: str) -> None:
    path = _written(tmp_path, line)
    fit = find("lazy-item").fits(case_of_file(path))
    assert not fit.applies
    assert why in fit.why
    live = Live(LAZY)
    with pytest.raises(UnsupportedError):
        gs.capture(live.wrap(loaded(path)))
    live.close()


def test_a_step_without_reads_or_without_source(tmp_path: Path) -> None:
    case = case_of_file(_written(tmp_path, "return loss"))
    assert not find("lazy-item").fits(case).relevant
    case = case_of_file(_written(tmp_path, "return loss.item()"))
    bare = ChangeCase(case.run, case.cluster, case.program, Seen())
    assert "not known" in find("lazy-item").fits(bare).why
    assert patch_of(["lazy-item"], Seen()).by_apply == ("lazy-item",)
    saving = find("lazy-item").saving_s(case.run, case)
    assert saving is not None
    assert 0 == saving[0] <= saving[1] <= case.run.step_time_s
