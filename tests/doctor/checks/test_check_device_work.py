from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200


def ill(error: str | None):
    machine = h200(4)
    device = machine.probes["torch_libraries"]["devices"][2]
    device |= {"works": False, "error": error}
    return findings("device_work", machine)


@pytest.mark.parametrize(
    ("error", "severity", "word"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 MiB.", "warning", "memory"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "error", "another"),
        ("CUDA error: no kernel image is available for execution", "error", "kernels"),
        ("CUDA error: an illegal instruction was encountered", "error", "fails"),
        (None, "error", "wrong result"),
    ],
)
def test_a_device_that_fails_is_named_with_its_cause(error, severity, word) -> None:
    bad, good = ill(error)
    assert (bad.severity, bad.device) == (severity, 2)
    assert word in bad.title
    assert good.severity == "ok"
    assert "GPUs 0-1, 3" in good.found


def test_devices_that_fail_alike_are_told_together() -> None:
    machine = h200(8)
    for device in machine.probes["torch_libraries"]["devices"]:
        device |= {"works": False, "error": "CUDA error: it's broken\nmore"}
    (found,) = findings("device_work", machine)
    assert found.device is None
    assert "GPUs 0-7" in found.found
    assert found.commands[0] == """gpuscope explain error 'CUDA error: it'"'"'s broken'"""


def test_all_working_is_one_finding_and_no_device_is_none() -> None:
    (found,) = findings("device_work", h200(8))
    assert found.severity == "ok"
    assert findings("device_work", cpu_only()) == []


def test_a_device_that_was_not_tried_is_not_judged() -> None:
    machine = h200(1)
    machine.probes["torch_libraries"]["devices"][0] |= {"works": None, "error": None}
    assert findings("device_work", machine) == []
