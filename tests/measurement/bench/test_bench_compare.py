"""Two benches side by side, with known differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_builders import dispatch, result, slowed, square

from gpuscope.measurement.bench.compare import compare_benches


def test_equal_machines_are_well() -> None:
    found = compare_benches(result(), result())
    assert found.ill == ""
    assert found.different == {}
    assert found.outliers == ()
    assert all(g.ratio == pytest.approx(1.0) for g in (*found.families, *found.bounds))


def test_a_slow_bench_is_found_and_named() -> None:
    found = compare_benches(result(), slowed(result(), "matmul", 1.3))
    assert found.ill == "second"
    worst = found.families[0]
    assert worst.name == "matmul · mm"
    assert worst.ratio == pytest.approx(1.3)
    assert worst.slower == "second"
    assert not worst.by_clock
    assert {g.name for g in found.bounds if g.slower} == {"compute"}


def test_a_low_clock_explains_it() -> None:
    found = compare_benches(result(), slowed(result(), "matmul", 1.3, clock=1 / 1.28))
    assert found.families[0].by_clock
    assert found.families[0].clock_ratio == pytest.approx(1 / 1.28)


def test_the_order_only_turns_the_answer_around() -> None:
    ill = slowed(result(), "memory", 1.5)
    one, other = compare_benches(result(), ill), compare_benches(ill, result())
    assert (one.ill, other.ill) == ("second", "first")
    assert one.families[0].ratio == pytest.approx(1 / other.families[0].ratio)


def test_each_may_be_ill_somewhere() -> None:
    found = compare_benches(slowed(result(), "matmul", 1.4), slowed(result(), "memory", 1.4))
    assert found.ill == "both"


def test_noise_is_no_illness() -> None:
    assert compare_benches(result(), slowed(result(), "matmul", 1.04)).ill == ""


def test_one_point_that_stands_out_of_its_family() -> None:
    points = tuple(square(n, 700.0) for n in (512, 1024, 2048, 4096, 8192))
    odd = replace(points[2], median_s=points[2].median_s * 2, kernels=())
    found = compare_benches(result(points=points), result(points=(*points[:2], odd, *points[3:])))
    assert found.ill == ""
    (outlier,) = found.outliers
    assert outlier.params["m"] == 2048
    assert outlier.ratio == pytest.approx(2.0)
    assert outlier.other_kernel


def test_a_scattered_point_is_no_outlier() -> None:
    calm = tuple(square(n, 700.0) for n in (512, 1024, 2048))
    wild = tuple(replace(p, p90_s=p.median_s * 1.5) for p in calm)
    moved = (*wild[:2], replace(wild[2], median_s=wild[2].median_s * 1.4))
    assert compare_benches(result(points=calm), result(points=moved)).outliers == ()


def test_only_common_points_are_compared() -> None:
    found = compare_benches(
        result(points=(square(512, 700.0), dispatch("add", 4e-6))),
        result(points=(square(512, 700.0), square(1024, 700.0), square(2048, 700.0))),
    )
    assert (found.only_first, found.only_second) == (1, 2)
    assert [g.points for g in found.families] == [1]


def test_nothing_in_common_is_no_verdict() -> None:
    found = compare_benches(result(points=()), result())
    assert (found.ill, found.families) == ("", ())


def test_facts_that_differ_are_shown() -> None:
    other = dict(result().machine) | {"driver": "570.0"}
    other.pop("cuda")
    found = compare_benches(result(), result(machine=other))
    assert found.different == {"driver": ("580.1", "570.0"), "cuda": ("13.0", "")}
    assert found.same_device
    assert not compare_benches(result(), result(machine={"device": "NVIDIA H100"})).same_device
