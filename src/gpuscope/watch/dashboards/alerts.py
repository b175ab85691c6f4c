"""Alert rules for Prometheus: what on a GPU deserves to wake, or at least to tell, someone.

Form: Prometheus documentation, "Alerting rules". Thresholds are told in each rule's description;
they are beginnings, to be changed by who knows the machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule.

    Attributes:
        name: of the alert.
        expression: in PromQL; each series it gives is one alert.
        lasting: how long it must hold first ("5m").
        severity: a label, to route by.
        summary: one sentence; `{{ $labels.host }}` and its kind are filled in.
        description: what it means and what to do.
    """

    name: str
    expression: str
    lasting: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    description: str


_GPU = "GPU {{ $labels.index }} ({{ $labels.name }}) of {{ $labels.host }}"

_BUSY_CLOCK = "(gpuscope_device_sm_clock_hertz and gpuscope_device_utilization_ratio > 0.8)"
"""Idle neighbours may run faster than any busy device: they are no measure."""

_EXPORTER = (
    Alert(
        "GpuscopeExporterDown", 'up{job="gpuscope"} == 0', "2m", "critical",
        "The exporter at {{ $labels.instance }} does not answer.",
        "Nothing is known of its GPUs. Is the machine up? Does `gpuscope watch --serve` run there?",
    ),
    Alert(
        "GpuscopeNothingExported", "absent(gpuscope_exporter_info)", "5m", "critical",
        "No exporter is scraped at all.",
        "Is there a scrape job named gpuscope, and does it reach the machines?",
    ),
    Alert(
        "GpuscopeFiguresOld", "time() - gpuscope_sample_timestamp_seconds > 60", "2m", "warning",
        "The figures of {{ $labels.host }} are {{ $value | humanizeDuration }} old.",
        "The exporter answers, but its devices or its source do not: a driver that hangs, or "
        "clocks of the two machines that differ.",
    ),
    Alert(
        "GpuscopeDeviceLost", "gpuscope_host_devices < max_over_time(gpuscope_host_devices[1d])",
        "2m", "critical", "{{ $labels.host }} has lost a GPU: {{ $value }} left.",
        "It fell off the bus, or was taken away. Run there: gpuscope doctor",
    ),
)  # fmt: skip

_HEALTH = (
    Alert(
        "GpuscopeUncorrectedMemoryError",
        "increase(gpuscope_device_ecc_uncorrected_errors_total[1h]) > 0", "0m", "critical",
        f"{_GPU}: device memory lost data.",
        "Work that ran there has failed or is wrong. Drain the machine and reset the device; if it "
        "comes back, have it replaced.",
    ),
    Alert(
        "GpuscopeRowRemapFailed", "gpuscope_device_row_remap_failed == 1", "0m", "critical",
        f"{_GPU}: no spare memory row is left.", "The device should be replaced.",
    ),
    Alert(
        "GpuscopeRowRemapPending", "gpuscope_device_row_remap_pending == 1", "1h", "warning",
        f"{_GPU}: a bad memory row waits to be replaced.",
        "Reset the device when it is free: until then the row is in use.",
    ),
    Alert(
        "GpuscopeXid", "increase(gpuscope_device_xid_errors_total[10m]) > 0", "0m", "warning",
        f"{_GPU}: the driver reported an Xid error.",
        "Its number is in gpuscope_device_last_xid. What it means: gpuscope explain error 'Xid N'",
    ),
)  # fmt: skip

_SPEED = (
    Alert(
        "GpuscopeDeviceHot", "gpuscope_device_temperature_celsius > 85", "5m", "warning",
        f"{_GPU} is at {{{{ $value }}}} °C.",
        "Above 85 °C for five minutes: near where devices slow down. Air, fans, neighbours?",
    ),
    Alert(
        "GpuscopeHeldByHeat",
        'rate(gpuscope_device_throttle_seconds_total{reason="thermal"}[5m]) > 0.05', "5m",
        "warning", f"{_GPU} was held down by heat {{{{ $value | humanizePercentage }}}} of the "
        "time.",
        "More than 5 % of the last five minutes: it computes slower than it could, and so does "
        "every GPU that waits for it.",
    ),
    Alert(
        "GpuscopeHeldByPower",
        'rate(gpuscope_device_throttle_seconds_total{reason="power"}[10m]) > 0.5', "30m", "info",
        f"{_GPU} runs at its power limit.",
        "Held down for more than half of the time. Normal for dense matrix work at full load; if "
        "the limit was lowered, it shows in gpuscope_device_power_limit_watts.",
    ),
    Alert(
        "GpuscopeSlowerThanNeighbours",
        f"{_BUSY_CLOCK} / on (host) group_left () quantile by (host) (0.5, {_BUSY_CLOCK}) < 0.85",
        "10m", "warning",
        f"{_GPU} runs at {{{{ $value | humanizePercentage }}}} of its neighbours' clock.",
        "More than 15 % below the host's median clock while busy: in synchronous training all "
        "others wait for it. Run there: gpuscope doctor --deep",
    ),
    Alert(
        "GpuscopePcieLanesLost",
        "gpuscope_device_pcie_lanes < max_over_time(gpuscope_device_pcie_lanes[7d])", "15m",
        "warning", f"{_GPU} has {{{{ $value }}}} PCI Express lanes, fewer than it had.",
        "Copies from and to the host are slower. A loose card, a riser, a retraining link.",
    ),
)  # fmt: skip

_USE = (
    Alert(
        "GpuscopeIdleWhileAllocated",
        "avg_over_time(gpuscope_device_utilization_ratio[30m]) < 0.02 "
        "and on (host, index) sum by (host, index) (gpuscope_process_memory_bytes) > 1e9", "30m",
        "info", f"{_GPU} has done nothing for an hour, and processes hold its memory.",
        "Utilisation below 2 %, more than 1 GB held: a forgotten notebook, a hung job. "
        "Who it is: gpuscope_process_memory_bytes",
    ),
    Alert(
        "GpuscopeWaitingForInput",
        'avg_over_time(gpuscope_device_verdict{gpuscope_device_verdict="waiting_for_input"}[30m]) '
        "> 0.8", "30m", "info", f"{_GPU} mostly waits for input.",
        "For more than 80 % of the last half hour. More loader workers, pinned memory, faster "
        "storage.",
    ),
    Alert(
        "GpuscopeMemoryFull",
        "gpuscope_device_memory_used_bytes / gpuscope_device_memory_total_bytes > 0.98", "10m",
        "info", f"{_GPU}: {{{{ $value | humanizePercentage }}}} of its memory is in use.",
        "The next allocation may fail. Expected where a server reserves all of it.",
    ),
)  # fmt: skip

GROUPS: dict[str, tuple[Alert, ...]] = {
    "gpuscope-exporter": _EXPORTER, "gpuscope-health": _HEALTH, "gpuscope-speed": _SPEED,
    "gpuscope-use": _USE,
}  # fmt: skip
"""Rules by group; a group's rules are evaluated together."""

ALERTS: tuple[Alert, ...] = tuple(alert for group in GROUPS.values() for alert in group)


def alerts_yaml() -> str:
    """Return the file of rules: `rule_files` of Prometheus takes it as it is."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Alert rules for the metrics of `gpuscope watch --serve`."
    yield "# The scrape job must be named gpuscope. Check: promtool check rules alerts.yml"
    yield "groups:"
    for name, alerts in GROUPS.items():
        yield f"  - name: {name}"
        yield "    rules:"
        for alert in alerts:
            yield f"      - alert: {alert.name}"
            yield f"        expr: {_quoted(alert.expression)}"
            if alert.lasting != "0m":
                yield f"        for: {alert.lasting}"
            yield "        labels:"
            yield f"          severity: {alert.severity}"
            yield "        annotations:"
            yield f"          summary: {_quoted(alert.summary)}"
            yield f"          description: {_quoted(alert.description)}"


def _quoted(text: str) -> str:
    """A double-quoted YAML scalar: JSON's strings are a part of YAML."""
    return json.dumps(text, ensure_ascii=False)
