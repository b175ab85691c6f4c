"""How kernels are joined to calls and summed up, on small made-up traces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuscope.measurement.bench.trace_kernels import DeviceEvent, events_by_range, summarise


def _range(name: str, start: float, duration: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": duration}


def _launch(correlation: int, start: float, category: str = "cuda_runtime") -> dict[str, Any]:
    args = {"correlation": correlation, "cbid": 211}
    return {"ph": "X", "cat": category, "name": "launch", "ts": start, "dur": 1, "args": args}


def _kernel(
    name: str, correlation: int, start: float, duration: float, category: str = "kernel"
) -> dict[str, Any]:
    args = {
        "correlation": correlation,
        "grid": [2, 66, 1],
        "block": [384, 1, 1],
        "registers per thread": 168,
        "shared memory": 1024,
        "est. achieved occupancy %": 12,
    }
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": args}


def _joined(*events: dict[str, Any]) -> dict[str, list[DeviceEvent]]:
    return events_by_range(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())


def test_a_kernel_belongs_to_the_range_of_its_launch_not_of_its_run() -> None:
    found = _joined(
        _range("@0:0", 100, 20),
        _range("@0:1", 200, 20),
        _launch(1, 110),
        _launch(2, 150),
        _launch(3, 210, "cuda_driver"),
        # all run while the second range is open on the host
        _kernel("first", 1, 201, 5),
        _kernel("flush", 2, 207, 5),
        _kernel("second", 3, 214, 5),
    )
    assert [e.name for e in found["@0:0"]] == ["first"]
    assert [e.name for e in found["@0:1"]] == ["second"]
    (first,) = found["@0:0"]
    assert first.duration_s == pytest.approx(5e-6)
    assert first.category == "kernel"
    assert first.arguments.registers == 168
    assert first.arguments.occupancy == 12


def test_the_earlier_of_runtime_and_driver_records_counts_as_the_launch() -> None:
    found = _joined(
        _range("@0:0", 100, 20),
        _launch(1, 119),
        _launch(1, 121, "cuda_driver"),
        _kernel("k", 1, 300, 5),
    )
    assert len(found["@0:0"]) == 1


def test_what_was_launched_outside_any_range_or_by_nobody_is_left_out() -> None:
    found = _joined(
        _range("@0:0", 100, 20),
        _range("step", 300, 20),
        _launch(1, 305),
        _launch(2, 121),
        _kernel("other range", 1, 306, 1),
        _kernel("after", 2, 122, 1),
        _kernel("lost", 9, 110, 1),
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    )
    assert found == {"@0:0": []}


def test_copies_and_memsets_are_told_apart() -> None:
    found = _joined(
        _range("@0:0", 100, 20),
        _launch(1, 101),
        _launch(2, 102),
        _kernel("Memcpy HtoD", 1, 110, 4, "gpu_memcpy"),
        _kernel("Memset", 2, 115, 1, "gpu_memset"),
    )
    assert [e.category for e in found["@0:0"]] == ["memcpy", "memset"]


def test_rates_that_are_no_json_do_not_matter() -> None:
    text = json.dumps(
        {
            "traceEvents": [
                _range("@0:0", 100, 20),
                _launch(1, 110),
                _kernel("copy", 1, 120, 1, "gpu_memcpy"),
            ]
        }
    )
    for word in ("inf", "Infinity", "-nan"):
        broken = text.replace('"registers per thread": 168', f'"bandwidth (GB/s)": {word}')
        assert [e.name for e in events_by_range(broken.encode())["@0:0"]] == ["copy"]


def _event(name: str, start_us: float, us: float, category: str = "kernel") -> DeviceEvent:
    return DeviceEvent(name, category, start_us * 1e-6, us * 1e-6)


def test_summary_takes_medians_gaps_and_drops_the_odd_repetition() -> None:
    def repetition(start: float, first: float, gap: float) -> list[DeviceEvent]:
        return [_event("a", start, first), _event("b", start + first + gap, 7.0)]

    times = summarise(
        [
            repetition(0, 1.0, 0.5),
            repetition(100, 3.0, 0.7),
            repetition(200, 2.0, 0.6),
            repetition(300, 9.0, 9.0)[:1],
        ]
    )
    assert times is not None
    assert times.seconds == pytest.approx((8e-6, 10e-6, 9e-6))
    a, b = times.kernels
    assert (a.name, b.name) == ("a", "b")
    assert a.median_s == pytest.approx(2e-6)
    assert a.min_s == pytest.approx(1e-6)
    assert a.gap_s is None
    assert b.gap_s == pytest.approx(0.6e-6)


@pytest.mark.parametrize(
    ("timed", "expected_us"), [("sum", 17.0), ("span", 12.0), ("copies", 10.0), ("kernels", 7.0)]
)
def test_what_counts_as_the_time_of_a_call(timed: str, expected_us: float) -> None:
    """A copy of 10 us and a kernel of 7 us that begins 5 us after it, on another stream."""
    events = [_event("copy", 0, 10, "memcpy"), _event("kernel", 5, 7)]
    times = summarise([events], timed)
    assert times is not None
    assert times.seconds == pytest.approx((expected_us * 1e-6,))


def test_many_kernels_are_grouped_with_their_count_and_keep_their_total() -> None:
    many = [_event("k", 10.0 * i, 2.0) for i in range(30)] + [_event("last", 400.0, 5.0)]
    times = summarise([many] * 2)
    assert times is not None
    assert [(k.name, k.count) for k in times.kernels] == [("k", 30), ("last", 1)]
    assert sum(k.count * k.median_s for k in times.kernels) == pytest.approx(65e-6)
    assert times.seconds == pytest.approx((65e-6, 65e-6))


def test_a_call_without_kernels_gives_nothing() -> None:
    assert summarise([[], []]) is None
    assert summarise([]) is None
