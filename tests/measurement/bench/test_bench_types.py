"""Points and how they are told apart; the registry of benches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document.text import Text, render
from gpuscope.errors import UnknownNameError
from gpuscope.measurement.bench.registry import BENCHES, bench, benches, chosen_benches
from gpuscope.measurement.bench.types import BenchResult, Point, p90, params_key, point_of


def test_rates_and_fractions_by_hand() -> None:
    point = Point("b", "f", {}, "hot", 2e-3, flops=4e9, bytes=8e6, bound="compute", bound_s=1e-3)
    assert point.fraction == pytest.approx(0.5)
    assert point.flops_per_s == pytest.approx(2e12)
    assert point.bytes_per_s == pytest.approx(4e9)


def test_what_is_not_known_is_none() -> None:
    point = Point("b", "f", {}, "hot", None)
    assert (point.fraction, point.flops_per_s, point.bytes_per_s, point.kernel) == (
        None,
        None,
        None,
        "",
    )


@given(st.lists(st.floats(0, 1e3), min_size=1))
def test_nine_in_ten_do_not_exceed_p90(values: list[float]) -> None:
    at = p90(values)
    assert at in values
    assert sum(v <= at for v in values) >= 0.9 * len(values)
    # and it is the smallest such value
    assert sum(v < at for v in values) < 0.9 * len(values)


def test_points_of_times() -> None:
    point = point_of("b", "f", {"n": 1}, "host", [3.0, 1.0, 2.0], keep_samples=True)
    assert (point.median_s, point.min_s, point.p90_s, point.n) == (2.0, 1.0, 3.0, 3)
    assert point.samples_s == (3.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="No times"):
        point_of("b", "f", {}, "host", [])


def test_equal_params_have_equal_keys_in_any_order() -> None:
    assert params_key({"a": 1, "b": True}) == params_key({"b": True, "a": 1})
    assert params_key({"a": 1}) != params_key({"a": 1.5})


def test_points_of_one_family() -> None:
    points = tuple(Point("b", f, {}, "hot", 1.0) for f in ("x", "y", "x"))
    result = BenchResult({}, "", (*points, Point("c", "x", {}, "hot", 1.0)))
    assert len(result.of("b")) == 3
    assert len(result.of("b", "x")) == 2


def test_every_bench_of_the_folder_is_registered_in_both_languages() -> None:
    pytest.importorskip("torch")
    found = {b.name: b for b in benches()}
    assert {
        "matmul",
        "attention",
        "convolution",
        "reduction",
        "pointwise",
        "gather",
        "optimizers",
        "memory",
        "transfers",
        "peer",
        "power",
        "recurrent",
        "host",
        "launch",
        "collectives",
    } <= found.keys()
    for each in found.values():
        assert each.title
        assert render(each.title, "zh") != each.title
        assert 0 < each.quick_s <= each.full_s
    assert list(benches())[-1].name == "power"  # it heats the device


def test_all_of_them_end_in_time_on_one_gpu() -> None:
    """No point is begun after a bench's time: five minutes, and one for the quick ones."""
    pytest.importorskip("torch")
    alone = [b for b in benches() if b.needs != "gpus"]
    assert sum(b.full_s for b in alone) <= 300
    assert sum(b.quick_s for b in alone) <= 60


def test_benches_are_chosen_by_name() -> None:
    pytest.importorskip("torch")
    assert [b.name for b in chosen_benches(["attention", "memory"])] == ["memory", "attention"]
    with pytest.raises(UnknownNameError, match="matmul"):
        chosen_benches(["matmull"])


def test_registering_keeps_the_function() -> None:
    with BENCHES.replaced({}):

        @bench("mine", title=Text("Mine"), quick_s=1, full_s=2, needs="any")
        def mine(context):
            yield from ()

        assert list(mine(None)) == []
        assert BENCHES.get("mine").run is mine
