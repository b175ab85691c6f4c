"""Variables of PyTorch and Triton that change performance.

The table is in `doctor/variables_torch.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.variables import settings, settings_findings
from gpuscope.document.text import Text


@check(
    "environment_torch", "settings", Text("Variables of PyTorch and Triton that change performance")
)
def environment_torch(machine: Machine) -> Iterable[Finding]:
    """Go through the table; nothing is said of what is not set."""
    return settings_findings(machine, "environment_torch", settings("torch"))
