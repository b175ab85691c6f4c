"""Hand-written attention in live code: one fused operator, the same numbers, the same patch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from changed_cases import case_of_file, loaded

import gpuscope as gs
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.patches import patch_of
from gpuscope.advice.types import Seen
from gpuscope.errors import UnsupportedError

MODEL = """\
import torch
from torch import nn


def attend(q, k, v, scale: float):
    scores = q @ k.transpose(-2, -1) * scale
    return scores.softmax(dim=-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
        return attend(q, k, v, 0.25).transpose(1, 2).flatten(2)
"""

TRAIN = """\
import torch
from {model} import Block


def build():
    model = torch.nn.Sequential(Block(), Block()).to("{device}")
    x = torch.randn(2, 8, 64, device="{device}")

    def step():
        out = model(x)
        out.sum().backward()
        return out

    return step
"""

_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.syspath_prepend(tmp_path)

    def made(model: str = MODEL, device: str = "cuda") -> Path:
        number = next(_numbers)
        (tmp_path / f"model{number}.py").write_text(model)
        path = tmp_path / f"train{number}.py"
        path.write_text(TRAIN.format(model=f"model{number}", device=device))
        return path

    return made


CHANGE = plan(["sdpa-rewrite"])


def test_a_file_of_its_own_is_rewritten_and_put_back(write: Callable[..., Path]) -> None:
    path = write()
    case = case_of_file(path)
    assert find("sdpa-rewrite").fits(case).applies
    build = loaded(path)
    live = Live(CHANGE)
    names = Counter(op.name for op in gs.capture(live.wrap(build)).ops)
    assert (names["gpuscope::attention"], names["aten::_softmax"]) == (2, 0)
    live.close()
    names = Counter(op.name for op in gs.capture(build).ops)
    assert (names["gpuscope::attention"], names["aten::_softmax"]) == (0, 2)


def test_the_patch_is_what_was_priced(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write()
    case = case_of_file(path)
    assert case.seen is not None
    live = Live(CHANGE)
    live_names = [op.name for op in gs.capture(live.wrap(loaded(path))).ops]
    live.close()
    patch = patch_of(["sdpa-rewrite"], case.seen)
    assert patch.by_apply == ()
    ((file, text),) = patch.files.items()
    assert Path(file).name.startswith("model")
    renamed = tmp_path / f"patched{next(_numbers)}.py"
    renamed.write_text(text)
    path.write_text(path.read_text().replace(Path(file).stem, renamed.stem))
    assert [op.name for op in gs.capture(loaded(path)).ops] == live_names


def test_the_same_numbers(write: Callable[..., Path]) -> None:
    build = loaded(write(device="cpu"))
    torch.manual_seed(0)
    eager = build()()
    torch.manual_seed(0)
    live = Live(CHANGE)
    fused = live.wrap(build)()()
    live.close()
    torch.testing.assert_close(fused, eager)
    assert "ScaledDotProduct" in _history(fused)
    assert "ScaledDotProduct" not in _history(eager)


def _history(tensor: torch.Tensor) -> str:
    names, todo = [], [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None:
            names.append(node.name())
            todo += [each for each, _ in node.next_functions]
    return " ".join(names)


def test_where_there_is_none(write: Callable[..., Path]) -> None:
    path = write(MODEL.replace("softmax(dim=-1)", "relu()"))
    fit = find("sdpa-rewrite").fits(case_of_file(path))
    assert not fit.applies
    assert not fit.relevant
    with pytest.raises(UnsupportedError):
        gs.capture(Live(CHANGE).wrap(loaded(path)))
    assert patch_of(["sdpa-rewrite"], Seen()).by_apply == ("sdpa-rewrite",)
