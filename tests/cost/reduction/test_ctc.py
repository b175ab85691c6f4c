"""The CTC loss beside recorded ones, and what its time depends on."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.types import Kernel

RECORDING = Path(__file__).parents[3] / "validation/recordings/h200/functions.jsonl.gz"
CALL = re.compile(r"^g a = w\((\d+), (\d+), (\d+)\); y = i\(\d+, \d+, (\d+)\) ;; F\.ctc_loss")


def both(steps: int, batch: int, labels: int, target: int) -> tuple[Kernel, ...]:
    probabilities = dense(steps, batch, labels, at=0)
    targets, loss = dense(batch, target, dtype="int64", at=1), dense(batch, at=2)
    alpha = dense(batch, steps, 2 * target + 1, at=3)
    forward = run("_ctc_loss", (probabilities, targets), (loss, alpha))
    given = (loss, probabilities, targets, loss, alpha)
    return forward + run("_ctc_loss_backward", given, (probabilities,))


def test_recorded_losses() -> None:
    rows = map(json.loads, gzip.decompress(RECORDING.read_bytes()).splitlines())
    found = [(row, call) for row in rows if (call := CALL.match(row["name"]))]
    assert len(found) == 8
    for row, call in found:
        took = sum(us for op, _, _, all_us in row["kernels"] if "_ctc_loss" in op for us in all_us)
        made = seconds(both(*(int(size) for size in call.groups())))
        assert made == pytest.approx(took * 1e-6, rel=0.35), row["name"]


def test_time_is_walked_step_by_step() -> None:
    ratio = seconds(both(1000, 8, 32, 20)) / seconds(both(500, 8, 32, 20))
    assert 1.7 < ratio < 2.1
    # Twice the sequences wait no longer for each other.
    assert seconds(both(500, 16, 32, 20)) < 1.1 * seconds(both(500, 8, 32, 20))
