"""Property-based tests draw new examples on a developer's machine, the same ones in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Tensors are tiny and tests run side by side: threads would only wait for each other. Set before
# anything imports torch, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every `Live` of a test is closed at its end, also where the test expects an error or runs an
    example that leaves it at work: it would slow and spoil those after it."""
    from gpuscope.advice.live import Live

    held: list[Live] = []
    start = Live.start

    def started(live: Live) -> None:
        held.append(live)
        start(live)

    monkeypatch.setattr(Live, "start", started)
    yield
    for live in reversed(held):
        live.close()
