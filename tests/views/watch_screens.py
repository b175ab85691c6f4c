"""Histories of devices at work, for the views."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))  # the samples are made there

from watch_samples import idle, input_bound, samples, training

from gpuscope.watch.history import History

__all__ = ["busy_pair", "filled", "four_devices", "idle", "input_bound", "samples", "training"]


def filled(make, n: int = 30, **options: object) -> History:
    history = History()
    for sample in samples(make, n, **options):
        history.add((sample,))
    return history


def busy_pair() -> History:
    return filled(lambda n: [training(n, 0), training(n, 1)])


def four_devices() -> History:
    return filled(lambda n: [*(training(n, i) for i in range(3)), idle(n, 3)])
