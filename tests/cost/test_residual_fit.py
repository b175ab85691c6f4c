"""The fit of the residual: finds what it can know, leaves alone what it cannot."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FIT = Path(__file__).resolve().parents[2] / "benchmarks" / "fit"


@pytest.fixture(scope="module")
def boosting() -> ModuleType:
    spec = importlib.util.spec_from_file_location("boosting_under_test", FIT / "boosting.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def data(module: ModuleType, calls: int, truth, noise: float = 0.0, seed: int = 0, two=False):
    """Calls of one operator (or two) whose ln(measured / physical) is `truth(x)`."""
    rng = np.random.default_rng(seed)
    each = 2 if two else 1
    x = rng.uniform(-1, 1, (calls * each, 3))
    call = np.repeat(np.arange(calls), each)
    physical = np.exp(rng.uniform(-12, -9, calls * each))
    own = physical * np.exp(truth(x) + rng.normal(0, noise, len(x)))
    return module.Data(
        x,
        call,
        np.array(["matmul"] * len(x)),
        np.array(["matmul aten::mm"] * len(x)),
        physical,
        np.full(len(x), np.log(2)),
        np.bincount(call, own, calls),
    )


def unseen_error(module: ModuleType, found, truth, **more) -> float:
    test = data(module, 400, truth, seed=9, **more)
    return float(abs(test.predicted_s(found.r(test)) / test.measured_s - 1).mean())


def step(x):
    return np.where(x[:, 0] > 0.2, 0.4, -0.2) + np.where(x[:, 1] > 0, 0.1, -0.1)


def test_it_finds_a_step_that_it_never_saw_the_calls_of(boosting: ModuleType) -> None:
    found = boosting.fit(data(boosting, 400, step, noise=0.03), boosting.Form(60))
    assert unseen_error(boosting, found, step) < 0.05
    assert unseen_error(boosting, boosting.Fitted({}), step) > 0.2


def test_operators_of_one_call_share_what_it_took(boosting: ModuleType) -> None:
    found = boosting.fit(data(boosting, 600, step, two=True), boosting.Form(80))
    assert unseen_error(boosting, found, step, two=True) < 0.07


def test_noise_teaches_next_to_nothing(boosting: ModuleType) -> None:
    def none(x):
        return np.zeros(len(x))

    found = boosting.fit(data(boosting, 400, none, noise=0.1), boosting.Form(30))
    assert unseen_error(boosting, found, none) < 0.04


def test_few_calls_are_shrunk_to_nothing(boosting: ModuleType) -> None:
    one = boosting.fit(data(boosting, 1, lambda x: np.full(len(x), 0.15)), boosting.Form(0))
    many = boosting.fit(data(boosting, 300, lambda x: np.full(len(x), 0.15)), boosting.Form(0))
    assert one.levels["matmul aten::mm"] == pytest.approx(0.15 / (1 + boosting.SHRINK), abs=1e-3)
    assert many.levels["matmul aten::mm"] == pytest.approx(0.15, rel=0.02)


def test_a_call_far_off_leads_no_fit(boosting: ModuleType) -> None:
    """One call a thousand times too slow moves the level as one that is CLIP off."""
    calm = data(boosting, 50, lambda x: np.zeros(len(x)))
    calm.measured_s[0] *= 1000
    found = boosting.fit(calm, boosting.Form(0))
    assert found.levels["matmul aten::mm"] <= boosting.CLIP / 50


def test_calls_count_by_the_error_relative_to_what_they_took(boosting: ModuleType) -> None:
    """Half take a tenth more, half a tenth less: the latter are relatively farther off."""
    even = data(boosting, 400, lambda x: np.where(np.arange(len(x)) % 2 == 0, 0.1, -0.1))
    assert boosting.fit(even, boosting.Form(0)).levels["matmul aten::mm"] < -0.002


def test_a_group_has_the_form_that_is_asked_for(boosting: ModuleType) -> None:
    some = data(boosting, 100, step)
    plain = boosting.fit(some, boosting.Form(4)).trees["matmul"]
    own = boosting.fit(some, boosting.Form(4), {"matmul": boosting.Form(2, depth=3)})
    assert [len(t.feature) for t in plain] == [5] * 4
    assert [len(t.feature) for t in own.trees["matmul"]] == [3] * 2
    assert {len(t.leaf) for t in own.trees["matmul"]} == {8}


def test_a_fit_repeats_itself(boosting: ModuleType) -> None:
    first = boosting.fit(data(boosting, 100, step), boosting.Form(5))
    again = boosting.fit(data(boosting, 100, step), boosting.Form(5))
    for a, b in zip(first.trees["matmul"], again.trees["matmul"], strict=True):
        assert np.array_equal(a.feature, b.feature)
        assert np.array_equal(a.leaf, b.leaf)


def test_only_keeps_whole_calls(boosting: ModuleType) -> None:
    whole = data(boosting, 10, step, two=True)
    part = whole.only(np.arange(10) % 2 == 0)
    assert len(part.measured_s) == 5
    assert part.call.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert part.measured_s.tolist() == whole.measured_s[::2].tolist()
