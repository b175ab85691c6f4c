"""Requests matched with the server's spans of them, through a run on a server of our own."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from threading import Thread

import numpy as np
import pytest
from fake_server import Server, running
from otlp_bytes import as_json, latencies, post, protobuf
from test_receiver import free_port

from gpuscope.serving.client import traced
from gpuscope.serving.client.load_test import load_test
from gpuscope.serving.client.spans import JSON, PROTOBUF
from gpuscope.serving.document import load_serving, save_serving
from gpuscope.serving.result import Serving
from gpuscope.views.load import load_blocks
from gpuscope.views.terminal import make_console
from gpuscope.views.terminal.blocks.render import render_block


def loaded(
    answered: Callable[[int, bytes], None], behaviour: str = "good", every: int = 1
) -> Serving:
    """A run of 40 requests; at each answer the server's side is told port and trace."""
    port = free_port()

    def told(header: str) -> None:
        if header:
            answered(port, bytes.fromhex(header.split("-")[1]))

    server = Server(behaviour=behaviour, every=every, after=1, answered=told)
    with running(server):
        return load_test(server.url, rate=100, count=40, input=24, output=6, otlp=port)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced, "WAIT_S", 0.6)


def shown(found: Serving) -> str:
    stream = io.StringIO()
    console = make_console(stream)
    for block in load_blocks(found):
        console.print(render_block(block, "en"))
    return stream.getvalue()


@pytest.mark.parametrize("form", [protobuf, as_json])
def test_server_and_client_are_told_apart(form: Callable[..., bytes], tmp_path: object) -> None:
    kind = PROTOBUF if form is protobuf else JSON
    seen: list[int] = []

    def export(port: int, trace: bytes) -> None:
        row = int.from_bytes(trace[8:], "big")
        seen.append(row)
        times = latencies(row * 1e-5, 2**-12, 2**-9, row * 1e-5 + 2**-11)
        assert post(port, form(trace, times), kind, to="/v1/traces") == 200

    found = loaded(export)
    served = found.served
    assert sorted(seen) == list(range(40))
    assert served.queue_s == pytest.approx(np.arange(40) * 1e-5)
    assert set(served.prefill_s.tolist()) == {2**-12}
    assert set(served.decode_s.tolist()) == {2**-9}
    assert served.front_s == pytest.approx(2**-12)
    assert not any("span" in note for note in found.notes)
    save_serving(found, tmp_path / "run.json")  # type: ignore[operator]
    again = load_serving(tmp_path / "run.json").served  # type: ignore[operator]
    assert again.front_s.tolist() == served.front_s.tolist()
    text = shown(found)
    assert "By the server's spans, 40 requests" in text
    assert "outside the server" in text


def test_spans_that_come_late_are_waited_for() -> None:
    threads: list[Thread] = []

    def later(port: int, trace: bytes) -> None:
        def send() -> None:
            traced.time.sleep(0.3)
            post(port, protobuf(trace, latencies(0.0, 2**-12, 2**-9, 2**-10)))

        threads.append(Thread(target=send))
        threads[-1].start()

    assert np.isfinite(loaded(later).served.queue_s).all()
    for each in threads:
        each.join()


def test_no_span_says_how_to_start_the_server() -> None:
    found = loaded(lambda port, trace: None)
    assert not len(found.served.queue_s)
    assert any("--otlp-traces-endpoint http://127.0.0.1:" in note for note in found.notes)
    assert "spans" not in shown(found)


def test_grpc_is_told_to_be_http() -> None:
    def export(port: int, trace: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port), 10) as stream:
            stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

    found = loaded(export)
    assert any("speaks gRPC" in note for note in found.notes)
    assert not any("messages to --otlp" in note for note in found.notes)


def test_other_traces_spans_are_none_of_ours() -> None:
    found = loaded(
        lambda port, trace: post(port, protobuf(trace[::-1], latencies(0, 0, 0, 0))) and None
    )
    assert any("traceparent" in note for note in found.notes)


def test_what_cannot_be_is_left_out_and_told() -> None:
    def export(port: int, trace: bytes) -> None:
        row = int.from_bytes(trace[8:], "big")
        if row == 0:
            return
        if row == 1:
            post(port, b"\xff\xff\xff")
            post(port, b"", "text/plain")
        queue = {2: -1.0, 3: 1e6}.get(row, 2**-12)
        post(port, protobuf(trace, latencies(queue, 2**-12, 2**-9, 2**-10)))
        post(port, protobuf(trace, latencies(9.0, 9.0, 9.0, 9.0)))  # the first one holds

    found = loaded(export)
    known = np.isfinite(found.served.queue_s)
    assert np.flatnonzero(~known).tolist() == [0, 2, 3]
    assert set(found.served.queue_s[known].tolist()) == {2**-12}
    told = " ".join(found.notes)
    assert "3 finished requests have no span" in told
    assert "2 spans name times" in told
    assert "2 messages to --otlp" in told


def test_failed_requests_keep_their_rows() -> None:
    def export(port: int, trace: bytes) -> None:
        post(port, protobuf(trace, latencies(2**-12, 2**-12, 2**-9, 2**-10)))

    found = loaded(export, behaviour="500", every=5)
    failed = found.served.status != 0
    assert 0 < failed.sum() < 20
    assert np.isnan(found.served.queue_s[failed]).all()
    assert np.isfinite(found.served.queue_s[~failed]).all()


def test_without_it_nothing_is_sent() -> None:
    seen: list[str] = []
    server = Server(answered=seen.append)
    with running(server):
        load_test(server.url, concurrency=2, count=4, input=8, output=2)
    assert set(seen) == {""}


def test_opentelemetrys_own_exporter() -> None:
    """Spans made, batched and sent as vLLM does it."""
    http = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    made: list[TracerProvider] = []

    def export(port: int, trace: bytes) -> None:
        if not made:
            made.append(TracerProvider())
            to = http.OTLPSpanExporter(
                f"http://127.0.0.1:{port}/v1/traces", compression=http.Compression.Gzip
            )
            made[0].add_span_processor(BatchSpanProcessor(to, schedule_delay_millis=100))
        parent = TraceContextTextMapPropagator().extract(
            {"traceparent": f"00-{trace.hex()}-{'1' * 16}-01"}
        )
        tracer = made[0].get_tracer("vllm.llm_engine")
        with tracer.start_as_current_span("llm_request", context=parent) as span:
            for name, value in latencies(0.0, 2**-12, 2**-9, 2**-11).items():
                span.set_attribute(name, value)

    found = loaded(export)
    made[0].shutdown()
    assert set(found.served.front_s.tolist()) == {2**-12}
