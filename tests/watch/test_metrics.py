"""The list of metrics: names as Prometheus wants them, each figure there once."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace

import pytest
from watch_samples import device

from gpuscope.measurement.sensors.types import Reading
from gpuscope.watch.health import Health
from gpuscope.watch.metrics import DEVICE_FIGURES, HEALTH_FIGURES, METRICS, Metric
from gpuscope.watch.types import Activity

NOT_ONE_FIGURE = {"time_s", "throttle_reasons", "throttled_s", "processes"}


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda m: m.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"gpuscope_[a-z0-9_]+", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert metric.about.endswith(".")
    assert len(set(metric.labels)) == len(metric.labels)
    # "job" and "instance" are Prometheus's own: it would rename ours.
    assert not {"job", "instance"} & set(metric.labels)


def test_a_counter_s_unit_stands_before_total() -> None:
    energy = METRICS["gpuscope_device_energy_joules_total"]
    assert (energy.family, energy.unit) == ("gpuscope_device_energy_joules", "joules")
    assert METRICS["gpuscope_host_devices"].unit == ""


def test_every_figure_of_a_sample_is_exported() -> None:
    exported = {metric.field for metric in (*DEVICE_FIGURES, *HEALTH_FIGURES)}
    wanted = {("reading", f.name) for f in fields(Reading) if f.name not in NOT_ONE_FIGURE}
    wanted |= {("activity", f.name) for f in fields(Activity)}
    wanted |= {("health", f.name) for f in fields(Health)}
    assert exported == wanted


def test_what_is_no_number_is_not_there() -> None:
    power = METRICS["gpuscope_device_power_watts"]
    sample = device()
    assert power.value(sample) == 600.0
    for missing in (None, math.nan, math.inf):
        assert power.value(replace(sample, reading=Reading(0.0, power_w=missing))) is None
    assert power.value(replace(sample, reading=Reading(0.0, power_w=0.0))) == 0.0


def test_health_is_read_where_it_is_given() -> None:
    failed = METRICS["gpuscope_device_row_remap_failed"]
    assert failed.value(device()) is None
    assert failed.value(device(), Health(remap_failed=True)) == 1.0
