from __future__ import annotations

from deep_machines import answer, by_severity, healthy

from gpuscope.doctor.checks.deep_pairs import deep_pairs, suspect


def _pairs(machine) -> dict:
    return {(p["from"], p["to"]): p for p in answer(machine, "deep_pairs")["pairs"]}


def test_all_ways_of_eight() -> None:
    found = list(deep_pairs(healthy(8)))
    assert by_severity(found) == {"ok": [None]}
    assert "56 of 56" in found[0].title
    assert "384–396 GB/s (97 %)" in found[0].found


def test_damage_is_an_error() -> None:
    machine = healthy(4)
    _pairs(machine)[1, 3]["wrong_words"] = 12
    found = list(deep_pairs(machine))
    assert by_severity(found) == {"error": [None], "ok": [None]}
    assert "1→3" in found[0].title
    assert "11 of 12" in found[1].title


def test_the_device_with_a_broken_link_is_named() -> None:
    machine = healthy(8)
    for (a, b), pair in _pairs(machine).items():
        if 6 in (a, b):
            pair["bytes_per_s"] *= 0.6
    found = list(deep_pairs(machine))
    assert by_severity(found) == {"warning": [6], "ok": [None]}
    assert "device 6" in found[0].title
    assert "of the usual rate" in found[0].found


def test_two_devices_without_their_link_are_slow_by_the_model() -> None:
    machine = healthy(2)
    for pair in _pairs(machine).values():
        pair.update(bytes_per_s=40e9, direct=False)
    found = list(deep_pairs(machine))
    assert by_severity(found)["warning"] == [None]
    assert "through the host" in found[0].found


def test_devices_that_never_had_a_link_are_fine() -> None:
    machine = healthy(4, "NVIDIA GeForce RTX 4090")
    machine.probes["nvml"]["pairs"] = [{"p2p": {"nvlink": "not_supported"}}]
    for pair in _pairs(machine).values():
        pair.update(bytes_per_s=20e9, direct=False)
    found = list(deep_pairs(machine))
    assert by_severity(found) == {"ok": [None]}
    assert found[0].values["pairs_through_host"] == 12


def test_a_link_that_the_driver_does_not_know_is_not_asked_for() -> None:
    machine = healthy(2)
    machine.probes["nvml"]["pairs"] = [{"p2p": {"nvlink": "not_supported"}}]
    for pair in _pairs(machine).values():
        pair.update(bytes_per_s=40e9, direct=False)
    assert by_severity(deep_pairs(machine)) == {"ok": [None]}


def test_without_the_drivers_word_only_neighbours_count() -> None:
    machine = healthy(2)
    machine.probes["nvml"] = None
    for pair in _pairs(machine).values():
        pair["bytes_per_s"] = 40e9
    assert by_severity(deep_pairs(machine)) == {"ok": [None]}


def test_a_copy_that_fails() -> None:
    machine = healthy(2)
    pairs = answer(machine, "deep_pairs")["pairs"]
    pairs[0] = {"from": 0, "to": 1, "error": "RuntimeError: CUDA error: peer", "lost": True}
    found = list(deep_pairs(machine))
    assert by_severity(found)["error"] == [None]
    assert "0→1" in found[0].title


def test_too_little_memory_is_unknown() -> None:
    machine = healthy(2)
    for pair in answer(machine, "deep_pairs")["pairs"]:
        pair |= {"error": "Too little memory.", "no_memory": True}
    assert by_severity(deep_pairs(machine)) == {"unknown": [None]}


def test_whom_the_slow_pairs_have_in_common() -> None:
    assert suspect([{"from": 1, "to": 2}, {"from": 3, "to": 1}]) == 1
    assert suspect([{"from": 1, "to": 2}]) is None
    assert suspect([{"from": 1, "to": 2}, {"from": 3, "to": 4}]) is None
    assert suspect([]) is None
