"""Heat of Apple machines: whether the system holds the processors down.

Source: macOS, pmset(1), `pmset -g therm` (CPU_Speed_Limit in per cent).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words


@check("apple_health", "health", "Apple machines: whether heat holds them down")
def apple_health(machine: Machine) -> Iterable[Finding]:
    """Only macOS has the command."""
    answer = machine.command("pmset", "-g", "therm")
    if answer is None or not answer.ok:
        return
    told = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", answer.out)
    limit = int(told[1]) if told else 100
    if limit < 100:
        yield Finding(
            "apple_health", "warning",
            Words("The machine is held down by heat.", "机器因过热降速。"),
            Words(f"Speed limit {limit} %.", f"速度上限 {limit}%。"),
            Words(
                "Processors and GPU share the cooling: both run slower.",
                "CPU 与 GPU 共用散热：都会变慢。",
            ),
            Words("Let it cool; plug it in; free the vents.", "让其冷却；接通电源；保持通风。"),
            ("pmset -g therm",), "pmset -g therm", None, {"speed_limit_percent": limit},
        )  # fmt: skip
        return
    yield Finding(
        "apple_health", "ok", Words("Heat does not hold the machine down.", "没有因过热降速。"),
        Words("No speed limit.", "无速度限制。"), known_by="pmset -g therm",
        values={"speed_limit_percent": limit},
    )  # fmt: skip
