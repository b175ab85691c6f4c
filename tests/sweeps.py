"""Parameters of a sweep: what differs in kind is always run, the whole with the slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sweep(every: Iterable[Any], *always: Any) -> list[Any]:
    """All cases, those that are not named marked as slow.

    Args:
        every: the cases, as `parametrize` takes them.
        always: those that run each time; each is one of the cases.
    """
    cases = list(every)
    assert all(case in cases for case in always), always
    return [case if case in always else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
