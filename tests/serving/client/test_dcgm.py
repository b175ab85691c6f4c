"""DCGM's exporter beside a server: watts and joules by hand, and pages that are none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from fake_server import Server, running

from gpuscope.serving.client import dcgm
from gpuscope.serving.client.dcgm import Moment, mean_power_w, read_moment, summed_up
from gpuscope.serving.client.failure import ServerError
from gpuscope.serving.client.load_test import load_test

pytest.importorskip("prometheus_client")

LABELS = 'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H200",Hostname="h"'


def page(joules: float, devices: int = 2, watts: float = 500.0) -> str:
    """As the exporter writes it; equal devices."""
    fields = {
        (dcgm.POWER, "gauge"): watts,
        (dcgm.ENERGY, "counter"): joules * 1e3,
        (dcgm.BUSY, "gauge"): 75,
        (dcgm.USED, "gauge"): 1024,
        ("DCGM_FI_DEV_SM_CLOCK", "gauge"): 1980,
    }
    lines = []
    for (name, kind), value in fields.items():
        lines += [f"# HELP {name} Words (in units).", f"# TYPE {name} {kind}"]
        lines += [f"{name}{{{LABELS.format(gpu=gpu)}}} {value}" for gpu in range(devices)]
    return "\n".join([*lines, ""])


@contextmanager
def exporting(text: Callable[[], str], headers: list[dict[str, str]]) -> Iterator[str]:
    """A real server of such pages; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(dict(self.headers))
            body = text().encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def load(url: str) -> Any:
    with running(Server()) as server:
        return load_test(server.url, rate=40, count=24, input=24, output=6, dcgm=url)


@pytest.mark.parametrize("ending", ["", "/metrics"])
def test_joules_are_the_counters_growth(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm, "EVERY_S", 0.02)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    seen: list[dict[str, str]] = []
    # The exporter looks each 50 ms: 300 W a device by its counter, whatever the gauge says.
    with exporting(lambda: page(1e6 + time.perf_counter() // 0.05 * 0.05 * 300), seen) as url:
        found = load(url + ending)
    told = found.server
    assert told["device_power_w"] == pytest.approx(600, rel=0.2)
    assert (told["devices"], told["device_busy"]) == (2, 0.75)
    assert told["device_memory_bytes"] == 2 * 2**30
    span_s = found.energy_j / told["device_power_w"]
    served = found.served
    assert served.finished_s.max() - 0.05 <= span_s <= served.finished_s.max() + 1
    assert not any("secret" in str(each) for each in seen)


def test_a_counter_that_stood_still_has_no_joules() -> None:
    with exporting(lambda: page(1e6), []) as url:
        found = load(url)
    assert found.energy_j is None
    assert found.server["device_power_w"] == 1000  # by the gauges
    assert any("--collect-interval 1000" in note for note in found.notes)


@pytest.mark.parametrize("text", ["", "<html>", "# TYPE a gauge\na 1\n"])
def test_what_is_no_exporter(text: str) -> None:
    with exporting(lambda: text, []) as url, pytest.raises(ServerError, match="no device") as told:
        load(url)
    assert f"curl {url}/metrics" in told.value.next_step


def test_nobody_there() -> None:
    with pytest.raises(ServerError, match="connection failed"):
        load("http://127.0.0.1:9")


def at(*joules: float, devices: int = 1) -> list[Moment]:
    """A page each 10 s."""
    return [read_moment(10.0 * n, page(each, devices)) for n, each in enumerate(joules)]


def test_power_is_between_the_moments_at_which_the_counter_moved() -> None:
    # Moved at 20 s and at 50 s; the growth at 20 s is of a time before, of unknown length.
    assert mean_power_w(at(0, 0, 9000, 9000, 9000, 24000)) == pytest.approx(15000 / 30)


def test_power_that_is_not_known() -> None:
    assert mean_power_w([]) is None
    assert mean_power_w(at(5, 5, 9, 9)) is None
    assert mean_power_w(at(5, 9, 2, 7)) is None  # set back
    assert mean_power_w(at(1, 2, 3) + at(9, devices=2)) is None


def test_blank_values_and_slices() -> None:
    text = page(1, 1).replace("75", "9223372036854775794")
    assert dcgm.BUSY not in read_moment(0, text).values
    slices = "".join(
        f'{name}{{gpu="0",UUID="GPU-0",GPU_I_ID="{n}"}} {value}\n'
        for name, value in ((dcgm.POWER, 400), (dcgm.USED, 10))
        for n in (1, 2)
    )
    told = summed_up([read_moment(0, slices)])
    assert told["device_power_w"] == 400  # one device, told of twice
    assert told["device_memory_bytes"] == 20 * 2**20
    assert "device_busy" not in told
