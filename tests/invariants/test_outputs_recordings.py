"""Every invariant over recordings of one rank and of many."""

from __future__ import annotations

from pathlib import Path

import pytest
from outputs import (
    RECORDED,
    RECORDED_ELSEWHERE,
    RECORDED_JOBS,
    SHARED,
    TRACES,
    checked,
    recorded,
    told,
)

PATHS = [
    *(TRACES / "h200" / name for name in RECORDED),
    *(TRACES / "4xh200" / n for n in RECORDED_JOBS),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_recording_of_ours(path: Path) -> None:
    assert told(checked(recorded, path)) == ""


@pytest.mark.parametrize("name", RECORDED_ELSEWHERE)
def test_a_recording_made_elsewhere(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("the recordings beside the repository are not here")
    assert told(checked(recorded, SHARED / name)) == ""
