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
from gpuscope.explain.types import Words

_BASE = "/sys/devices/system/cpu"
_OWN_CHOICE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
_WHY = Words(
    "In eager mode the host sets the pace of small kernels: at a lower clock each step takes "
    "longer.",
    "eager 模式下小内核的节奏由主机决定：频率低则每步更慢。",
)


@check("cpu_governor", "settings", "Clock settings of the host's processors")
def cpu_governor(machine: Machine) -> Iterable[Finding]:
    """Only where there is a device to feed; virtual machines show no governor."""
    if not has_accelerator(machine):
        return
    governor = _read(machine, "cpu0/cpufreq/scaling_governor")
    driver = _read(machine, "cpu0/cpufreq/scaling_driver")
    preference = _read(machine, "cpu0/cpufreq/energy_performance_preference")
    no_turbo = _read(machine, "intel_pstate/no_turbo") == "1" or _read(
        machine, "cpufreq/boost"
    ) == "0"  # fmt: skip
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
                Words("The processors' turbo is off.", "处理器睿频已关闭。"),
                Words("They stay at their base clock.", "处理器停在基频。"),
                _WHY,
                known_by=f"{_BASE}/intel_pstate/no_turbo, {_BASE}/cpufreq/boost",
                values={"turbo": False},
            )
        )
    yield from found
    if governor and not found:
        yield Finding(
            "cpu_governor", "ok", Words("The processors may run fast.", "处理器频率设置正常。"),
            Words(f"Governor {governor} ({driver}).", f"调频策略 {governor}（{driver}）。"),
            known_by=f"{_BASE}/cpu0/cpufreq", values={"governor": governor},
        )  # fmt: skip


def _read(machine: Machine, name: str) -> str:
    return (machine.text(f"{_BASE}/{name}") or "").strip()


def _slow(said: str, severity: str) -> Finding:
    return Finding(
        "cpu_governor", "warning" if severity == "warning" else "note",
        Words("The processors are set to save power.", "处理器处于省电设置。"),
        Words(f"Governor {said}.", f"调频策略 {said}。"), _WHY,
        Words("Choose 'performance' for measuring and training.", "测量与训练时选 performance。"),
        ("sudo cpupower frequency-set -g performance",), f"{_BASE}/cpu0/cpufreq", None,
        {"governor": said},
    )  # fmt: skip
