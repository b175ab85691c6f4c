"""Variables of CUDA and ROCm that change performance.

The table is in `doctor/variables_cuda.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.variables import settings, settings_findings
from gpuscope.document.text import Text


@check("environment_cuda", "settings", Text("Variables of CUDA and ROCm that change performance"))
def environment_cuda(machine: Machine) -> Iterable[Finding]:
    """Go through the table; nothing is said of what is not set."""
    return settings_findings(machine, "environment_cuda", settings("cuda"))
