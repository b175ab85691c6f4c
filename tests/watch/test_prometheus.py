"""Against a real Prometheus server: it scrapes what two H200s did, and is asked for it.

Skipped where the server is not installed (Debian: apt-get install prometheus).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from watch_samples import device, samples

from gpuscope.watch.dashboards import ALERTS, DASHBOARD
from gpuscope.watch.exporter import Exporter
from gpuscope.watch.health import Health
from gpuscope.watch.metrics import METRICS
from gpuscope.watch.owners import Owner
from gpuscope.watch.recording import Replay, read_samples

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="needs the Prometheus server (Debian package prometheus)",
)

RECORDING = Path(__file__).resolve().parents[1] / "data/watch/h200-x2-products-and-input.jsonl"
"""Device 0 multiplies matrices at its power limit, device 1 waits for its input between bursts."""

SPEED = 3.0
OWNER = Owner("0123456789ab", "4711")


class Server:
    """A Prometheus that scrapes one exporter."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        url = f"{self.base}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.get("/api/v1/query", query=expression)["result"]

    def value(self, expression: str) -> float:
        (only,) = self.query(expression)
        return float(only["value"][1])

    def wait_for(self, expression: str, seconds: float = 20.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if self.query(expression):
                    return
            except (OSError, AssertionError):  # it is not up yet
                pass
            time.sleep(0.1)
        raise AssertionError(f"no answer to {expression}")


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("prometheus")
    source = Replay.load(RECORDING, speed=SPEED)
    target, port = free_port(), free_port()
    exporter = Exporter(
        f":{target}",
        source,
        find_owners=lambda every: {each.pid: OWNER for each in every},
        read_health=lambda info: Health(0, 0, 1, False, False, 0, None),
    )
    (folder / "alerts.yml").write_text(ALERTS.read_text("utf-8"))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration(target)))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        found = Server(port)
        try:
            found.wait_for("up")  # it scrapes: the recording may begin
            with exporter:
                assert exporter.wait(20)
                time.sleep(0.5)  # one more scrape sees the last sample
                yield found
        finally:
            process.terminate()
            process.wait(20)


def configuration(target: int) -> dict[str, Any]:
    """What Prometheus is told to scrape."""
    job = {"job_name": "gpuscope", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    return {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [job],
    }


def test_the_scrape_has_no_error(server: Server) -> None:
    (target,) = server.get("/api/v1/targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert target["lastScrapeDuration"] < 5


def test_labels_and_figures_arrive(server: Server) -> None:
    *_, last = read_samples(RECORDING)
    for index, played in enumerate(last.devices):
        (power,) = server.query(f'gpuscope_device_power_watts{{index="{index}"}}')
        labels = power["metric"]
        assert (labels["host"], labels["uuid"], labels["name"]) == (
            last.host,
            played.info.uuid,
            played.info.name,
        )
        assert float(power["value"][1]) == played.reading.power_w
    assert server.value("sum(gpuscope_host_devices)") == 2
    (process,) = server.query('gpuscope_process_memory_bytes{index="0"}')
    assert process["metric"]["slurm_job_id"] == "4711"
    assert process["metric"]["process"] == "python3 load.py"
    assert process["metric"]["job"] == "gpuscope"
    assert "exported_job" not in process["metric"]
    assert "pod" not in process["metric"]


@pytest.mark.parametrize("index", [0, 1])
def test_power_is_the_rate_of_the_energy_counter(server: Server, index: int) -> None:
    """Two readings of the device that know nothing of each other, through the whole chain."""
    mean_w = server.value(f'avg_over_time(gpuscope_device_power_watts{{index="{index}"}}[1m])')
    now = time.time()
    (line,) = server.get(
        "/api/v1/query_range",
        query=f'rate(gpuscope_device_energy_joules_total{{index="{index}"}}[2s])',
        start=f"{now - 20}",
        end=f"{now}",
        step="0.25",
    )["result"]
    highest = max(float(value) for _, value in line["values"])
    assert highest / SPEED == pytest.approx(mean_w, rel=0.2)


def test_one_verdict_a_device_is_on(server: Server) -> None:
    states = server.query("gpuscope_device_verdict == 1")
    found = {s["metric"]["index"]: s["metric"]["gpuscope_device_verdict"] for s in states}
    assert found == {"0": "power_limited", "1": "waiting_for_input"}


def test_types_and_units_are_understood(server: Server) -> None:
    told = server.get("/api/v1/targets/metadata")
    types = {each["metric"]: each["type"] for each in told}
    units = {each["metric"]: each["unit"] for each in told}
    present = [metric for metric in METRICS.values() if metric.family in types]
    assert len(present) > 25
    for metric in present:
        assert types[metric.family] == metric.kind
        assert units[metric.family] == metric.unit


def panel_expressions() -> Iterator[tuple[str, str]]:
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "5s").replace("$__range", "5s")
            yield panel["title"], expression.replace("$host", ".*").replace("$gpu", ".*")


SILENT = {"Errors"}
"""Panels that may have nothing to show of healthy devices (an increase of nothing is 0)."""


def test_every_panel_shows_something(server: Server) -> None:
    empty = {title for title, expression in panel_expressions() if not server.query(expression)}
    assert empty <= SILENT


def test_the_timeline_s_code_is_the_verdict_s_place(server: Server) -> None:
    code = dict(panel_expressions())["What each GPU does"]
    names = list(
        next(
            p
            for p in json.loads(DASHBOARD.read_text("utf-8"))["panels"]
            if p["type"] == "state-timeline"
        )["fieldConfig"]["defaults"]["mappings"][0]["options"].values()
    )
    found = {s["metric"]["index"]: int(s["value"][1]) for s in server.query(code)}
    assert names[found["1"] - 1]["text"] == "Waiting for input"


def test_the_rules_are_loaded_and_evaluate(server: Server) -> None:
    server.wait_for("ALERTS or vector(1)")
    until = time.monotonic() + 10
    while time.monotonic() < until:
        groups = server.get("/api/v1/rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        if all(rule["health"] != "unknown" for rule in rules):
            break
        time.sleep(0.2)
    assert len(rules) == len(
        [line for line in ALERTS.read_text("utf-8").splitlines() if "- alert:" in line]
    )
    assert {rule["health"] for rule in rules} == {"ok"}
    assert not [rule["name"] for rule in rules if rule["state"] == "firing"]


def test_promtool_finds_nothing_to_complain_about() -> None:
    with Exporter(":0", read_health=lambda info: Health(0, 0, 1, False, False, 0, 79)) as exporter:
        held = device(throttle_reasons=("hardware slowdown",), throttled_s={"thermal": 1.0})
        exporter.update(samples(lambda number: held, 3))
        with urllib.request.urlopen(exporter.address.url, timeout=5) as answer:
            text = answer.read()
    # What the client library tells of itself is not ours to name.
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(ALERTS.read_text("utf-8"))
    checked = subprocess.run(
        ["promtool", "check", "rules", "alerts.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "SUCCESS" in checked.stdout


GPU = 'host="a", index="{}", name="NVIDIA H200"'
THROTTLE = "gpuscope_device_throttle_seconds_total"
CASES: dict[str, tuple[dict[str, str], str, int]] = {
    # alert: series of one value a minute, when to look, how many alerts there are then
    "GpuscopeExporterDown": ({'up{job="gpuscope"}': "0x5"}, "4m", 1),
    "GpuscopeNothingExported": ({"other": "1x10"}, "8m", 1),
    "GpuscopeFiguresOld": ({'gpuscope_sample_timestamp_seconds{host="a"}': "0x10"}, "8m", 1),
    "GpuscopeDeviceLost": ({'gpuscope_host_devices{host="a"}': "8x10 7x10"}, "15m", 1),
    "GpuscopeUncorrectedMemoryError": (
        {f"gpuscope_device_ecc_uncorrected_errors_total{{{GPU.format(0)}}}": "3x10 4x10"},
        "15m",
        1,
    ),
    "GpuscopeRowRemapFailed": (
        {f"gpuscope_device_row_remap_failed{{{GPU.format(0)}}}": "1x3"},
        "1m",
        1,
    ),
    "GpuscopeRowRemapPending": (
        {f"gpuscope_device_row_remap_pending{{{GPU.format(0)}}}": "1x90"},
        "80m",
        1,
    ),
    "GpuscopeXid": ({f"gpuscope_device_xid_errors_total{{{GPU.format(0)}}}": "0x5 1x5"}, "8m", 1),
    "GpuscopeDeviceHot": (
        {
            f"gpuscope_device_temperature_celsius{{{GPU.format(0)}}}": "91x10",
            f"gpuscope_device_temperature_celsius{{{GPU.format(1)}}}": "70x10",
        },
        "9m",
        1,
    ),
    "GpuscopeHeldByHeat": (
        {
            f"{THROTTLE}{{{GPU.format(0)}, reason='thermal'}}": "0+6x20",
            f"{THROTTLE}{{{GPU.format(1)}, reason='power'}}": "0+60x20",
        },
        "18m",
        1,
    ),
    "GpuscopeHeldByPower": (
        {f"{THROTTLE}{{{GPU.format(0)}, reason='power'}}": "0+50x60"},
        "50m",
        1,
    ),
    "GpuscopeSlowerThanNeighbours": (
        {
            **{
                f"gpuscope_device_sm_clock_hertz{{{GPU.format(index)}}}": f"{clock}x30"
                for index, clock in enumerate((1200, 1700, 1710, 1690, 1980))
            },
            **{
                f"gpuscope_device_utilization_ratio{{{GPU.format(index)}}}": f"{busy}x30"
                for index, busy in enumerate((0.99, 0.99, 0.99, 0.99, 0.0))
            },
        },
        "25m",
        1,
    ),
    "GpuscopePcieLanesLost": (
        {f"gpuscope_device_pcie_lanes{{{GPU.format(0)}}}": "16x10 8x30"},
        "35m",
        1,
    ),
    "GpuscopeIdleWhileAllocated": (
        {
            f"gpuscope_device_utilization_ratio{{{GPU.format(0)}}}": "0x90",
            f"gpuscope_device_utilization_ratio{{{GPU.format(1)}}}": "0x90",
            f'gpuscope_process_memory_bytes{{{GPU.format(0)}, pid="7"}}': "8e10x90",
        },
        "80m",
        1,
    ),
    "GpuscopeWaitingForInput": (
        {
            f"gpuscope_device_verdict{{{GPU.format(0)}, "
            'gpuscope_device_verdict="waiting_for_input"}': "1x90"
        },
        "80m",
        1,
    ),
    "GpuscopeMemoryFull": (
        {
            f"gpuscope_device_memory_used_bytes{{{GPU.format(0)}}}": "99x30",
            f"gpuscope_device_memory_total_bytes{{{GPU.format(0)}}}": "100x30",
        },
        "25m",
        1,
    ),
}

HEALTHY = {
    'up{job="gpuscope"}': "1x90",
    "gpuscope_exporter_info": "1x90",
    'gpuscope_sample_timestamp_seconds{host="a"}': "0+60x90",
    'gpuscope_host_devices{host="a"}': "2x90",
    **{
        f"gpuscope_device_{name}{{{GPU.format(index)}}}": values
        for index in (0, 1)
        for name, values in {
            "ecc_uncorrected_errors_total": "3x90",
            "row_remap_failed": "0x90",
            "row_remap_pending": "0x90",
            "xid_errors_total": "0x90",
            "temperature_celsius": "71x90",
            "sm_clock_hertz": "1.98e9x90",
            "utilization_ratio": "0.97x90",
            "pcie_lanes": "16x90",
            "memory_used_bytes": "90x90",
            "memory_total_bytes": "100x90",
        }.items()
    },
    f'gpuscope_process_memory_bytes{{{GPU.format(0)}, pid="7"}}': "8e10x90",
    f"{THROTTLE}{{{GPU.format(0)}, reason='power'}}": "0+1x90",
    f'gpuscope_device_verdict{{{GPU.format(0)}, gpuscope_device_verdict="idle"}}': "1x90",
}


def test_each_alert_fires_for_its_illness_and_none_for_health(tmp_path: Path) -> None:
    names = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    assert {rule["alert"] for group in names for rule in group["rules"]} == set(CASES)
    count = 'count(ALERTS{{alertname="{}", alertstate="firing"}})'
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "promql_expr_test": [
                {
                    "expr": count.format(name),
                    "eval_time": at,
                    "exp_samples": [{"labels": "{}", "value": number}],
                }
            ],
        }
        for name, (series, at, number) in CASES.items()
    ]
    tests.append(
        {
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in HEALTHY.items()],
            "promql_expr_test": [{"expr": "count(ALERTS)", "eval_time": "85m", "exp_samples": []}],
        }
    )
    (tmp_path / "alerts.yml").write_text(ALERTS.read_text("utf-8"))
    document = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))
    checked = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
