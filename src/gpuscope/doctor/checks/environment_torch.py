"""Variables of PyTorch and Triton that change performance.

The table is in `gpuscope.doctor.variables_torch`.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.variables import settings_findings
from gpuscope.doctor.variables_torch import TORCH


@check("environment_torch", "settings", "Variables of PyTorch and Triton that change performance")
def environment_torch(machine: Machine) -> Iterable[Finding]:
    """Go through the table; nothing is said of what is not set."""
    return settings_findings(machine, "environment_torch", TORCH)
