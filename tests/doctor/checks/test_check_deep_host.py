from __future__ import annotations

from deep_machines import answer, by_severity, no_device

from gpuscope.doctor.checks.deep_host import deep_host


def test_a_good_host() -> None:
    found = list(deep_host(no_device()))
    assert by_severity(found) == {"ok": [None]}
    assert "30.0 GB/s" in found[0].found


def test_a_processor_that_is_wrong() -> None:
    machine = no_device()
    products = answer(machine, "deep_host")["products"]
    products["fp64"] = products["fp64"] | {
        "wrong": 3,
        "wrong_results": 1,
        "same_each_time": False,
        "largest_deviation": 4.0,
    }
    found = list(deep_host(machine))
    assert by_severity(found) == {"error": [None]}
    assert "fp64: 3 of" in found[0].found


def test_an_untrusted_reference_alone_is_an_error() -> None:
    machine = no_device()
    answer(machine, "deep_host")["trusted"] = False
    found = list(deep_host(machine))
    assert by_severity(found) == {"error": [None]}
    assert "independent check" in found[0].found


def test_memory_that_loses_bits() -> None:
    machine = no_device()
    answer(machine, "deep_host")["memory"] |= {
        "wrong_words": 2,
        "first": {"pattern": "address", "offset_bytes": 8, "flipped_bits": 1},
    }
    found = list(deep_host(machine))
    assert by_severity(found) == {"error": [None]}
    assert "address" in found[0].found
