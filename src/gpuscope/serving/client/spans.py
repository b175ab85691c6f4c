"""Spans of OpenTelemetry as OTLP carries them, in protobuf or JSON: which trace, which figures.

Of a span only its trace and its attributes named "gen_ai." that are numbers are read. Fields are
those of `ExportTraceServiceRequest` (opentelemetry-proto 1.x), which no package need be installed
for; what is damaged anywhere is no message at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.document.wire import fields, real, whole, within, words

PROTOBUF, JSON = "application/x-protobuf", "application/json"
"""Content types of OTLP over HTTP."""

_NAMES = "gen_ai."

_RESOURCES, _SCOPES, _SPANS = 1, 2, 2
_TRACE, _ATTRIBUTES = 1, 9
_KEY, _VALUE = 1, 2
_WHOLE, _REAL = 3, 4
"""Numbers of the fields in protobuf."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is read of one.

    Attributes:
        trace: identity of its trace, 16 bytes.
        figures: attributes that are numbers, by name: "gen_ai.latency.time_in_queue" (s), ...
    """

    trace: bytes
    figures: dict[str, float]


class _Any(msgspec.Struct, gc=False, rename="camel"):
    int_value: int | str | None = None
    double_value: float | str | None = None


class _Attribute(msgspec.Struct, gc=False):
    key: str = ""
    value: _Any | None = None


class _Span(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str = ""
    attributes: list[_Attribute] | None = None


class _Scope(msgspec.Struct, gc=False):
    spans: list[_Span] | None = None


class _Resource(msgspec.Struct, gc=False, rename="camel"):
    scope_spans: list[_Scope] | None = None


class _Message(msgspec.Struct, gc=False, rename="camel"):
    resource_spans: list[_Resource] | None = None


_DECODER = msgspec.json.Decoder(_Message)


def read_spans(body: bytes, kind: str) -> list[Span]:
    """The spans of a message.

    Args:
        body: of the HTTP request, unpacked.
        kind: its content type, `PROTOBUF` or `JSON`.

    Raises:
        MisfitError: it is no such message.
    """
    return list(_of_json(body) if kind == JSON else _of_protobuf(body))


def _of_protobuf(body: bytes) -> Iterator[Span]:
    for resource in _each(fields(body), _RESOURCES):
        for scope in _each(within(resource), _SCOPES):
            for span in _each(within(scope), _SPANS):
                trace = b""
                found: dict[str, float] = {}
                for number, value in within(span):
                    if number == _TRACE and isinstance(value, bytes):
                        trace = value
                    elif number == _ATTRIBUTES:
                        _attribute(value, found)
                yield Span(trace, found)


def _each(message: Iterable[tuple[int, int | bytes]], wanted: int) -> Iterator[int | bytes]:
    return (value for number, value in message if number == wanted)


def _attribute(pair: int | bytes, found: dict[str, float]) -> None:
    name, value = "", None
    for number, part in within(pair):
        if number == _KEY:
            name = words(part)
            if not name.startswith(_NAMES):
                return
        elif number == _VALUE:
            value = _figure_of(part)
    _keep(found, name, value)


def _figure_of(value: int | bytes) -> float | None:
    for number, part in within(value):
        if number == _WHOLE:
            return float(whole(part))
        if number == _REAL:
            return real(part)
    return None


def _of_json(body: bytes) -> Iterator[Span]:
    try:
        message = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MisfitError("", Text("no JSON of OTLP")) from error
    for resource in message.resource_spans or ():
        for scope in resource.scope_spans or ():
            for span in scope.spans or ():
                yield Span(_bytes(span.trace_id), _figures(span))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _figures(span: _Span) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in span.attributes or ():
        if each.value is None:
            continue
        whole_one, real_one = each.value.int_value, each.value.double_value
        told = real_one if whole_one is None else whole_one
        try:
            _keep(found, each.key, None if told is None else float(told))
        except (ValueError, OverflowError):
            continue
    return found


def _keep(found: dict[str, float], name: str, value: float | None) -> None:
    if name.startswith(_NAMES) and value is not None and math.isfinite(value):
        found.setdefault(name, value)
