"""Workers stand still while the other variant runs, and go on after."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

from gpuscope.advice.trial.pausing import Pausing


def _count(counter: Any) -> None:
    while True:
        counter.value += 1
        time.sleep(0.001)


def test_standing_still() -> None:
    context = multiprocessing.get_context("fork")
    counter = context.Value("i", 0)
    process = context.Process(target=_count, args=(counter,), daemon=True)
    process.start()
    try:
        while counter.value < 3:
            time.sleep(0.01)
        pausing = Pausing()
        pausing.pause()
        time.sleep(0.05)
        held = counter.value
        time.sleep(0.2)
        assert counter.value == held
        pausing.resume()
        until = time.monotonic() + 20
        while counter.value == held:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        process.kill()
        process.join()
