"""Messages of OTLP by hand, from the wire format's own rules."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from http.client import HTTPConnection

LATENCY = "gen_ai.latency."


def sized(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def value(of: float | str) -> bytes:
    if isinstance(of, str):
        return sized(1, of.encode())
    if isinstance(of, int):
        return varint(3 << 3) + varint(of)
    return varint(4 << 3 | 1) + struct.pack("<d", of)


def protobuf(trace: bytes, attributes: Mapping[str, float | str]) -> bytes:
    pairs = b"".join(
        sized(9, sized(1, name.encode()) + sized(2, value(each)))
        for name, each in attributes.items()
    )
    span = sized(1, trace) + sized(5, b"llm_request") + varint(7 << 3 | 1) + bytes(8) + pairs
    return sized(1, sized(2, sized(1, b"scope") + sized(2, span)))


def as_json(trace: bytes, attributes: Mapping[str, float | str]) -> bytes:
    def told(of: float | str) -> dict[str, object]:
        if isinstance(of, str):
            return {"stringValue": of}
        if isinstance(of, int):
            return {"intValue": str(of)}
        return {"doubleValue": of if math.isfinite(of) else str(of)}

    pairs = [{"key": name, "value": told(each)} for name, each in attributes.items()]
    span = {"traceId": trace.hex(), "spanId": "00" * 8, "name": "x", "attributes": pairs}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def latencies(queue: float, prefill: float, decode: float, first: float) -> dict[str, float]:
    """As vLLM names them."""
    return {
        LATENCY + "time_in_queue": queue,
        LATENCY + "time_in_model_prefill": prefill,
        LATENCY + "time_in_model_decode": decode,
        LATENCY + "time_to_first_token": first,
    }


def post(
    port: int, body: bytes, kind: str = "application/x-protobuf", how: str = "", to: str = "/"
) -> int:
    """Send one; the status of the answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Content-Type": kind, **({"Content-Encoding": how} if how else {})}
    try:
        connection.request("POST", to, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
