"""The process that captures are forked from."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

from gpuscope.program.guard import server


def test_a_fork_beside_idle_threads_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python from 3.12 on warns of each; other warnings are still told."""
    plain = os.fork

    def noisy() -> int:
        child = plain()
        if child:
            text = "This process (pid=1) is multi-threaded, use of fork() may lead to"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            warnings.warn("Something else.", DeprecationWarning, stacklevel=2)
        return child

    nothing: Any = None
    monkeypatch.setattr(os, "fork", noisy)
    monkeypatch.setattr(server, "_run", lambda fork: None)
    reading, writing = os.pipe()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert server._forked(nothing, reading) == 0
    os.close(reading)
    os.close(writing)
    assert [str(each.message) for each in told] == ["Something else."]
