"""The exporter: what stands in a scrape, and how it is served."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from watch_samples import device, samples, training

from gpuscope.document.text import Text, render
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch import exporter as module
from gpuscope.watch.exporter import Address, Exporter, parse_address, serve, warning_of
from gpuscope.watch.exposition import Collector
from gpuscope.watch.health import Health
from gpuscope.watch.metrics import METRICS, VERDICTS
from gpuscope.watch.owners import Owner
from gpuscope.watch.source import EndOfSamples
from gpuscope.watch.types import Activity, DeviceSample, Sample, Verdict
from gpuscope.watch.verdict import HEADS

DEVICE = {"host": "node1", "index": "0", "uuid": "GPU-000-abc", "name": "NVIDIA H200"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def one(*devices: DeviceSample, host: str = "node1") -> Sample:
    return Sample(1.76e9, host, devices or (device(),), 0.25)


class Given:
    """A source of samples that ends."""

    notes = ()

    def __init__(self, answers: Iterable[tuple[Sample, ...] | Exception], interval_s=0.01) -> None:
        self.answers, self.interval_s = list(answers), interval_s

    def read(self) -> tuple[Sample, ...]:
        if not self.answers:
            raise EndOfSamples
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None: ...


def scrape(exporter: Exporter, accept: str = "text/plain") -> str:
    request = urllib.request.Request(exporter.address.url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


def series(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def given(*shown: Sample, **options: object) -> dict[str, list[tuple[dict[str, str], float]]]:
    with Exporter(":0", **options) as exporter:
        exporter.update(shown)
        return series(scrape(exporter))


def test_every_figure_arrives_with_its_labels_and_unit() -> None:
    found = given(one())
    assert found["gpuscope_device_power_watts"] == [(DEVICE, 600.0)]
    assert found["gpuscope_device_energy_joules_total"] == [(DEVICE, 1e6)]
    assert found["gpuscope_device_memory_used_bytes"] == [(DEVICE, 100 * 2**30)]
    assert found["gpuscope_device_sm_activity_ratio"] == [(DEVICE, 0.9)]
    assert found["gpuscope_device_pcie_receive_bytes_per_second"] == [(DEVICE, 2e9)]
    assert found["gpuscope_host_cpu_ratio"] == [({"host": "node1"}, 0.25)]
    assert found["gpuscope_sample_timestamp_seconds"] == [({"host": "node1"}, 1.76e9)]
    assert found["gpuscope_device_info"] == [
        ({**DEVICE, "vendor": "nvidia", "driver": "580.1", "slice": "false"}, 1.0)
    ]


def test_both_formats_say_the_same() -> None:
    with Exporter(":0", read_health=lambda info: Health(1, 2, 3, True, False, 4, 79)) as exporter:
        exporter.update(samples(training, 3))
        plain, open_text = scrape(exporter), scrape(exporter, OPENMETRICS)
    assert "# UNIT gpuscope_device_energy_joules joules" in open_text
    assert "# TYPE gpuscope_device_verdict stateset" in open_text
    assert open_text.endswith("# EOF\n")
    strict = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in openmetrics.text_string_to_metric_families(open_text)
        for s in family.samples
        if s.name.startswith("gpuscope_")
    }
    loose = {
        (name, tuple(sorted(labels.items()))): value
        for name, rows in series(plain).items()
        for labels, value in rows
        if name.startswith("gpuscope_")
    }
    assert strict == loose
    assert {name for name, _ in strict} <= set(METRICS)
    assert strict["gpuscope_device_last_xid", tuple(sorted(DEVICE.items()))] == 79


def test_what_was_not_read_is_absent_never_zero() -> None:
    bare = DeviceSample(SensorInfo("amd", 0, "x"), Reading(0.0, utilisation=0.0), Activity())
    found = given(Sample(1.0, "a", (bare,)))
    assert found["gpuscope_device_utilization_ratio"][0][1] == 0.0
    told = {name for name in found if name.startswith("gpuscope_device_")}
    assert told == {
        "gpuscope_device_info",
        "gpuscope_device_utilization_ratio",
        "gpuscope_device_verdict",
        "gpuscope_device_verdict_certainty_ratio",
    }
    assert "gpuscope_host_cpu_ratio" not in found
    assert "gpuscope_process_memory_bytes" not in found


def test_a_host_without_devices_says_that_it_has_none() -> None:
    found = given(Sample(1.0, "laptop", ()))
    assert found["gpuscope_host_devices"] == [({"host": "laptop"}, 0.0)]
    assert not [name for name in found if name.startswith("gpuscope_device_")]


def test_why_the_clock_is_held_down() -> None:
    held = device(throttle_reasons=("software power cap",), throttled_s={"power": 3.5})
    found = given(one(held))
    assert found["gpuscope_device_throttled"] == [(DEVICE, 1.0)]
    reason = {**DEVICE, "reason": "software power cap"}
    assert found["gpuscope_device_throttle_reason"] == [(reason, 1.0)]
    assert found["gpuscope_device_throttle_seconds_total"] == [({**DEVICE, "reason": "power"}, 3.5)]
    free = given(one(device(throttle_reasons=())))
    assert free["gpuscope_device_throttled"] == [(DEVICE, 0.0)]
    assert "gpuscope_device_throttle_reason" not in free
    assert "gpuscope_device_throttled" not in given(one(device(throttle_reasons=None)))


def test_one_verdict_is_on() -> None:
    found = given(*samples(training, 6))["gpuscope_device_verdict"]
    states = {labels["gpuscope_device_verdict"]: value for labels, value in found}
    assert set(states) == set(VERDICTS)
    assert [name for name, value in states.items() if value == 1.0] == ["compute_bound"]


def test_a_verdict_may_come_from_elsewhere() -> None:
    collector = Collector(30.0)
    collector.update(one(), [Verdict("idle", HEADS["idle"], Text(""), 0.5)])
    sure = next(f for f in collector.collect() if f.name.endswith("certainty_ratio"))
    assert sure.samples[0].value == 0.5


def test_processes_by_owner() -> None:
    processes = (
        ProcessUse(7, "python train.py", 2**30),
        ProcessUse(7, "python train.py", 2**30),
        ProcessUse(8, "other", 5),
        ProcessUse(9, "untold", None),
    )
    owner = Owner("0123456789ab", "4711", "trainer-0", "ml")
    found = given(one(device(processes=processes)), find_owners=lambda every: {7: owner})
    held = found["gpuscope_process_memory_bytes"]
    assert [(labels["pid"], value) for labels, value in held] == [("7", 2**31), ("8", 5.0)]
    first, second = held[0][0], held[1][0]
    assert (first["container"], first["slurm_job_id"]) == ("0123456789ab", "4711")
    assert (first["pod"], first["namespace"]) == ("trainer-0", "ml")
    assert second["container"] == second["slurm_job_id"] == ""


def test_names_that_others_choose_are_harmless_labels() -> None:
    """Half a character in one process's name must not spoil the whole scrape either."""
    evil = "a\x1b[2J\u202e\n\udcff"
    shown = "a\\x1b[2J\\u202e\\n\\udcff"
    found = given(
        one(device(processes=(ProcessUse(7, evil, 2**30),)), host=evil),
        find_owners=lambda every: {7: Owner(evil, evil, evil, evil)},
    )
    ((labels, _),) = found["gpuscope_process_memory_bytes"]
    assert {labels[name] for name in ("process", "container", "slurm_job_id", "pod", "host")} == {
        shown
    }


def test_devices_of_one_index_do_not_spoil_the_scrape() -> None:
    twice = given(one(device(0), device(0), device(1)))
    assert [labels["index"] for labels, _ in twice["gpuscope_device_power_watts"]] == ["0", "1"]


def test_hosts_stand_side_by_side_and_the_newest_counts() -> None:
    older, newer = one(), one(device(power_w=10.0))
    found = given(older, one(host="node2"), newer)["gpuscope_device_power_watts"]
    assert {labels["host"]: value for labels, value in found} == {"node1": 10.0, "node2": 600.0}


def test_odd_names_are_escaped() -> None:
    odd = replace(device(), info=replace(device().info, name='a"b\\c\nd'))
    with Exporter(":0") as exporter:
        exporter.update([one(odd)])
        found = series(scrape(exporter))
    assert found["gpuscope_device_power_watts"][0][0]["name"] == 'a"b\\c\\nd'


def test_old_figures_are_not_given() -> None:
    now = [100.0]
    collector = Collector(30.0, clock=lambda: now[0])
    collector.update(one())
    assert "gpuscope_device_power_watts" in {family.name for family in collector.collect()}
    now[0] += 31
    assert {family.name for family in collector.collect()} == {"gpuscope_exporter_info"}


def test_the_exporter_tells_what_it_costs() -> None:
    assert "process_cpu_seconds_total" in given(one())


def test_a_source_is_asked_at_its_pace_until_it_ends() -> None:
    seen: list[tuple[Sample, ...]] = []
    answers = [(one(device(power_w=float(watts))),) for watts in range(5)]
    with Exporter(":0", Given(answers), on_samples=seen.append) as exporter:
        assert exporter.wait(5)
        last = series(scrape(exporter))["gpuscope_device_power_watts"][0][1]
    assert (len(seen), last) == (5, 4.0)


def test_a_source_that_fails_is_told_to_who_waits() -> None:
    source = Given([(one(),), GpuscopeError("gone")])
    with Exporter(":0", source) as exporter, pytest.raises(GpuscopeError, match="gone"):
        exporter.wait(5)


def test_waiting_ends_in_time() -> None:
    with Exporter(":0", Given([(one(),)] * 1000, interval_s=1.0)) as exporter:
        begin = time.monotonic()
        assert not exporter.wait(0.2)
        assert time.monotonic() - begin < 5


def test_serving_ends_with_its_source_and_frees_the_port() -> None:
    addresses: list[Address] = []
    serve(":0", Given([(one(),)] * 3), ready=lambda exporter: addresses.append(exporter.address))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(addresses[0].url, timeout=1)


def test_it_listens_to_this_machine_alone() -> None:
    with Exporter(":0") as exporter:
        assert exporter.address.host == "127.0.0.1"
        outer = socket.gethostbyname(socket.gethostname())
        if not outer.startswith("127."):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((outer, exporter.address.port), timeout=1)


def test_a_taken_port_is_told() -> None:
    with Exporter(":0") as first:
        with pytest.raises(InvalidValueError, match="Cannot listen on") as told:
            Exporter(f":{first.address.port}").start()
        assert "--serve" in told.value.next_step
    with pytest.raises(InvalidValueError):
        Exporter("203.0.113.1:0").start()  # TEST-NET-3 (RFC 5737): no address of ours


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9400", "127.0.0.1", 9400),
        ("9401", "127.0.0.1", 9401),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:9", "::1", 9),
        ("node1", "node1", 9400),
        ("localhost:0", "localhost", 0),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize("text", [":x", "a:70000", "a b:1", "http://a:1", ":-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidValueError, match="not an address"):
        parse_address(text)


def test_opening_it_to_others_is_warned_of() -> None:
    assert warning_of(parse_address(":9400")) is None
    assert warning_of(parse_address("localhost:9400")) is None
    assert warning_of(parse_address("[::1]:9400")) is None
    warning = warning_of(parse_address("0.0.0.0:9400"))
    assert warning is not None
    assert "password" in warning
    assert "密码" in render(warning, "zh")
    assert Address("::", 1).url == "http://[::]:1/metrics"


def test_without_the_client_library_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(module, "require_package", _absent)
    with pytest.raises(GpuscopeError, match="exporter"):
        Exporter(":0")


def _absent(package: str, needed_for: str, extra: str) -> None:
    from gpuscope.errors import MissingPackageError

    raise MissingPackageError(package, needed_for, extra)


def test_a_scrape_is_cheap() -> None:
    """Sixty-four devices with processes: some milliseconds, and no device is asked."""
    devices = tuple(device(index) for index in range(64))
    collector = Collector(30.0)
    collector.update(one(*devices), [Verdict("busy", HEADS["busy"], Text(""), 1.0)] * 64)
    begin = time.process_time()
    for _ in range(5):
        assert len(list(collector.collect())) > 20
    assert (time.process_time() - begin) / 5 < 0.1
