"""Code that comes to no end is stopped with one error, which names the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import gpuscope as gs
from gpuscope.errors import CaptureError, InvalidValueError
from gpuscope.program.capture import endless


def _line(sign: str) -> int:
    """The only line of this file that ends in a comment."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {sign}"))


def _converges() -> Callable[[], object]:
    x = torch.randn(8, 8, device="cuda")

    def far(y: Any) -> bool:
        return bool((y - x @ y).norm().item() > 1e-3)

    def step() -> None:
        y = x
        while far(y):  # the loop on data
            for _ in range(2):
                y = x @ y

    return step


def _repeats() -> Callable[[], object]:
    x = torch.randn(8, 8, device="cuda")
    for _ in range(10**9):  # the loop of operators
        x = x @ x
    return lambda: x


def _swallows() -> Callable[[], object]:
    n = 0
    while True:  # the loop of nothing
        try:
            n += 1
        except Exception:
            n = 0


@pytest.mark.parametrize(
    ("build", "sign", "what", "why"),
    [
        (_converges, "the loop on data", "depends on data of the device", "times"),
        (_repeats, "the loop of operators", "does not end", "1,000 operators"),
        (_swallows, "the loop of nothing", "does not end", "300 ms"),
    ],
)
def test_a_loop_without_end_is_named(
    build: Any, sign: str, what: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSCOPE_LIMITS", "0.001")
    if build is not _swallows:
        monkeypatch.setattr(endless, "SECONDS", 1e6)
    with pytest.raises(CaptureError) as caught:
        gs.capture(build)
    error = caught.value
    assert f"The loop at line {_line(sign)} of {__file__}" in str(error.what)
    assert what in str(error.what)
    assert why in str(error.why)
    assert "GPUSCOPE_LIMITS=0.01" in str(error.next_step)
    assert error.exit_code == 2


def test_more_is_allowed_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def build() -> Callable[[], object]:
        x = torch.randn(8, device="cuda")

        def step() -> None:
            y = x
            for n in range(40):
                y = y + x
                passes.append(float(y.sum()))
                if n == 39:
                    return

        return step

    monkeypatch.setenv("GPUSCOPE_LIMITS", "0.001")
    with pytest.raises(CaptureError, match="such data 11 times"):
        gs.capture(build)
    monkeypatch.setenv("GPUSCOPE_LIMITS", "0.01")
    assert gs.capture(build).ops
    monkeypatch.setenv("GPUSCOPE_LIMITS", "none")
    with pytest.raises(InvalidValueError):
        gs.capture(build)


def test_a_script_that_waits_for_ever_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "serves.py"
    lines = ("import socket, torch", "x = torch.randn(4, device='cuda') * 2")
    script.write_text("\n".join((*lines, "a, b = socket.socketpair()", "a.recv(1)", "")))
    monkeypatch.setenv("GPUSCOPE_LIMITS", "0.005")
    with pytest.raises(CaptureError) as caught:
        gs.predict(str(script), on="h200")
    assert f"Line 4 of {script} comes to no end." in str(caught.value.what)
    assert "1.50 s" in str(caught.value.why)
