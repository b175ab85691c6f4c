"""The Grafana dashboard: panels by host and GPU, made from the list of metrics.

Form: Grafana documentation, "Dashboard JSON model" (schema version 39, Grafana 10.4 and later).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuscope.watch.metrics import VERDICTS

Json = dict[str, Any]

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_GPU = 'host=~"$host", index=~"$gpu"'
_HOST = 'host=~"$host"'
_LEGEND = "{{host}} · GPU {{index}}"

_VERDICT_LOOK: dict[str, tuple[str, str]] = {
    "idle": ("Idle", "#8e8e8e"),
    "waiting_for_input": ("Waiting for input", "#f2cc0c"),
    "host_bound": ("Host bound", "#ff9830"),
    "compute_bound": ("Compute bound", "#37872d"),
    "memory_bound": ("Memory bound", "#3274d9"),
    "communication_bound": ("Communication bound", "#8f3bb8"),
    "power_limited": ("Held by its power limit", "#fa6400"),
    "thermally_limited": ("Held by heat", "#c4162a"),
    "busy": ("Busy", "#73bf69"),
    "unknown": ("Not known", "#464646"),
}
"""Words and colour of each verdict."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the name of its lines."""

    expression: str
    legend: str = _LEGEND
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title, about: what it shows, and how to read it.
        queries: its lines.
        unit: Grafana's name of the unit.
        kind: Grafana's name of the panel.
        width, height: of 24 columns, in rows.
        highest: of the scale; None lets it follow the figures.
        options: what else stands in the panel's field defaults.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    highest: float | None = None
    options: Json | None = None


def _per_gpu(metric: str) -> tuple[Query, ...]:
    return (Query(f"{metric}{{{_GPU}}}"),)


def _share(title: str, about: str, metric: str, width: int = 12) -> Panel:
    return Panel(title, about, _per_gpu(metric), "percentunit", width=width, highest=1.0)


def _verdict_code() -> str:
    """PromQL that gives each device the place of its verdict in the list, from 1."""
    terms = [
        f'gpuscope_device_verdict{{{_GPU}, gpuscope_device_verdict="{name}"}} * {place}'
        for place, name in enumerate(VERDICTS, 1)
    ]
    return f"sum without (gpuscope_device_verdict) ({' or '.join(terms)})"


def _verdict_mappings() -> list[Json]:
    options = {
        str(place): {
            "text": _VERDICT_LOOK[name][0], "color": _VERDICT_LOOK[name][1], "index": place - 1,
        }
        for place, name in enumerate(VERDICTS, 1)
    }  # fmt: skip
    return [{"type": "value", "options": options}]


def _stat(title: str, about: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, about, (Query(expression, "", instant=True),), unit, "stat", 4, 4)


_NOW = (
    _stat("GPUs", "Devices that are watched.", f"sum(gpuscope_host_devices{{{_HOST}}})"),
    _stat(
        "Power", "Of all GPUs shown.", f"sum(gpuscope_device_power_watts{{{_GPU}}})", "watt"
    ),
    _stat(
        "Energy in this range", "Of all GPUs shown, over the time range above.",
        f"sum(increase(gpuscope_device_energy_joules_total{{{_GPU}}}[$__range])) / 3.6e6",
        "kwatth",
    ),
    _stat(
        "Tensor cores busy", "Mean of all GPUs shown, where it can be read.",
        f"avg(gpuscope_device_tensor_activity_ratio{{{_GPU}}})", "percentunit",
    ),
    _stat(
        "Idle GPUs", "Their verdict is idle.",
        f'sum(gpuscope_device_verdict{{{_GPU}, gpuscope_device_verdict="idle"}})',
    ),
    _stat(
        "Held down", "GPUs whose clock is held down now, for any reason.",
        f"sum(gpuscope_device_throttled{{{_GPU}}})",
    ),
    Panel(
        "What each GPU does",
        "The verdict on the last ten seconds: what limits it, or what it waits for.",
        (Query(_verdict_code()),), kind="state-timeline", width=24, height=9,
        options={"mappings": _verdict_mappings(), "color": {"mode": "thresholds"}},
    ),
)  # fmt: skip

_WORK = (
    _share(
        "A kernel runs (utilisation)",
        "Share of time with any kernel on the device. High values may still leave most of it idle.",
        "gpuscope_device_utilization_ratio",
    ),
    _share(
        "SMs at work", "Share of time that SMs had work, over all SMs.",
        "gpuscope_device_sm_activity_ratio",
    ),
    _share(
        "Tensor cores busy", "Above some 40 % large matrix products set the pace.",
        "gpuscope_device_tensor_activity_ratio", 8,
    ),
    _share(
        "Memory bandwidth in use", "Above some 50 % device memory sets the pace.",
        "gpuscope_device_memory_bandwidth_ratio", 8,
    ),
    _share(
        "Occupancy", "Resident warps over the most that fit.",
        "gpuscope_device_sm_occupancy_ratio", 8,
    ),
)  # fmt: skip

_POWER = (
    Panel(
        "Power over its limit", "At 100 % the driver holds the clock down.",
        (Query(
            f"gpuscope_device_power_watts{{{_GPU}}} / gpuscope_device_power_limit_watts{{{_GPU}}}"
        ),), "percentunit", highest=1.1,
    ),
    Panel(
        "Power", "From the energy counter where there is one: no peak is missed.",
        (Query(
            f"rate(gpuscope_device_energy_joules_total{{{_GPU}}}[$__rate_interval]) "
            f"or gpuscope_device_power_watts{{{_GPU}}}"
        ),), "watt",
    ),
    Panel(
        "Temperature", "Of the chip.", _per_gpu("gpuscope_device_temperature_celsius"), "celsius",
        width=8,
    ),
    Panel(
        "Clock of the SMs", "One device below its neighbours slows all that wait for it.",
        _per_gpu("gpuscope_device_sm_clock_hertz"), "hertz", width=8,
    ),
    Panel(
        "Held down, by reason", "Share of time that power or heat held the clock down.",
        (Query(
            f"rate(gpuscope_device_throttle_seconds_total{{{_GPU}}}[$__rate_interval])",
            _LEGEND + " · {{reason}}",
        ),), "percentunit", width=8, highest=1.0,
    ),
)  # fmt: skip

_MEMORY = (
    Panel(
        "Memory in use", "Of the whole device, by everyone.",
        _per_gpu("gpuscope_device_memory_used_bytes"), "bytes",
    ),
    Panel(
        "Memory by process", "The twenty that hold most.",
        (Query(
            f"topk(20, gpuscope_process_memory_bytes{{{_GPU}}})",
            _LEGEND + " · {{process}} ({{pid}}) {{slurm_job_id}} {{pod}}",
        ),), "bytes",
    ),
    Panel(
        "PCI Express", "To the device is above the axis, from it below.",
        (
            Query(f"gpuscope_device_pcie_receive_bytes_per_second{{{_GPU}}}", _LEGEND + " in"),
            Query(f"-gpuscope_device_pcie_transmit_bytes_per_second{{{_GPU}}}", _LEGEND + " out"),
        ), "Bps",
    ),
    Panel(
        "NVLink", "To the device is above the axis, from it below.",
        (
            Query(f"gpuscope_device_nvlink_receive_bytes_per_second{{{_GPU}}}", _LEGEND + " in"),
            Query(f"-gpuscope_device_nvlink_transmit_bytes_per_second{{{_GPU}}}", _LEGEND + " out"),
        ), "Bps",
    ),
)  # fmt: skip

_HEALTH = (
    Panel(
        "Errors", "New ones in each interval: Xid errors, memory errors that lost data.",
        (
            Query(
                f"increase(gpuscope_device_xid_errors_total{{{_GPU}}}[$__rate_interval])",
                _LEGEND + " · Xid",
            ),
            Query(
                f"increase(gpuscope_device_ecc_uncorrected_errors_total{{{_GPU}}}"
                "[$__rate_interval])", _LEGEND + " · memory",
            ),
        ), width=8,
    ),
    Panel(
        "Replaced memory rows", "Grows with age; a pending or failed one is an alert.",
        _per_gpu("gpuscope_device_rows_remapped"), width=8,
    ),
    Panel(
        "Host processors in use", "All of them together. Near 100 % nobody prepares input.",
        (Query(f"gpuscope_host_cpu_ratio{{{_HOST}}}", "{{host}}"),), "percentunit", width=8,
        highest=1.0,
    ),
)  # fmt: skip

ROWS: dict[str, tuple[Panel, ...]] = {
    "Now": _NOW, "What the units do": _WORK, "Power, heat and clocks": _POWER,
    "Memory and traffic": _MEMORY, "Health and host": _HEALTH,
}  # fmt: skip


def dashboard() -> Json:
    """Return the dashboard; Grafana's "Import dashboard" takes it as it is."""
    return {
        "__inputs": [],
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.4.0"},
            {
                "type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"
            },
        ],
        "uid": "gpuscope-gpus",
        "title": "GPUs (gpuscope)",
        "description": "What GPUs do and why: the metrics of `gpuscope watch --serve`.",
        "tags": ["gpu", "gpuscope"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_placed()),
    }  # fmt: skip


def dashboard_json() -> str:
    """Return the dashboard as the text of a file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def _variables() -> Iterator[Json]:
    yield {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
    }  # fmt: skip
    for name, label, query in (
        ("host", "Host", "label_values(gpuscope_sample_timestamp_seconds, host)"),
        ("gpu", "GPU", f"label_values(gpuscope_device_info{{{_HOST}}}, index)"),
    ):
        yield {
            "name": name, "label": label, "type": "query", "datasource": _SOURCE, "query": query,
            "definition": query, "includeAll": True, "multi": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"}, "refresh": 2, "sort": 3,
        }  # fmt: skip


def _placed() -> Iterator[Json]:
    """Rows and panels, numbered, each at its place on the grid."""
    top, number = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        }  # fmt: skip
        top += 1
        left, line = 0, 0
        for panel in panels:
            if left + panel.width > 24:
                top, left, line = top + line, 0, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield _panel(panel, number, place)
            left, line = left + panel.width, max(line, panel.height)
        top += line


def _panel(panel: Panel, number: int, place: dict[str, int]) -> Json:
    defaults: Json = {"unit": panel.unit, **(panel.options or {})}
    if panel.highest is not None:
        defaults |= {"min": 0, "max": panel.highest}
    if panel.kind == "timeseries":
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.about,
        "gridPos": place, "datasource": _SOURCE, "targets": _targets(panel.queries),
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": _options(panel.kind),
    }  # fmt: skip


def _targets(queries: Sequence[Query]) -> list[Json]:
    return [
        {
            "refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": query.expression,
            "legendFormat": query.legend or "__auto", "instant": query.instant,
            "range": not query.instant,
        }
        for place, query in enumerate(queries)
    ]  # fmt: skip


def _options(kind: str) -> Json:
    if kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "none", "graphMode": "none", "textMode": "value",
        }  # fmt: skip
    if kind == "state-timeline":
        return {
            "mergeValues": True, "showValue": "never", "rowHeight": 0.85,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        }  # fmt: skip
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }  # fmt: skip
