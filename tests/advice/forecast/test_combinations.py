"""The best combination, on tables of times."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_changes import Tiny, known

from gpuscope.advice.forecast.combinations import advice_of
from gpuscope.advice.registry import find
from gpuscope.advice.results import Forecast
from gpuscope.advice.types import Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError


class _Table:
    """Forecasts from a function of the set of names: seconds, and whether it fits."""

    objective = "time"
    processes = 1

    def expect(self, sets):
        """Nobody is started."""

    def __init__(self, seconds, fits=lambda names: True):
        self._seconds, self._fits = seconds, fits
        self.asked = set()
        self.case = SimpleNamespace(run=self._run(frozenset()))

    def _run(self, names):
        return SimpleNamespace(step_time_s=self._seconds(names), fits=self._fits(names))

    def fit(self, name):
        return Fit(True, Text(""))

    def prepare(self, sets, over=lambda: False):
        for names in sets:
            if not over():
                self.forecast(names)

    def known(self, names):
        return frozenset(names) in self.asked

    def forecast(self, names, interval=True):
        self.asked.add(frozenset(names))
        run = self._run(frozenset(names))
        speed = self._seconds(frozenset()) / run.step_time_s
        effect = "helps" if speed > 1.01 else "hurts" if speed < 0.99 else "little"
        effect = effect if run.fits else "does not fit"
        return Forecast(tuple(names), effect, Text(""), speed, run=run)

    def better(self, forecast, than):
        if forecast.run.fits != than.run.fits:
            return float("inf") if forecast.run.fits else 0.0
        return forecast.speedup / than.speedup


def _advise(seconds, *changes, fits=lambda names: True, **options):
    with known(*changes):
        return advice_of(_Table(seconds, fits), [c.name for c in changes], **options)


def _product(gains):
    return lambda names: 1.0 / prod(gains[n] for n in names)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(0.5, 3.0), min_size=1, max_size=6))
def test_independent_gains_are_all_taken_the_largest_first(values):
    gains = {f"c{at}": value for at, value in enumerate(values)}
    advice = _advise(_product(gains), *(Tiny(name) for name in gains))
    wanted = [name for name, gain in gains.items() if gain >= 1.0101]
    chosen = list(advice.path[-1].names) if advice.path else []
    assert set(wanted) <= set(chosen) | {n for n in wanted if gains[n] < 1.0102}
    assert all(gains[name] >= 1.0 for name in chosen)
    assert [gains[n] for n in chosen] == sorted((gains[n] for n in chosen), reverse=True)


def test_a_change_that_another_makes_needless_is_left_out():
    # b does all that a does and more; a alone is the best first step.
    seconds = {(): 10.0, ("a",): 5.0, ("b",): 5.5, ("a", "b"): 4.0}
    advice = _advise(lambda n: seconds[tuple(sorted(n))], Tiny("a", numerics="tf32"), Tiny("b"))
    assert set(advice.path[-1].names) == {"a", "b"}
    seconds = {(): 10.0, ("a",): 5.0, ("b",): 4.01, ("a", "b"): 4.0, ("c",): 9.0}
    again = _advise(
        lambda n: seconds.get(tuple(sorted(n)), 3.9), Tiny("a", numerics="tf32"), Tiny("b")
    )
    assert again.path[-1].names == ("b",)


def test_of_two_as_good_the_calmer_is_taken():
    def best(calm_s):
        seconds = {(): 10.0, ("a",): 5.0, ("b",): calm_s}
        wild, calm = Tiny("a", numerics="bf16", excludes=("b",)), Tiny("b")
        return _advise(lambda n: seconds[tuple(sorted(n))], wild, calm).path[-1].names

    assert best(5.04) == ("b",)
    assert best(5.06) == ("a",), "more than 1 % is worth it"


def test_of_two_as_good_the_one_that_need_not_search_is_taken():
    def best(quick_s):
        seconds = {(): 10.0, ("a",): 5.0, ("b",): quick_s}
        slow, quick = Tiny("a", excludes=("b",)), Tiny("b")
        slow.compiles = quick.compiles = slow.searches = True
        return _advise(lambda n: seconds[tuple(sorted(n))], slow, quick).path[-1].names

    assert best(5.0) == ("b",)
    assert best(5.06) == ("a",)
    assert find("compile-max-autotune").searches
    assert not find("compile-reduce-overhead").searches


def test_a_gain_that_grows_is_found_at_the_end():
    # b is nothing by itself, and halves the time once a is there.
    seconds = {(): 10.0, ("a",): 8.0, ("b",): 10.0, ("a", "b"): 4.0}
    advice = _advise(lambda n: seconds[tuple(sorted(n))], Tiny("a"), Tiny("b"))
    assert advice.path[-1].names == ("a", "b")


def test_what_excludes_a_chosen_change_may_take_its_place():
    def seconds(names):
        # a is better alone, b better beside c.
        table = {(): 10, ("a",): 5, ("b",): 6, ("c",): 8, ("a", "c"): 4.5, ("b", "c"): 3}
        return float(table[tuple(sorted(names))])

    advice = _advise(seconds, Tiny("a", excludes=("b",)), Tiny("b"), Tiny("c"))
    assert set(advice.path[-1].names) == {"b", "c"}


def test_nothing_helps_and_that_is_said():
    advice = _advise(_product({"a": 1.004, "b": 0.8}), Tiny("a"), Tiny("b"))
    assert advice.path == ()
    assert advice.best is None
    assert [f.names for f in advice.singles] == [("a",), ("b",)]
    assert "good as it is" in advice.notes[0]


def test_what_changes_the_results_is_combined_only_where_asked_for():
    changes = Tiny("fp8", numerics="fp8"), Tiny("a")
    gains = _product({"fp8": 2.0, "a": 1.5})
    advice = _advise(gains, *changes)
    assert advice.path[-1].names == ("a",)
    assert "--allow fp8" in " ".join(n for n in advice.notes)
    assert set(_advise(gains, *changes, allow=("fp8",)).path[-1].names) == {"fp8", "a"}


def test_what_makes_it_fit_comes_first():
    advice = _advise(
        _product({"a": 2.0, "room": 0.8}),
        Tiny("a"),
        Tiny("room"),
        fits=lambda names: "room" in names,
    )
    assert [f.names for f in advice.path] == [("room",), ("room", "a")]
    assert "does not fit" in advice.notes[0]


def test_only_and_without():
    gains = _product({"a": 2.0, "b": 1.5})
    changes = Tiny("a"), Tiny("b")
    assert [f.names for f in _advise(gains, *changes, only=("b",)).singles] == [("b",)]
    assert [f.names for f in _advise(gains, *changes, without=("b",)).singles] == [("a",)]
    for wrong in ({"only": ("x",)}, {"without": ("x",)}, {"allow": ("fp9",)}):
        with pytest.raises(UnknownNameError):
            _advise(gains, *changes, **wrong)


def test_lazy_bounds_save_predictions():
    gains = {f"c{at}": 1.0 + 0.1 * (at + 1) for at in range(8)}
    with known(*(Tiny(name) for name in gains)):
        table = _Table(_product(gains))
        advice_of(table, list(gains))
    assert len(table.asked) <= 8 + 8 + 8 + 2  # alone, grown by one each, thinned


def test_what_gains_far_less_alone_is_not_tried_in_its_place():
    def asked(alone_s, fits=lambda names: True):
        seconds = {(): 10.0, ("a",): 5.0, ("b",): alone_s, ("c",): 8.0}
        table = _Table(lambda n: seconds.get(tuple(sorted(n)), 4.0), fits)
        changes = Tiny("a", excludes=("b",)), Tiny("b"), Tiny("c")
        with known(*changes):
            advice_of(table, [c.name for c in changes])
        return frozenset("bc") in table.asked

    assert asked(6.0)
    assert not asked(6.5)
    assert asked(6.5, lambda names: bool(names)), "what does not fit goes by memory first"


def test_when_the_time_is_over_what_is_known_by_then_is_what_there_is():
    gains = {"a": 1.2, "b": 1.5, "c": 2.0}
    asked = []

    class Watched(_Table):
        def forecast(self, names, interval=True):
            asked.append(frozenset(names))
            return super().forecast(names, interval)

    with known(*(Tiny(name) for name in gains)):
        table = Watched(_product(gains))
        advice = advice_of(table, list(gains), over=lambda: len(asked) > 2)
    assert [f.names for f in advice.singles] == [("b",), ("a",)]
    assert {len(names) for names in asked} <= {0, 1}
    assert advice.path == ()
