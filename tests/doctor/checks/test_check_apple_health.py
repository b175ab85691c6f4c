"""Heat of Apple machines."""

from __future__ import annotations

import pytest
from checked import findings, sorts

from gpuscope.doctor.machine import Answer, Recording


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            Answer(
                0, "CPU Power notify\n\tCPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 100\n"
            ),
            ["ok"],
        ),
        (Answer(0, "CPU_Speed_Limit \t= 62\n"), ["warning"]),
        (Answer(0, "Note: No thermal warning level has been recorded\n"), ["ok"]),
        (Answer(1, ""), []),
        (None, []),
    ],
)
def test_a_speed_limit_is_told(answer: Answer | None, expected: list[str]) -> None:
    found = Recording(commands={"pmset -g therm": answer})
    assert sorts(findings("apple_health", found)) == expected
