"""Those who time are alone; those who only use the device are not made to wait for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gpuscope.advice.trial.device_sharing import Sharing
from gpuscope.errors import InputFileError


def _spans(
    whats: list[Callable[[], AbstractContextManager[None]]], held_s: float = 0.1
) -> list[tuple[float, float]]:
    """From when to when each of them held it; all begin at once."""
    spans = [(0.0, 0.0)] * len(whats)

    def hold(number: int) -> None:
        with whats[number]():
            begin = time.monotonic()
            time.sleep(held_s)
            spans[number] = (begin, time.monotonic())

    threads = [threading.Thread(target=hold, args=(n,)) for n in range(len(whats))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return spans


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_two_that_time_are_never_at_it_together(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path / "gpu")
    one, other, use = _spans([sharing.timing, sharing.timing, sharing.using])
    assert not _overlap(one, other)
    assert not _overlap(one, use)
    assert not _overlap(other, use)


def test_those_who_use_it_go_together(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path / "gpu")
    one, other = _spans([sharing.using, sharing.using], held_s=0.5)
    assert _overlap(one, other)


def test_one_that_waits_to_time_is_not_starved(tmp_path: Path) -> None:
    sharing, over = Sharing(tmp_path / "gpu"), threading.Event()

    def use_on_and_on() -> None:
        while not over.is_set():
            with sharing.using():
                time.sleep(0.02)

    threads = [threading.Thread(target=use_on_and_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    with sharing.timing():
        waited = time.monotonic() - begin
    over.set()
    for thread in threads:
        thread.join(20)
    assert waited < 2.0


def test_it_is_given_back_after_an_error(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path / "gpu")
    with pytest.raises(ValueError, match="a step failed"), sharing.using():
        raise ValueError("a step failed")
    with sharing.timing():
        pass


def test_without_a_file_nobody_waits() -> None:
    with Sharing(None).timing(), Sharing("").timing():
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be opened"):
        Sharing(tmp_path / "no" / "gpu")
