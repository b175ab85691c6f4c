"""OTLP messages: a real exporter's, our own by hand in both forms, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from otlp_bytes import LATENCY, as_json, latencies, protobuf

from gpuscope.document.typed import MisfitError
from gpuscope.serving.client.spans import JSON, PROTOBUF, read_spans

TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
FORMS = pytest.mark.parametrize(("kind", "form"), [(PROTOBUF, protobuf), (JSON, as_json)])


def test_what_opentelemetrys_exporter_sent() -> None:
    """Recorded from opentelemetry-exporter-otlp-proto-http 1.45.2, attributes as vLLM sets them."""
    recorded = Path(__file__).parents[2] / "data" / "otlp" / "sdk_1.45.2.bin"
    (span,) = read_spans(recorded.read_bytes(), PROTOBUF)
    assert span.trace == TRACE
    assert span.figures[LATENCY + "time_in_queue"] == 0.0625
    assert span.figures[LATENCY + "e2e"] == 1.5
    assert span.figures["gen_ai.usage.prompt_tokens"] == 512
    assert span.figures["gen_ai.request.temperature"] == 0
    assert "gen_ai.request.id" not in span.figures  # is no number


@FORMS
def test_both_forms_say_the_same(kind: str, form: type) -> None:
    told = {**latencies(0.25, 0.5, 2.0, 1.0), "gen_ai.usage.n": 7, "other.x": 1, "gen_ai.id": "a"}
    (span,) = read_spans(form(TRACE, told), kind)
    assert span.trace == TRACE
    assert span.figures == {**latencies(0.25, 0.5, 2.0, 1.0), "gen_ai.usage.n": 7}


@FORMS
def test_no_number_is_no_figure(kind: str, form: type) -> None:
    told = {"gen_ai.a": float("inf"), "gen_ai.b": float("nan"), "gen_ai.c": "1 s"}
    (span,) = read_spans(form(TRACE, told), kind)
    assert span.figures == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"resourceSpans": 3}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}',
        "[" * 100_000,
        "\ud800",
    ],
)
def test_what_is_no_json_of_otlp(text: str) -> None:
    with pytest.raises(MisfitError):
        read_spans(text.encode("utf-8", "surrogatepass"), JSON)


def test_damaged_messages_are_refused_or_read() -> None:
    """Whatever comes, there is an answer: no other error, no end of the machine's memory."""
    good = protobuf(TRACE, latencies(0.25, 0.5, 2.0, 1.0)) * 3
    random, refused = Random(2026), 0
    for _ in range(2000):
        bad = bytearray(good)
        for _ in range(random.randint(1, 6)):
            bad[random.randrange(len(bad))] = random.randrange(256)
        body = bytes(bad[: random.randint(1, len(bad))])
        for kind in (PROTOBUF, JSON):
            try:
                read_spans(body, kind)
            except MisfitError:
                refused += 1
    assert refused > 2000
