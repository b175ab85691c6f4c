"""The few figures that say what a machine reaches. Pure: from points alone, nothing assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuscope.measurement.bench.types import BenchResult, Point, Value

PER_S_FLOPS, PER_S_BYTES, SECONDS, WATTS, HERTZ, TIMES = (
    "flops_per_s",
    "bytes_per_s",
    "s",
    "w",
    "hz",
    "x",
)

LARGE_BYTES = 1 << 28
"""Copies at least this large show a link's rate."""

FROM_MEMORY_MIB = 1024
"""A working set at least this large comes from device memory on any current device."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the card.

    Attributes:
        key: what it is ("matmul", "memory", "link", "power", "dispatch", ...).
        value: in `unit`.
        unit: "flops_per_s", "bytes_per_s", "s", "w", "hz" or "x" (times as long).
        fraction: of the physical limit; None if there is no stated one.
        detail: which of its kind ("dtype", "op", sizes).
    """

    key: str
    value: float
    unit: str
    fraction: float | None = None
    detail: Mapping[str, Value] = field(default_factory=dict)


def figures(result: BenchResult) -> tuple[Figure, ...]:
    """Return the figures that the result allows, in the order in which a card shows them."""
    return tuple(
        figure
        for part in (
            _matmul,
            _attention,
            _convolution,
            _memory,
            _cache,
            _links,
            _beside,
            _peer,
            _power,
            _host,
            _collectives,
        )
        for figure in part(result)
    )


def _best(
    points: Iterable[Point], rate: Callable[[Point], float | None], *names: str
) -> Iterator[tuple[Point, float, dict[str, Value]]]:
    """The fastest point of each combination of params, in the order of their first appearance."""
    best: dict[tuple[Value, ...], tuple[Point, float]] = {}
    for point in points:
        found = rate(point)
        key = tuple(point.params.get(name, "") for name in names)
        if found is not None and (key not in best or found > best[key][1]):
            best[key] = (point, found)
    for key, (point, found) in best.items():
        yield point, found, dict(zip(names, key, strict=True))


def _flops(point: Point) -> float | None:
    return point.flops_per_s


def _bytes(point: Point) -> float | None:
    return point.bytes_per_s


def _matmul(result: BenchResult) -> Iterator[Figure]:
    products = [p for p in result.of("matmul") if p.family in ("mm", "scaled_mm", "int_mm")]
    for point, rate, detail in _best(products, _flops, "dtype"):
        sizes = {name: point.params[name] for name in ("m", "n", "k")}
        yield Figure("matmul", rate, PER_S_FLOPS, point.fraction, {**detail, **sizes})


def _attention(result: BenchResult) -> Iterator[Figure]:
    default = [
        p
        for p in result.of("attention")
        if p.params.get("backend") == "default"
        and p.params.get("dtype") == "bf16"
        and p.params.get("sq") != 1
    ]
    for point, rate, detail in _best(default, _flops, "dir", "dtype"):
        sizes = {name: point.params[name] for name in ("b", "h", "sq", "d", "causal")}
        yield Figure("attention", rate, PER_S_FLOPS, point.fraction, {**detail, **sizes})
    decode = [p for p in result.of("attention") if p.params.get("sq") == 1 and p.state == "cold"]
    for point, rate, detail in _best(decode, _bytes, "dtype"):
        if detail["dtype"] == "bf16":
            sizes = {name: point.params[name] for name in ("b", "h", "hkv", "skv", "d")}
            yield Figure("decode", rate, PER_S_BYTES, point.fraction, {**detail, **sizes})


def _convolution(result: BenchResult) -> Iterator[Figure]:
    for point, rate, detail in _best(result.of("convolution", "conv2d"), _flops, "dtype", "layout"):
        yield Figure(
            "convolution", rate, PER_S_FLOPS, point.fraction, {**detail, "dir": point.params["dir"]}
        )


def _memory(result: BenchResult) -> Iterator[Figure]:
    large = [p for p in result.of("memory") if float(p.params.get("mib", 0)) >= FROM_MEMORY_MIB]
    for point, rate, detail in _best(large, _bytes, "op"):
        yield Figure(
            "memory", rate, PER_S_BYTES, point.fraction, {**detail, "mib": point.params["mib"]}
        )


def _cache(result: BenchResult) -> Iterator[Figure]:
    cache = float(result.machine.get("l2_bytes", 0)) / 2**20
    inside = [
        p for p in result.of("memory") if p.state == "hot" and float(p.params["mib"]) <= cache
    ]
    for point, rate, detail in _best(inside, _bytes, "op"):
        yield Figure("cache", rate, PER_S_BYTES, None, {**detail, "mib": point.params["mib"]})


def _links(result: BenchResult) -> Iterator[Figure]:
    large = [
        p
        for p in result.of("transfers", "transfer")
        if float(p.params.get("bytes", 0)) >= LARGE_BYTES and p.params.get("op") != "d2d"
    ]
    for point, rate, detail in _best(large, _bytes, "op"):
        yield Figure(
            "link", rate, PER_S_BYTES, point.fraction, {**detail, "bytes": point.params["bytes"]}
        )


def _beside(result: BenchResult) -> Iterator[Figure]:
    """How much longer matrix products take while a copy runs."""
    products = [
        p
        for p in result.of("transfers", "transfer_beside_compute")
        if p.params.get("timed") == "kernels"
    ]
    alone = next((p for p in products if p.params.get("copy") == "none"), None)
    for point in products:
        if alone is not None and point is not alone and alone.median_s and point.median_s:
            ratio = point.median_s / alone.median_s
            yield Figure("beside_copy", ratio, TIMES, None, {"copy": point.params["copy"]})


def _peer(result: BenchResult) -> Iterator[Figure]:
    large = [p for p in result.of("peer") if float(p.params.get("bytes", 0)) >= LARGE_BYTES]
    for point, rate, detail in _best(large, _bytes, "op", "here", "there"):
        yield Figure("peer", rate, PER_S_BYTES, point.fraction, detail)


def _power(result: BenchResult) -> Iterator[Figure]:
    for point in result.of("power", "power"):
        load, duty = point.params.get("load", ""), point.params.get("duty", 1.0)
        watts = point.values.get("power_w")
        if duty != 1.0 or load not in ("idle_with_context", "matmul_bf16", "copy_hbm"):
            continue
        if watts is not None:
            yield Figure("power", watts, WATTS, None, {"load": load})
        if load == "matmul_bf16":
            if point.flops_per_s is not None:
                yield Figure(
                    "sustained", point.flops_per_s, PER_S_FLOPS, point.fraction, {"dtype": "bf16"}
                )
            if point.sm_clock_hz is not None:
                yield Figure("clock", point.sm_clock_hz, HERTZ, None, {"load": load})


DISPATCHED = ("add", "linear")
"""Operators whose host cost is shown."""


def _host(result: BenchResult) -> Iterator[Figure]:
    for point in result.of("host", "op"):
        name, variant = point.params.get("name", ""), point.params.get("variant", "")
        if name in DISPATCHED and point.median_s is not None:
            detail: dict[str, Value] = {"name": name, "variant": variant}
            yield Figure("dispatch", point.median_s, SECONDS, None, detail)
    for point in result.of("launch", "launch_latency"):
        if point.params.get("name") == "add_" and point.params.get("variant") == "idle":
            yield Figure("launch", point.median_s or 0.0, SECONDS, None, {})


def _collectives(result: BenchResult) -> Iterator[Figure]:
    best: dict[tuple[str, Value], tuple[float, Point]] = {}
    for point in result.of("collectives"):
        rate = point.values.get("bus_bytes_per_s")
        key = (point.family, point.params.get("ranks", ""))
        if rate is not None and (key not in best or rate > best[key][0]):
            best[key] = (rate, point)
    for (operation, ranks), (rate, point) in best.items():
        detail: dict[str, Value] = {
            "operation": operation,
            "ranks": ranks,
            "bytes": point.params.get("bytes", ""),
        }
        yield Figure("collective", rate, PER_S_BYTES, point.fraction, detail)
