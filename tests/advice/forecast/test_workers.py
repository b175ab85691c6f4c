"""Sets shared out to workers; here each is a thread at the other end of a pipe."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from multiprocessing import Pipe

import pytest

from gpuscope.advice.forecast import workers
from gpuscope.advice.forecast.workers import Workers, _Worker

SETS = [(f"c{at}",) for at in range(12)]


def _with(answer, monkeypatch, told=None):
    """Workers whose process answers so; None ends it. What each is told first is put down."""
    told = [] if told is None else told

    class _Process:
        def kill(self):
            pass

        def wait(self, timeout=None):
            pass

    def started(asked):
        ours, theirs = Pipe()

        def work():
            try:
                told.append(theirs.recv())
            except EOFError:
                return
            while True:
                try:
                    names = theirs.recv()
                except (EOFError, OSError):
                    return
                said = answer(names)
                if said == "die":
                    theirs.close()
                    return
                with suppress(OSError):  # nobody waits any more
                    theirs.send(said)

        threading.Thread(target=work, daemon=True).start()
        return _Worker(_Process(), ours)

    monkeypatch.setattr(_Worker, "started", staticmethod(started))
    return Workers(lambda: None, 3)


def _run(pool, sets=SETS):
    here, taken = [], {}

    def slowly(names):
        here.append(names)
        time.sleep(0.005)

    pool.forecast(sets, slowly, taken.__setitem__)
    pool.close()
    return here, taken


def test_every_set_is_predicted_once(monkeypatch):
    here, taken = _run(_with(lambda names: f"forecast of {names[0]}", monkeypatch))
    assert sorted([*here, *taken]) == sorted(SETS)
    assert taken
    assert all(said == f"forecast of {names[0]}" for names, said in taken.items())


@pytest.mark.parametrize("answer", [None, "die"])
def test_what_workers_cannot_do_is_done_here(monkeypatch, answer):
    here, taken = _run(_with(lambda names: answer, monkeypatch))
    assert set(here) == set(SETS)
    assert not taken


def test_a_worker_that_hangs_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE_S", 0.05)
    here, taken = _run(_with(lambda names: time.sleep(1), monkeypatch))
    assert set(here) == set(SETS)
    assert not taken


def test_few_sets_start_nobody(monkeypatch):
    here, _ = _run(_with(lambda names: 1 / 0, monkeypatch), SETS[:3])
    assert here == SETS[:3]


def test_workers_are_told_once_what_it_is_about(monkeypatch):
    told = []
    pool = _with(lambda names: "forecast", monkeypatch, told)
    for _ in range(2):
        pool.forecast(SETS, lambda names: time.sleep(0.005), lambda names, answer: None, lambda: 7)
    pool.close()
    assert told == [7, 7]


def test_they_start_before_the_first_set(monkeypatch):
    pool = _with(lambda names: "forecast", monkeypatch)
    pool.start(workers.FEWEST - 1)
    assert not pool._started
    pool.start(workers.FEWEST)
    assert len(pool._started) == 2
    pool.close()
