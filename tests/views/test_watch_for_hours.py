"""Hours of the live view and of the exporter in seconds: memory, handles and threads stay flat."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import tracemalloc
import urllib.request

import pytest
from watch_screens import idle, training

pytest.importorskip("textual")

from watch_samples import START_S

from gpuscope.views import watch_lines
from gpuscope.views.watch_app import WatchApp
from gpuscope.watch.exporter import Exporter
from gpuscope.watch.history import History
from gpuscope.watch.types import Sample

STEP_S = 30
"""Seconds of the device's between two samples."""

FULL = 24
"""Samples after which the history, which keeps ten minutes, is full."""


def sample(number: int) -> Sample:
    """A new object each time, as a device gives them."""
    devices = (training(number, 0), idle(number, 1))
    return Sample(START_S + STEP_S * number, "node1", devices, 0.1 + number % 7 / 100)


def handles() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def held() -> int:
    """Bytes that are held; not those of caches with an end, of rich's and ours."""
    watch_lines._KEPT.clear()
    gc.collect()
    others = tracemalloc.Filter(False, "*/rich/*")
    found = tracemalloc.take_snapshot().filter_traces((others,))
    return sum(each.size for each in found.statistics("filename"))


def test_a_history_of_hours_holds_ten_minutes() -> None:
    history = History()
    tracemalloc.start()
    try:
        for number in range(FULL):
            history.add((sample(number),))
        before = held()
        for number in range(FULL, FULL + 240):  # two hours
            history.add((sample(number),))
            history.host_curve("node1", 30, 120.0)
        assert held() - before < 64 << 10
    finally:
        tracemalloc.stop()


def test_the_live_view_is_flat() -> None:
    """Ticks as fast as they can be drawn."""

    async def run() -> None:
        app = WatchApp(_Never(), "en")
        async with app.run_test(size=(100, 34)) as pilot:
            tracemalloc.start()
            await _ticks(app, pilot, 0, FULL)
            before, open_before, threads = held(), handles(), threading.active_count()
            await _ticks(app, pilot, FULL, FULL + 60)
            grown = held() - before
            tracemalloc.stop()
            # What one tick left for good would be there 60 times.
            assert grown < 60 << 10, grown
            assert handles() == open_before
            assert threading.active_count() == threads
        app.source.close()

    asyncio.run(run())


async def _ticks(app: WatchApp, pilot, first: int, end: int) -> None:
    for number in range(first, end):
        app._take((sample(number),))
        await pilot.pause(0)


class _Never:
    """A source whose answer never comes: samples are handed over by the test."""

    notes = ()
    interval_s = 3600.0

    def __init__(self) -> None:
        self.closed = threading.Event()

    def read(self):
        self.closed.wait(60)
        return ()

    def close(self) -> None:
        self.closed.set()


def test_the_exporter_is_flat() -> None:
    with Exporter(":0") as exporter:
        for number in range(20):
            _scrape(exporter, number)
        _quiet(2)
        tracemalloc.start()
        before, open_before, threads = held(), handles(), threading.active_count()
        for number in range(20, 120):
            _scrape(exporter, number)
        _quiet(threads)
        grown = held() - before
        tracemalloc.stop()
        assert grown < 100 << 10, grown
        assert handles() <= open_before
        assert threading.active_count() <= threads


def _scrape(exporter: Exporter, number: int) -> None:
    exporter.update([sample(number)])
    with urllib.request.urlopen(exporter.address.url, timeout=5) as answer:
        assert answer.read()


def _quiet(threads: int) -> None:
    """Let the last answers' threads end."""
    until = time.monotonic() + 3
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.02)
