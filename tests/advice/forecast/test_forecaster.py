"""Forecasts of a small build under changes of the tests' own."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest
from tiny_changes import Tiny, build, half, known, twice

import gpuscope as gs
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.forecast.speedup import REPEAT
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError


def _refuse(live):
    raise UnsupportedError("No such thing here.", "It is missing.")


def _crash(live):
    def wrap(step):
        def broken():
            raise ValueError("wrong shape")

        return broken

    live.on_step(wrap)


class _Settings(Tiny):
    """Says what becomes of the program, and must not be installed."""

    def transform(self, program):
        return replace(program, settings={**program.settings, "tf32_matmul": True})


def _never(live):
    raise AssertionError("installed, though it can transform")


ALL = (
    Tiny("nothing"),
    Tiny("half", half, excludes=("tf",)),
    Tiny("twice", twice),
    Tiny("larger", twice, work=2.0, numerics="recipe"),
    Tiny("refuses", _refuse),
    Tiny("crashes", _crash),
    _Settings("tf", _never),
    Tiny("far", applies=False),
)


@pytest.fixture(scope="module")
def forecaster():
    with known(*ALL):
        yield Forecaster(build)


def test_the_baseline_is_what_predict_gives(forecaster):
    run = gs.predict(build, "h200")
    found = forecaster.forecast(())
    assert found.step_time_s == pytest.approx(run.step_time_s, rel=0.01)
    assert (found.speedup, found.low, found.high) == (1.0, 1.0, 1.0)
    seen = forecaster.case.seen
    assert seen.function == "build"
    assert seen.file == __file__.replace("forecast/test_forecaster", "tiny_changes")
    assert [o.class_name for o in seen.optimizers] == ["SGD"]


def test_a_change_that_does_nothing_gains_nothing_but_what_measurements_differ_by(forecaster):
    found = forecaster.forecast(["nothing"])
    assert found.effect == "little"
    known = (1.0, exp(-REPEAT), exp(REPEAT))
    assert (found.speedup, found.low, found.high) == pytest.approx(known)


def test_autocast_helps_and_two_steps_for_one_hurt(forecaster):
    good, bad = forecaster.forecast(["half"]), forecaster.forecast(["twice"])
    assert good.effect == "helps"
    assert 1 < good.low < good.speedup < good.high
    assert "atrix products" in good.why
    assert "矩阵乘法" in render(good.why, "zh")
    assert bad.effect == "hurts"
    assert bad.speedup == pytest.approx(0.5, rel=0.02)
    assert bad.high < 1


def test_twice_the_work_in_twice_the_time_is_no_gain(forecaster):
    found = forecaster.forecast(["larger"])
    assert found.speedup == pytest.approx(1.0, rel=0.02)
    assert found.effect == "little"


@pytest.mark.parametrize(
    ("name", "said"), [("refuses", "No such thing here."), ("crashes", "wrong shape")]
)
def test_what_fails_is_said_and_ends_nothing(forecaster, name, said):
    found = forecaster.forecast([name])
    assert found.effect == "fails"
    assert said in found.why
    assert found.speedup is None
    assert found.run is None


def test_a_program_is_transformed_where_that_is_certain(forecaster):
    assert forecaster.forecast(["tf"]).speedup > 1.5
    assert forecaster.forecast(["tf", "twice"]).speedup > 0.75


def test_a_set_is_predicted_once(forecaster):
    first = forecaster.forecast(["half", "twice"])
    assert forecaster.known(["twice", "half"])
    assert forecaster.forecast(["twice", "half"]) is first


def test_wrong_input(forecaster):
    with pytest.raises(UnknownNameError):
        forecaster.forecast(["no-such-change"])
    with pytest.raises(InvalidValueError, match="cannot go together"):
        forecaster.forecast(["half", "tf"])
    with pytest.raises(InvalidValueError, match="objective"):
        Forecaster(build, objective="beauty")  # type: ignore[arg-type]


def test_by_memory_and_energy(forecaster):
    start, good = forecaster.forecast(()), forecaster.forecast(["half"])
    assert forecaster.better(good, start) == good.speedup
    energy = Forecaster(build, objective="energy")
    assert energy.forecast(["half"]).effect == "helps"
    before, after = energy.forecast(()), energy.forecast(["half"])
    assert energy.better(after, before) == pytest.approx(before.energy_j / after.energy_j)
    memory = Forecaster(build, objective="memory")
    worth = memory.better(memory.forecast(["half"]), memory.forecast(()))
    assert worth == pytest.approx(start.peak_memory_bytes / good.peak_memory_bytes)


def test_what_does_not_fit(forecaster):
    small = Forecaster(lambda: build(10_000_000), "h200")
    assert small.case.run.fits is False
    assert small.forecast(["twice"]).effect == "does not fit"


def test_another_process_begins_with_the_workload_of_the_first(forecaster):
    with known(*ALL):
        other = Forecaster(build)
        other.begin_with(forecaster._baseline())
        assert other.case.program == forecaster.case.program
        assert other.case.seen == forecaster.case.seen
        assert other.case.run.step_time_s == forecaster.case.run.step_time_s
        found, packed = other.answer(("half",))
        here = forecaster.forecast(("half",))
        assert (found.low, found.speedup, found.high) == (here.low, here.speedup, here.high)
        forecaster._take(("half",), (found, packed))
        assert forecaster._programs.of(("half",)).ops == other._programs.of(("half",)).ops
        assert other.answer(("crashes",))[1] is None


def test_each_is_told_once_it_is_known_and_combinations_are_not():
    told = []
    with known(*ALL):
        own = Forecaster(build, found=told.append)
        own.forecast(())
        own.forecast(("tf",))
        own.forecast(("tf",))
        own.forecast(("tf", "twice"), interval=False)
    assert [each.names for each in told] == [(), ("tf",)]
    assert told[1].low is not None
