"""Environment variables that change how fast or how right work on devices is, as a table.

Each `Setting` says when a value is worth a word. Checks go through such tables; the tables are in
`variables_cuda`, `variables_nccl` and `variables_torch`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.types import Words


def is_on(value: str) -> bool:
    """Whether a switch is on: all but "", "0", "false", "off", "no", "n"."""
    return value.strip().lower() not in ("", "0", "false", "off", "no", "n")


def is_off(value: str) -> bool:
    """Whether a switch is set, and off."""
    return value.strip().lower() in ("0", "false", "off", "no", "n")


def below(limit: float) -> Callable[[str], bool]:
    """Return a test for numbers below a limit; what is no number is not below it."""

    def test(value: str) -> bool:
        return bool(re.fullmatch(r"-?\d+(\.\d+)?", value.strip())) and float(value) < limit

    return test


@dataclass(frozen=True, slots=True)
class Setting:
    """When a variable is worth a word.

    Attributes:
        name: of the variable.
        when: whether a value is worth it.
        severity: of the finding.
        title: what it does, as set.
        why: what it costs or helps.
        keep: it may be meant (debugging); the fix then says so.
    """

    name: str
    when: Callable[[str], bool]
    severity: Severity
    title: Words
    why: Words
    keep: bool = False


def settings_findings(
    machine: Machine, check: str, settings: Sequence[Setting]
) -> Iterable[Finding]:
    """Return a finding for each variable of a table that is set so that it matters."""
    for setting in settings:
        value = machine.variable(setting.name)
        if value is None or not setting.when(value):
            continue
        said = f"{setting.name}={value[:120]}"
        fix = (
            Words("Unset it when you are done with debugging.", "调试完成后取消该变量。")
            if setting.keep
            else Words("Unset it, if it was not meant.", "若非有意，请取消该变量。")
        )
        yield Finding(
            check, setting.severity, setting.title, Words(f"{said}.", f"{said}。"), setting.why,
            fix if setting.severity in ("warning", "error") else None,
            (f"unset {setting.name}",), "environment", None, {setting.name: value},
        )  # fmt: skip
