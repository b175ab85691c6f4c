"""A second thread gives what one thread gives, errors included."""

from __future__ import annotations

import threading

import pytest

from gpuscope.analysis import beside
from gpuscope.analysis.beside import LEAST_EVENTS, second_thread


@pytest.mark.parametrize(("events", "cores"), [(10, 8), (LEAST_EVENTS, 1), (LEAST_EVENTS, 2)])
def test_calls_give_their_results_in_order(events: int, cores: int) -> None:
    done: list[int] = []

    def call(number: int) -> tuple[int, int]:
        done.append(number)
        return number * number, threading.get_ident()

    with second_thread(events, cores) as ask:
        waiting = [ask(lambda n=n: call(n)) for n in range(20)]
        results = [wait() for wait in waiting]
    assert [square for square, _ in results] == [n * n for n in range(20)]
    assert done == list(range(20))
    beside_us = {thread for _, thread in results} != {threading.get_ident()}
    assert beside_us == (events >= LEAST_EVENTS and cores > 1)


@pytest.mark.parametrize("events", [10, LEAST_EVENTS])
def test_an_error_of_a_call_reaches_who_asked(events: int) -> None:
    def call() -> None:
        raise ValueError("of the call")

    with pytest.raises(ValueError, match="of the call"), second_thread(events, 2) as ask:
        ask(call)()


def test_an_analysis_of_a_recording_is_equal_on_two_threads(monkeypatch) -> None:
    from pathlib import Path

    from gpuscope.loading import load

    path = Path(__file__).parents[1] / "data" / "traces" / "h200" / "host_bound"
    alone = load(path).to_dict()
    monkeypatch.setattr(beside, "LEAST_EVENTS", 0)
    monkeypatch.setattr(beside.os, "cpu_count", lambda: 2)
    assert load(path).to_dict() == alone
