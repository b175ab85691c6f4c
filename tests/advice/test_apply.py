"""`gs.apply`: what was advised is what runs, and it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import gpuscope as gs
from gpuscope.advice.results import Ladder, Measured, Target
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def _allowed() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32)


MADE: list[torch.optim.Optimizer] = []


def build(rate: float = 0.1) -> Callable[[], object]:
    """A small training step."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    MADE[:] = [optimizer]

    def step() -> bool:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        return _allowed()

    return step


def test_as_a_decorator_until_the_step_is_gone() -> None:
    decorated = gs.apply("tf32", "fused-optimizer")(build)
    assert decorated.__name__ == "build"
    assert not _allowed()
    step = decorated(rate=0.5)  # type: ignore[call-arg]
    assert step() is True
    assert MADE[0].defaults["fused"] is True
    assert MADE[0].defaults["lr"] == 0.5
    del step
    gc.collect()
    assert not _allowed()


def test_as_a_block() -> None:
    with gs.apply("tf32") as applied:
        assert _allowed()
        assert applied.names == ("tf32",)
    assert not _allowed()


def test_a_block_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), gs.apply("tf32"):
        raise KeyError
    assert not _allowed()


def test_as_a_line() -> None:
    applied = gs.apply("tf32").start()
    assert applied.start() is applied
    assert _allowed()
    applied.close()
    applied.close()
    assert not _allowed()


def test_the_prediction_is_of_the_changed_code() -> None:
    decorated = gs.apply("fused-optimizer")(build)
    names = {op.name for op in gs.capture(decorated).ops}
    assert any("fused" in name for name in names)


def test_a_ladder_stands_for_what_it_kept() -> None:
    ladder = Ladder(
        Target("build", "a.py:build"), "cpu", "time", Measured(1, 1, 1, 3), (), ("tf32",)
    )
    assert gs.apply(ladder, "fused-optimizer").names == ("fused-optimizer", "tf32")
    assert repr(gs.apply(ladder)) == "gs.apply('tf32')"


def test_a_ladder_that_kept_nothing_changes_nothing() -> None:
    ladder = Ladder(Target("build", "a.py:build"), "cpu", "time", Measured(1, 1, 1, 3), (), ())
    with gs.apply(ladder):
        assert not _allowed()


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ((), InvalidValueError),
        (("tf33",), UnknownNameError),
        ((3,), InvalidValueError),
        (("no/such/ladder.json",), InputFileError),
        ((Path("nothing"),), InputFileError),
    ],
)
def test_wrong_plans(plan: tuple[str, ...], error: type[GpuscopeError]) -> None:
    with pytest.raises(error):
        gs.apply(*plan)


def test_it_is_cheap_until_it_is_used() -> None:
    code = "import sys, gpuscope as gs; gs.apply('tf32'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
