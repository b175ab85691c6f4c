from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from software_machines import cpu_only, h200

from gpuscope.doctor.compare import differences
from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.types import Diagnosis, Finding
from gpuscope.document.text import verbatim

EMPTY = verbatim("x")


def one(severity="ok", device=None, check="c", **values) -> Diagnosis:
    finding = Finding(check, severity, EMPTY, EMPTY, device=device, values=values)
    return Diagnosis({"host": "a"}, (finding,), {check: 0.1})


def test_a_machine_does_not_differ_from_itself() -> None:
    for machine in (cpu_only(), h200(8)):
        diagnosis = diagnose(machine)
        found = differences(diagnosis, diagnosis)
        assert (found.checks, found.identity) == ((), ())
        assert found.same > 0


def test_what_makes_one_machine_worse_comes_first() -> None:
    ill = h200(8)
    ill.probes["nvml"]["driver"] = "590.44.01"
    found = differences(diagnose(h200(8)), diagnose(ill))
    assert found.checks[0].severity_differs
    assert found.checks[0].check == "kernel_module"
    assert found.checks[0].there is not None
    assert found.checks[0].there.severity == "error"
    assert {each.name for each in found.identity} == {"driver"}


def test_near_figures_are_the_same_and_counts_are_exact() -> None:
    assert differences(one(rate=100.0), one(rate=103.0)).checks == ()
    assert len(differences(one(rate=100.0), one(rate=90.0)).checks) == 1
    assert len(differences(one(links=18), one(links=17)).checks) == 1
    assert len(differences(one(a=True), one(a=False)).checks) == 1
    assert len(differences(one(a=1.0), one(a=None)).checks) == 1


def test_figures_that_move_by_themselves_do_not_count() -> None:
    assert differences(one(temperature_c=30.0), one(temperature_c=80.0)).checks == ()


def test_devices_are_compared_with_their_like() -> None:
    found = differences(one("error", device=3), one("error", device=4))
    assert {each.device for each in found.checks} == {3, 4}


def test_a_check_that_ran_on_one_only_is_left_out() -> None:
    assert differences(one(check="a", x=1), one(check="b", x=2)).checks == ()


@given(st.sampled_from(["ok", "note", "warning", "error"]), st.integers(), st.integers())
def test_both_directions_agree(severity, a: int, b: int) -> None:
    here, there = one("ok", x=a), one(severity, x=b)
    forth, back = differences(here, there), differences(there, here)
    assert len(forth.checks) == len(back.checks)
    assert [(v.here, v.there) for d in forth.checks for v in d.values] == [
        (v.there, v.here) for d in back.checks for v in d.values
    ]
