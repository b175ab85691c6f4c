"""Checks by name: one small file each in `checks/`, registering itself.

A check is a function `(machine: Machine) -> Iterable[Finding]`. It says what is as it should be,
too (severity "ok"), in one finding; it returns nothing where it does not apply (no such vendor).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text
from gpuscope.registry import Registry

Run = Callable[[Machine], Iterable[Finding]]

GROUPS: tuple[str, ...] = ("software", "container", "topology", "health", "settings", "deep")
"""In the order in which they are shown. "deep" checks work on the device; they run with --deep."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its group, a sentence on what it looks at, and what runs it."""

    name: str
    group: str
    about: Text
    run: Run


CHECKS = Registry[Check](Text("check"), "gpuscope.doctor.checks", "gpuscope doctor --list")


def check(name: str, group: str, about: Text) -> Callable[[Run], Run]:
    """Register a check.

    Args:
        name: a stable word ("driver", "pcie", "shared_memory").
        group: one of `GROUPS`.
        about: what it looks at, one short sentence.

    Raises:
        ValueError: the name is taken, or there is no such group.
    """
    if group not in GROUPS:
        raise ValueError(f"no group of checks is called {group}")

    def register(run: Run) -> Run:
        CHECKS.add(name, Check(name, group, about, run))
        return run

    return register


def checks() -> tuple[Check, ...]:
    """All checks, by group and name."""
    return tuple(sorted(CHECKS, key=lambda c: (GROUPS.index(c.group), c.name)))
