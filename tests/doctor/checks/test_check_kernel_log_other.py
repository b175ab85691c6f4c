"""Resets, bad memory and killed processes in the kernel log."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the

from gpuscope.doctor.machine import Recording


def logged(*lines: str) -> Recording:
    return Recording(probes={"kernel_log": {"source": "dmesg", "lines": list(lines)}})


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("[1] amdgpu 0000:63:00.0: amdgpu: GPU reset begin!", "warning"),
        ("[1] [drm:amdgpu_job_timedout] *ERROR* amdgpu ring sdma0 timeout, signaled", "warning"),
        ("[1] i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb", "warning"),
        ("[1] EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "error"),
        ("[1] mce: [Hardware Error]: Machine check events logged", "error"),
    ],
)
def test_each_line_has_its_severity(line: str, severity: str) -> None:
    assert sorts(findings("kernel_log_other", logged(line))) == [severity]


def test_killed_processes_are_named() -> None:
    line = "[9] Out of memory: Killed process 4711 (pt_data_worker) total-vm:99kB"
    told = the(findings("kernel_log_other", logged(line, line)), "note")
    assert "pt_data_worker" in told.found
    assert told.values == {"lines": 2}


def test_a_quiet_log_says_nothing() -> None:
    assert findings("kernel_log_other", logged()) == []
    assert findings("kernel_log_other", logged("[1] i915 0000:00:02.0: enabling device")) == []
    assert findings("kernel_log_other", Recording()) == []
