"""Heat of Apple machines: whether the system holds the processors down.

Source: macOS, pmset(1), `pmset -g therm` (CPU_Speed_Limit in per cent).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text


@check("apple_health", "health", Text("Apple machines: whether heat holds them down"))
def apple_health(machine: Machine) -> Iterable[Finding]:
    """Only macOS has the command."""
    answer = machine.command("pmset", "-g", "therm")
    if answer is None or not answer.ok:
        return
    match = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", answer.out)
    limit = int(match[1]) if match else 100
    if limit < 100:
        yield Finding(
            "apple_health",
            "warning",
            Text("The machine is held down by heat."),
            Text("Speed limit {limit} %.", limit=limit),
            Text("Processors and GPU share the cooling: both run slower."),
            Text("Let it cool; plug it in; free the vents."),
            ("pmset -g therm",),
            "pmset -g therm",
            None,
            {"speed_limit_percent": limit},
        )
        return
    yield Finding(
        "apple_health",
        "ok",
        Text("Heat does not hold the machine down."),
        Text("No speed limit."),
        known_by="pmset -g therm",
        values={"speed_limit_percent": limit},
    )
