from __future__ import annotations

import pytest
from software_machines import cpu_only, h200

from gpuscope.doctor import registry
from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.machine import Recording
from gpuscope.doctor.registry import GROUPS, Check, checks
from gpuscope.doctor.types import SEVERITIES
from gpuscope.errors import UnknownNameError


@pytest.mark.parametrize("machine", [cpu_only(), h200(1), h200(8)], ids=["cpu", "1", "8"])
def test_healthy_machines_have_nothing_to_mend(machine: Recording) -> None:
    bad = [
        (f.check, f.title) for f in diagnose(machine).findings if f.severity in ("error", "warning")
    ]
    assert bad == []


def test_a_machine_that_tells_nothing_gives_no_false_alarm() -> None:
    found = diagnose(Recording(), deep=True).findings
    assert [f.title for f in found if f.severity in ("error", "warning")] == []
    assert [f.found for f in found if "failed" in f.title and f.known_by == "gpuscope"] == []


def test_findings_come_worst_first() -> None:
    machine = h200(4)
    machine.probes["torch_libraries"]["devices"][1] |= {"works": False, "error": "x"}
    machine.probes["torch_libraries"]["packages"]["triton"] = "2.0"
    ranks = [SEVERITIES.index(f.severity) for f in diagnose(machine).findings]
    assert ranks == sorted(ranks)
    assert ranks[:2] == [0, 1]


def test_only_some_checks() -> None:
    assert set(diagnose(h200(), only=["driver"]).checks) == {"driver"}
    chosen = set(diagnose(h200(), only=["container", "driver"]).checks)
    assert chosen == {"driver"} | {c.name for c in checks() if c.group == "container"}
    with pytest.raises(UnknownNameError, match="driver"):
        diagnose(h200(), only=["drivers"])


def test_naming_a_test_at_work_runs_it() -> None:
    assert set(diagnose(Recording(), only=["deep_memory"]).checks) == {"deep_memory"}
    assert diagnose(Recording(), only=["deep"]).deep
    assert not any(name.startswith("deep_") for name in diagnose(Recording()).checks)


def test_what_identifies_a_machine() -> None:
    assert diagnose(h200(2)).machine == {
        "host": "node1",
        "gpus": "2× NVIDIA H200",
        "driver": "580.65.06",
        "python": "3.12.3",
        "torch": "2.11.0+cu130",
    }


def test_a_check_that_breaks_hides_no_other() -> None:
    def broken(machine):
        raise ZeroDivisionError("oh")
        yield

    everything = {check.name: check for check in registry.CHECKS}
    everything["broken"] = Check("broken", "software", "x", broken)
    with registry.CHECKS.replaced(everything):
        found = diagnose(h200(), only=["broken", "driver"]).findings
    assert [(f.check, f.severity) for f in found] == [("broken", "unknown"), ("driver", "ok")]
    assert "ZeroDivisionError" in found[0].found


def test_the_registry_is_in_order_and_complete() -> None:
    assert [GROUPS.index(c.group) for c in checks()] == sorted(
        GROUPS.index(c.group) for c in checks()
    )
    assert all(c.about for c in checks())
    with pytest.raises(ValueError, match="no group"):
        registry.check("x", "nonsense", "x")
    with pytest.raises(ValueError, match="two of the sort check"):
        registry.check("driver", "software", "x")(lambda machine: [])
