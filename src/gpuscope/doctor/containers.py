"""Which container or virtual system a machine's processes live in."""

from __future__ import annotations

from gpuscope.doctor.machine import Machine


def container(machine: Machine) -> str:
    """Return "docker", "podman", "kubernetes", "apptainer", "lxc", "gvisor", "wsl"; "" if none.

    Several that are nested are told by the outermost that leaves a mark.
    """
    kernel = machine.text("/proc/version") or ""
    control = machine.text("/proc/1/cgroup") or ""
    if is_wsl(machine):
        return "wsl"
    if machine.variable("KUBERNETES_SERVICE_HOST") or "kubepods" in control:
        return "kubernetes"
    if machine.target("/run/.containerenv"):
        return "podman"
    if machine.target("/.singularity.d"):
        return "apptainer"
    if machine.target("/.dockerenv") or "docker" in control:
        return "docker"
    if "lxc" in control:
        return "lxc"
    # gVisor answers with the version of the Linux interface that it gives.
    if kernel.startswith("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"):
        return "gvisor"
    named = machine.variable("container") or ""
    return named if named else ("containerd" if "containerd" in control else "")


def is_wsl(machine: Machine) -> bool:
    """Whether this is the Windows Subsystem for Linux."""
    return "microsoft" in (machine.text("/proc/version") or "").lower()


def cpus_of(cpulist: str | None) -> int | None:
    """Return how many processors "0-3,8" names; None if it names none."""
    count = 0
    for part in (cpulist or "").strip().split(","):
        first, _, last = part.partition("-")
        if not first.strip().isdigit():
            continue
        count += int(last or first) - int(first) + 1
    return count or None
