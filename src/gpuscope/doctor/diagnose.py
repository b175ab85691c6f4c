"""Run the checks on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import GROUPS, Check, checks
from gpuscope.doctor.types import SEVERITIES, Diagnosis, Finding
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import UnknownNameError


def diagnose(
    machine: Machine,
    *,
    deep: bool = False,
    only: Sequence[str] = (),
    say: Callable[[str], None] = lambda name: None,
) -> Diagnosis:
    """Return what the checks find.

    Args:
        machine: a live or a recorded one.
        deep: also work on the devices (minutes).
        only: names of checks or groups; all of them by default. One that works on the devices
            implies `deep`.
        say: told the name of each check before it runs.

    Raises:
        UnknownNameError: no such check or group.
    """
    known = checks()
    names = {c.name for c in known} | set(GROUPS)
    for name in only:
        if name not in names:
            raise UnknownNameError(Text("check"), name, names, Text("Type: gpuscope doctor --list"))
    deep = deep or any(c.group == "deep" and (c.name in only or "deep" in only) for c in known)
    chosen = [c for c in known if not only or c.name in only or c.group in only]
    chosen = [c for c in chosen if deep or c.group != "deep"]
    found: list[Finding] = []
    times: dict[str, float] = {}
    for each in chosen:
        say(each.name)
        begin = time.perf_counter()
        found += _safely(each, machine)
        times[each.name] = time.perf_counter() - begin
    order = {c.name: i for i, c in enumerate(known)}
    found.sort(key=lambda f: (SEVERITIES.index(f.severity), order.get(f.check, 0), f.device or 0))
    return Diagnosis(identity(machine, found), tuple(found), times, deep)


IDENTIFYING: tuple[str, ...] = ("gpus", "driver", "python", "torch", "container")
"""Values of findings that tell what machine it is."""


def identity(machine: Machine, findings: Iterable[Finding] = ()) -> dict[str, str]:
    """What tells this machine from others, in short.

    Args:
        machine: asked for its name, system and kernel.
        findings: their values under the names of `IDENTIFYING` are taken over.
    """
    system = (machine.text("/etc/os-release") or "").splitlines()
    pretty = next((line[12:].strip('"') for line in system if line.startswith("PRETTY_NAME=")), "")
    found = {
        "host": (machine.text("/etc/hostname") or "").strip(),
        "system": pretty,
        "kernel": (machine.text("/proc/sys/kernel/osrelease") or "").strip(),
    }
    values = {name: value for finding in findings for name, value in finding.values.items()}
    found |= {name: str(values[name]) for name in IDENTIFYING if values.get(name)}
    return {name: value for name, value in found.items() if value}


def _safely(check: Check, machine: Machine) -> Iterable[Finding]:
    """A check that fails must not hide the others: it says so."""
    try:
        return list(check.run(machine))
    except Exception as error:  # the check's own fault: told, with its name
        evidence = f"{type(error).__name__}: {error}"
        return [
            Finding(
                check.name,
                "unknown",
                Text("The check '{check}' failed.", check=check.name),
                verbatim(evidence),
                known_by="gpuscope",
            )
        ]
