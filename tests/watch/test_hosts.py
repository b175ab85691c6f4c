"""Other hosts, read from what our own exporter writes."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from watch_samples import device, idle, samples, training

from gpuscope.errors import InvalidValueError

pytest.importorskip("prometheus_client")

from gpuscope.watch.exporter import Exporter
from gpuscope.watch.hosts import Hosts, fetch_text, read_exposition, url_of
from gpuscope.watch.types import Sample


def exposed(*taken: Sample) -> str:
    """What an exporter gives for these samples, over real HTTP."""
    with Exporter("127.0.0.1:0") as exporter:
        exporter.update(taken)
        return fetch_text(exporter.address.url)


def bare(sample: Sample) -> Sample:
    """Without what cannot cross: the clocks' zero, notes."""
    devices = tuple(replace(d, reading=replace(d.reading, time_s=0.0)) for d in sample.devices)
    return replace(sample, devices=devices)


def test_a_sample_crosses_the_wire_whole() -> None:
    sent = samples(lambda n: [training(n, 0), idle(n, 3)], 1)[0]
    (came,) = read_exposition(exposed(sent))
    assert bare(came) == bare(sent)


def test_reasons_and_absences_cross_too() -> None:
    held = device(throttle_reasons=("software power cap",), throttled_s={"power": 3.0})
    blind = device(1, None, power_w=None, utilisation=None, throttle_reasons=None)
    (came,) = read_exposition(exposed(samples(lambda n: [held, blind], 1, host_cpu=None)[0]))
    assert came.devices[0].reading.throttle_reasons == ("software power cap",)
    assert came.devices[0].reading.throttled_s == {"power": 3.0}
    assert came.devices[1].reading.power_w is None
    assert came.devices[1].reading.throttle_reasons is None
    assert came.devices[1].activity.sm is None
    assert came.host_cpu is None


def test_hosts_are_asked_together_and_one_that_is_down_is_told() -> None:
    text = exposed(samples(training, 1, host="a")[0])
    asked: list[str] = []
    all_asked = threading.Barrier(3, timeout=30)

    def fetch(url: str) -> str:
        asked.append(threading.current_thread().name)
        all_asked.wait()
        if "down" in url:
            raise OSError("connection refused")
        if "other" in url:
            return "# TYPE node_load1 gauge\nnode_load1 0.5\n# EOF\n"
        return text

    hosts = Hosts(["a:9400", "down", "other:9100"], fetch=fetch)
    found = hosts.read()
    assert len(set(asked)) == 3
    assert [sample.host for sample in found] == ["a"]
    assert hosts.notes == ("down: connection refused", "other:9100: no samples of gpuscope")
    hosts.close()


def test_what_is_no_exposition_is_told() -> None:
    hosts = Hosts(["a"], fetch=lambda url: "<html>")
    assert hosts.read() == ()
    assert hosts.notes[0].startswith("a: ")
    hosts.close()


def test_a_closed_port_is_told() -> None:
    with Exporter("127.0.0.1:0") as exporter:
        port = exporter.address.port
    hosts = Hosts([f"127.0.0.1:{port}"])
    assert hosts.read() == ()
    assert hosts.notes == (f"127.0.0.1:{port}: Connection refused",)
    hosts.close()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("a", "http://a:9400/metrics"),
        ("a:9401", "http://a:9401/metrics"),
        ("[::1]:9400", "http://[::1]:9400/metrics"),
        ("[::1]", "http://[::1]:9400/metrics"),
        ("https://x/metrics", "https://x/metrics"),
        ("http://x:1/", "http://x:1/metrics"),
    ],
)
def test_addresses(address: str, url: str) -> None:
    assert url_of(address) == url


@pytest.mark.parametrize("address", ["", ":9400", "a:b", "a:99999", "a b", "user@a:1", "file:///x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidValueError):
        url_of(address)


def test_no_host_or_no_interval_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        Hosts([])
    with pytest.raises(InvalidValueError):
        Hosts(["a"], interval_s=0.0)
