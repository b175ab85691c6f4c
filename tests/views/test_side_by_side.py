"""Runs side by side, sweeps, and what is worth paying for."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from run_builders import bare_run, gpt_run

from gpuscope.analysis.compare import compare
from gpuscope.views.compare import difference, side_by_side, signed_time
from gpuscope.views.figures import distinct_names
from gpuscope.views.sweep import Worth, elasticity, format_value, render_sweep, render_worth
from gpuscope.views.terminal import WIDTH, make_console


def shown(part) -> str:
    console = make_console(io.StringIO())
    console.print(part)
    return console.file.getvalue()


def faster(run, factor: float, device_id: str):
    low, high = run.step_time_interval_s
    return replace(
        run,
        step_time_s=run.step_time_s / factor,
        device_id=device_id,
        step_time_interval_s=(low / factor, high / factor),
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_devices_side_by_side(lang) -> None:
    run = gpt_run()
    runs = [run, faster(run, 2.0, "twice"), faster(run, 0.5, "slowly"), bare_run()]
    text = shown(side_by_side(runs, lang))
    assert max(cell_len(line) for line in text.splitlines()) <= WIDTH
    assert "2.00×" in next(line for line in text.splitlines() if "twice" in line)
    assert "0.500×" in next(line for line in text.splitlines() if "slowly" in line)
    assert ("不可用" if lang == "zh" else "not available") in text


def test_what_does_not_fit_is_marked() -> None:
    run = gpt_run()
    memory = replace(run.analysis.memory, fits=False, missing_bytes=2**30)
    tight = replace(
        run, fits=False, device_id="small", analysis=replace(run.analysis, memory=memory)
    )
    assert "1.00 GiB too much" in shown(side_by_side([run, tight]))


def test_names_are_distinct() -> None:
    run = gpt_run()
    assert distinct_names([run, replace(run, device_id="other")]) == ["nvidia-h200-sxm", "other"]
    changed = replace(run, target="H200 [memory_bandwidth=8e12]")
    assert distinct_names([run, changed]) == [run.target, changed.target]
    assert len(set(distinct_names([run, replace(run, origin="measured")]))) == 2
    assert len(set(distinct_names([run, run, run]))) == 3


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_differences_of_two_runs(lang) -> None:
    a, b = gpt_run(), gpt_run(hidden=1024)
    text = shown(difference(compare(a, b), lang))
    assert max(cell_len(line) for line in text.splitlines()) <= WIDTH
    label = "计算受限" if lang == "zh" else "compute-bound"
    row = next(line for line in text.splitlines() if line.strip().startswith(label))
    assert "+" in row


def test_equal_runs_differ_in_nothing() -> None:
    text = shown(difference(compare(gpt_run(), gpt_run())))
    assert "+" not in text
    assert "−" not in text.replace("b − a", "")


def test_signed_times() -> None:
    assert signed_time(1.2e-3) == "+1.20 ms"
    assert signed_time(-1.2e-3) == "−1.20 ms"
    assert signed_time(0) == "0 s"


@given(st.floats(0.1, 10), st.floats(1.1, 10), st.floats(-2, 2))
def test_elasticity_is_the_exponent_of_a_power_law(resource, factor, exponent) -> None:
    ends = [(x, 3.0 * x**exponent) for x in (resource, resource * factor)]
    assert math.isclose(elasticity(*ends), exponent, abs_tol=1e-9)


def test_gain_of_a_resource() -> None:
    assert Worth("memory bandwidth", 0.0).gain_of_ten_percent == 0
    assert Worth("memory bandwidth", -1.0).gain_of_ten_percent == pytest.approx(1 - 1 / 1.1)


def test_a_sweep_shows_the_curve_and_its_elasticity() -> None:
    run = gpt_run()
    points = [
        (2e12 * n, replace(run, step_time_s=run.step_time_s / math.sqrt(n))) for n in (1, 2, 4)
    ]
    text = shown(render_sweep("memory_bandwidth_bytes_per_s", points))
    assert max(cell_len(line) for line in text.splitlines()) <= WIDTH
    rows = [line for line in text.splitlines() if "TB/s" in line]
    assert [row.split()[0] for row in rows] == ["2.00", "4.00", "8.00"]
    assert all("−0.50" in row for row in rows[1:])
    assert rows[0].count("█") > rows[1].count("█") > rows[2].count("█")


def test_what_is_worth_paying_for_comes_first() -> None:
    text = shown(render_worth([Worth("L2 cache", -0.0001), Worth("arithmetic", -0.6)]))
    assert text.index("arithmetic") < text.index("L2 cache")
    assert "no change" in text
    assert "About 40.0 % of the step depends on none of these" in text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("memory_bandwidth_bytes_per_s", 8e12, "8.00 TB/s"),
        ("memory_bytes", 2**37, "128 GiB"),
        ("clock_hz", 1.98e9, "1.98 GHz"),
        ("batch", 64, "64"),
        ("compute_units", 132, "132"),
        ("launch_latency_s", 2.5e-6, "2.50 µs"),
        ("tdp_w", 700, "700 W"),
        ("bf16", 9.89e14, "989 TFLOP/s"),
        ("price_usd_per_hour", 7.91, "$7.91"),
    ],
)
def test_values_carry_the_unit_of_their_field(field, value, text) -> None:
    assert format_value(field, value) == text
