from __future__ import annotations

import pytest
from deep_machines import answer, by_severity, healthy, no_device, row
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.doctor.deep import Slow, ask, busy, judge, span, stage_text, with_share
from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.expected import Expected
from gpuscope.doctor.machine import Recording
from gpuscope.doctor.registry import checks
from gpuscope.document.text import render, verbatim

DEEP = tuple(each for each in checks() if each.group == "deep")
ON_DEVICES = tuple(each for each in DEEP if each.name != "deep_host")


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_healthy_machine_raises_no_alarm(count) -> None:
    found = diagnose(healthy(count), deep=True, only=["deep"])
    assert found.worst == "ok"
    alone = {"deep_pairs", "deep_collectives"} if count == 1 else set()
    assert {f.check for f in found.findings} == {c.name for c in DEEP} - alone


def test_a_device_outside_the_catalogue_is_compared_with_its_neighbours() -> None:
    machine = healthy(8, "Some New GPU")
    assert diagnose(machine, deep=True, only=["deep"]).worst == "ok"
    row(machine, "deep_copies", 3)["inside"]["bytes_per_s"] *= 0.7
    found = diagnose(machine, deep=True, only=["deep_copies"])
    assert by_severity(found.findings)["warning"] == [3]


def test_a_slice_of_a_device_is_not_held_against_the_whole() -> None:
    machine = healthy(1)
    for probe in ("deep_products", "deep_copies", "deep_sustained"):
        entry = row(machine, probe, 0)
        entry["slice"] = True
        if probe == "deep_products":
            for rate in entry["products"].values():
                rate["flops_per_s"] /= 7
        if "inside" in entry:
            entry["inside"]["bytes_per_s"] /= 7
        entry["windows"] = [[at, rate / 7] for at, rate in entry.get("windows", [])]
    assert diagnose(machine, deep=True, only=["deep"]).worst == "ok"


def test_without_a_device_only_the_host_speaks() -> None:
    found = diagnose(no_device(), deep=True, only=["deep"])
    assert [(f.check, f.severity) for f in found.findings] == [("deep_host", "ok")]


def test_without_a_device_nothing_is_begun_on_one() -> None:
    machine = no_device()
    machine.probes["torch_libraries"] = {"installed": True, "devices": [], "mps_available": False}
    for name in [name for name in machine.probes if name.startswith("deep_")]:
        if name != "deep_host":
            del machine.probes[name]  # would be "not tested" if it were asked
    found = diagnose(machine, deep=True, only=["deep"])
    assert [(f.check, f.severity) for f in found.findings] == [("deep_host", "ok")]


def test_without_pytorch_it_is_said_once() -> None:
    error = "ModuleNotFoundError: No module named 'torch'"
    machine = Recording(
        probes={c.name: {"kind": None, "torch": None, "error": error, "devices": []} for c in DEEP}
    )
    found = diagnose(machine, deep=True, only=["deep"]).findings
    assert [(f.check, f.severity) for f in found] == [("deep_host", "unknown")]
    assert "torch" in found[0].found


@pytest.mark.parametrize("each", ON_DEVICES, ids=lambda c: c.name)
def test_a_machine_recorded_without_the_tests_is_unknown_not_ill(each) -> None:
    assert by_severity(each.run(Recording())) == {"unknown": [None]}


@pytest.mark.parametrize("each", DEEP, ids=lambda c: c.name)
def test_a_test_that_crashed_is_unknown_with_its_reason(each) -> None:
    machine = Recording(probes={each.name: None}, probe_errors={each.name: "exit code -11"})
    found = list(each.run(machine))
    assert by_severity(found) == {"unknown": [None]}
    assert "exit code -11" in found[0].found


@pytest.mark.parametrize("each", ON_DEVICES, ids=lambda c: c.name)
def test_a_hang_is_an_error_and_says_where(each) -> None:
    machine = healthy(2)
    answer(machine, each.name)["hung"] = "matrix products, bf16 (110 s)"
    found = list(each.run(machine))
    assert by_severity(found) == {"error": [None]}
    assert "bf16" in found[0].found


def test_a_host_that_is_too_busy_is_unknown() -> None:
    machine = no_device()
    answer(machine, "deep_host")["hung"] = "memory of the host (50 s)"
    found = diagnose(machine, deep=True, only=["deep"]).findings
    assert [(f.check, f.severity) for f in found] == [("deep_host", "unknown")]
    assert "memory of the host" in found[0].found


@pytest.mark.parametrize("name", ["deep_products", "deep_memory", "deep_copies", "deep_sustained"])
@pytest.mark.parametrize(
    ("entry", "severity"),
    [
        ({"error": "CUDA error: uncorrectable ECC error encountered", "lost": True}, "error"),
        ({"error": "Out of memory. Tried to allocate 8 GiB.", "no_memory": True}, "unknown"),
        ({"error": "RuntimeError: not written for this device", "lost": False}, "unknown"),
        (
            {"error": "CUDA error: all CUDA-capable devices are busy or unavailable", "lost": True},
            "unknown",
        ),
    ],
)
def test_a_device_that_fails_is_named_and_the_others_are_judged(name, entry, severity) -> None:
    machine = healthy(4)
    failed = row(machine, name, 2)
    for key in [k for k in failed if k not in ("index", "name", "before", "slice")]:
        del failed[key]
    failed |= entry
    found = list(next(c for c in DEEP if c.name == name).run(machine))
    assert by_severity(found) == {severity: [2], "ok": [None]}
    assert entry["error"].rstrip(".")[:20] in found[0].found or entry.get("no_memory")


def test_somebody_elses_work_makes_a_slow_device_a_note() -> None:
    machine = healthy(4)
    entry = row(machine, "deep_copies", 1)
    entry["inside"]["bytes_per_s"] *= 0.5
    entry["before"]["utilisation"] = 0.8
    found = diagnose(machine, deep=True, only=["deep_copies"]).findings
    assert by_severity(found)["note"] == [1]
    assert "Another program" in found[0].found
    assert busy(answer(machine, "deep_copies")["devices"]) == {1}


def test_every_finding_speaks_both_languages_and_says_how_it_is_known() -> None:
    machine = healthy(4)
    row(machine, "deep_memory", 0)["wrong_words"] = 1
    row(machine, "deep_sustained", 1)["differed"] = 1
    row(machine, "deep_copies", 2)["inside"]["bytes_per_s"] /= 2
    answer(machine, "deep_collectives")["wrong"]["all_reduce"]["1"] = 5
    for finding in diagnose(machine, deep=True, only=["deep"]).findings:
        assert finding.known_by.startswith("python -m gpuscope.doctor.probes.deep_")
        for words in (finding.title, finding.found, finding.why, finding.fix):
            if words is not None:
                assert any("一" <= c <= "鿿" for c in render(words, "zh"))
                assert words != render(words, "zh")
        if finding.severity in ("error", "warning"):
            assert finding.why is not None
            assert finding.fix is not None
            assert finding.commands


def test_asking_a_healthy_machine_gives_its_devices() -> None:
    found, said = ask(healthy(2), "deep_memory", "deep_memory", 1.0)
    assert said == []
    assert found is not None
    assert [each["index"] for each in found.devices] == [0, 1]
    assert found.failed == ()


def test_slow_is_below_the_model_or_below_the_neighbours() -> None:
    what = verbatim("x")
    should = {0: Expected(100.0, 80.0, "calibrated"), 1: None, 2: None}
    found = list(judge(what, "B/s", {0: 79.0, 1: 5.0, 2: 6.0}, should, {2: 0.5}))
    assert found == [
        Slow(0, what, 79.0, "B/s", should[0], None),
        Slow(2, what, 6.0, "B/s", None, 0.5),
    ]


def test_a_stage_is_a_template_and_its_values() -> None:
    sent = {"template": "matrix products, {precision}", "values": {"precision": "bf16"}}
    assert stage_text(sent) == "matrix products, bf16"
    assert render(stage_text(sent, 110.0), "zh") == "bf16 矩阵乘（110 秒）"
    assert stage_text("memory patterns") == "memory patterns"


def test_a_span_names_its_unit_once_where_it_can() -> None:
    assert span([709e12, 731e12], "FLOP/s") == "709–731 TFLOP/s"
    assert span([5e9], "B/s") == "5.00 GB/s"
    assert span([900e9, 1.1e12], "B/s") == "900 GB/s – 1.10 TB/s"


@given(st.dictionaries(st.integers(0, 8), st.floats(1.0, 1e16), min_size=1))
def test_spans_and_shares_never_fail(rates) -> None:
    assert "B/s" in span(rates.values(), "B/s")
    assert with_share("x", rates, {}) == ("x", False)
    told, shared = with_share("x", rates, dict.fromkeys(rates, Expected(1e9, 1.0, "estimated")))
    assert shared
    assert told.startswith("x (")
    assert told.endswith(" %)")
