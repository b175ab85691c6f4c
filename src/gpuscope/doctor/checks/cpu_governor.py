"""Clock settings of the host's processors: a slow host launches kernels slowly.

Source: Linux kernel, Documentation/admin-guide/pm/cpufreq and intel_pstate (with intel_pstate or
amd-pstate in active mode "powersave" still raises the clock; the energy preference decides).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.presence import has_accelerator
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BASE = "/sys/devices/system/cpu"
_OWN_CHOICE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
_WHY = Text(
    "In eager mode the host sets the pace of small kernels: at a lower clock each step takes "
    "longer."
)


@check("cpu_governor", "settings", Text("Clock settings of the host's processors"))
def cpu_governor(machine: Machine) -> Iterable[Finding]:
    """Only where there is a device to feed; virtual machines show no governor."""
    if not has_accelerator(machine):
        return
    governor = _read(machine, "cpu0/cpufreq/scaling_governor")
    driver = _read(machine, "cpu0/cpufreq/scaling_driver")
    preference = _read(machine, "cpu0/cpufreq/energy_performance_preference")
    no_turbo = (
        _read(machine, "intel_pstate/no_turbo") == "1" or _read(machine, "cpufreq/boost") == "0"
    )
    found = []
    if governor in ("powersave", "conservative") and driver not in _OWN_CHOICE:
        found.append(_slow(governor, "warning"))
    elif driver in _OWN_CHOICE and preference in ("power", "balance_power"):
        found.append(_slow(f"{governor}, {preference}", "note"))
    if no_turbo:
        found.append(
            Finding(
                "cpu_governor",
                "note",
                Text("The processors' turbo is off."),
                Text("They stay at their base clock."),
                _WHY,
                known_by=f"{_BASE}/intel_pstate/no_turbo, {_BASE}/cpufreq/boost",
                values={"turbo": False},
            )
        )
    yield from found
    if governor and not found:
        yield Finding(
            "cpu_governor",
            "ok",
            Text("The processors may run fast."),
            Text("Governor {governor} ({driver}).", governor=governor, driver=driver),
            known_by=f"{_BASE}/cpu0/cpufreq",
            values={"governor": governor},
        )


def _read(machine: Machine, name: str) -> str:
    return (machine.text(f"{_BASE}/{name}") or "").strip()


def _slow(said: str, severity: str) -> Finding:
    return Finding(
        "cpu_governor",
        "warning" if severity == "warning" else "note",
        Text("The processors are set to save power."),
        Text("Governor {said}.", said=said),
        _WHY,
        Text("Choose 'performance' for measuring and training."),
        ("sudo cpupower frequency-set -g performance",),
        f"{_BASE}/cpu0/cpufreq",
        None,
        {"governor": said},
    )
