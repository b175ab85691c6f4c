from __future__ import annotations

from deep_machines import by_severity, healthy, row

from gpuscope.doctor.checks.deep_memory import deep_memory


def test_good_memory() -> None:
    found = list(deep_memory(healthy(8)))
    assert by_severity(found) == {"ok": [None]}
    assert "112 GiB on each device" in found[0].found


def test_a_lost_bit_is_an_error_with_its_place() -> None:
    machine = healthy(8)
    row(machine, "deep_memory", 3).update(
        wrong_words=2, first={"pattern": "walking one", "offset_bytes": 3 << 30, "flipped_bits": 1}
    )
    found = list(deep_memory(machine))
    assert by_severity(found) == {"error": [3], "ok": [None]}
    assert "3.00 GiB of 112 GiB" in found[0].found
    assert "walking one" in found[0].found
    assert found[1].values["devices_right"] == 7


def test_errors_that_check_bits_could_not_mend() -> None:
    machine = healthy(2)
    row(machine, "deep_memory", 1)["ecc_new"] = {"corrected": 4, "uncorrected": 1}
    found = list(deep_memory(machine))
    assert by_severity(found) == {"error": [1], "ok": [None]}


def test_corrected_errors_are_a_note() -> None:
    machine = healthy(2)
    row(machine, "deep_memory", 1)["ecc_new"] = {"corrected": 4, "uncorrected": None}
    found = list(deep_memory(machine))
    assert by_severity(found) == {"note": [1], "ok": [None]}
    assert found[1].values["devices_right"] == 2


def test_a_device_without_counters_is_fine() -> None:
    machine = healthy(1)
    row(machine, "deep_memory", 0)["ecc_new"] = {"corrected": None, "uncorrected": None}
    assert by_severity(deep_memory(machine)) == {"ok": [None]}
    row(machine, "deep_memory", 0)["ecc_new"] = {}
    assert by_severity(deep_memory(machine)) == {"ok": [None]}


def test_patterns_that_time_did_not_suffice_for_are_told() -> None:
    machine = healthy(1)
    row(machine, "deep_memory", 0)["patterns"] = ["zeros", "ones"]
    assert "2 of 9 patterns" in next(iter(deep_memory(machine))).found
