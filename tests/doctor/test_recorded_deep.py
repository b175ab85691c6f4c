"""The active tests as two healthy H200s answered them: no alarm, and a fault is named."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.machine import Recording

FILE = Path(__file__).resolve().parents[1] / "data" / "machines" / "h200-x2-deep.json"


@pytest.fixture
def machine() -> Recording:
    return Recording.load(FILE)


def test_healthy_devices_raise_no_alarm(machine: Recording) -> None:
    found = diagnose(machine, deep=True)
    assert found.worst in ("ok", "note")
    told = {finding.check for finding in found.findings}
    assert {"deep_products", "deep_memory", "deep_copies", "deep_pairs", "deep_sustained"} <= told


def test_a_slow_link_between_the_devices_is_named(machine: Recording) -> None:
    probes = {name: copy.deepcopy(answer) for name, answer in machine.probes.items()}

    def slower(value: object) -> object:
        if isinstance(value, dict):
            return {
                k: v * 0.3 if k.endswith("bytes_per_s") and isinstance(v, float) else slower(v)
                for k, v in value.items()
            }
        return [slower(v) for v in value] if isinstance(value, list) else value

    probes["deep_pairs"] = slower(probes["deep_pairs"])
    machine.probes = probes
    (finding,) = [f for f in diagnose(machine, deep=True).findings if f.severity == "warning"]
    assert finding.check == "deep_pairs"
