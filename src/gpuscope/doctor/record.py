"""Ask a machine more than today's checks do, so that its recording serves tomorrow's too."""

from __future__ import annotations

import re

from gpuscope.doctor.machine import Answer, Machine, Recording
from gpuscope.doctor.probes import AHEAD

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("nvidia-smi",),
    ("nvidia-smi", "-L"),
    ("nvidia-smi", "-q"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "nvlink", "-s"),
    ("nvidia-smi", "nvlink", "-e"),
    ("nvcc", "--version"),
    ("amd-smi", "static", "--json"),
    ("amd-smi", "metric", "--json"),
    ("amd-smi", "topology", "--json"),
    ("amd-smi", "version", "--json"),
    ("rocm-smi", "--showallinfo", "--json"),
    ("rocminfo",),
    ("xpu-smi", "discovery", "-j"),
    ("lspci", "-D", "-nn"),
    ("lspci", "-vvv"),
    ("lspci", "-t"),
    ("dmesg",),
    ("lscpu",),
    ("journalctl", "-k", "-b", "--no-pager", "-n", "2000"),
    ("numactl", "-H"),
    ("ibstat",),
    ("ibv_devinfo",),
    ("ldconfig", "-p"),
    ("df", "-k"),
    ("df", "-k", "/dev/shm"),
    ("nproc",),
    ("uname", "-a"),
    ("lsmod",),
    ("mokutil", "--sb-state"),
    ("nvidia-ctk", "--version"),
    ("system_profiler", "SPDisplaysDataType", "-json"),
)

TEXTS = (
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/proc/version",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/mounts",
    "/proc/swaps",
    "/proc/loadavg",
    "/proc/self/status",
    "/proc/self/cgroup",
    "/proc/self/limits",
    "/proc/1/comm",
    "/proc/1/cgroup",
    "/etc/os-release",
    "/etc/hostname",
    "/sys/module/nvidia/version",
    "/sys/module/amdgpu/version",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/cpuset.cpus.effective",
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory/memory.oom_control",
    "/sys/fs/cgroup/cpuset/cpuset.cpus",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/osrelease",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/online",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "/sys/devices/system/cpu/smt/active",
    "/opt/rocm/.info/version",
    "/usr/local/cuda/version.json",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
)

FOLDERS = (
    "/dev",
    "/dev/dri",
    "/dev/infiniband",
    "/dev/nvidia-caps",
    "/proc/driver/nvidia/gpus",
    "/sys/class/infiniband",
    "/sys/class/net",
    "/sys/class/drm",
    "/sys/class/kfd",
    "/sys/class/accel",
    "/sys/class/iommu",
    "/sys/bus/pci/devices",
    "/sys/devices/system/node",
    "/usr/local",
    "/usr/local/cuda/compat",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
)

_PCI_FILES = (
    "class",
    "vendor",
    "device",
    "numa_node",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "local_cpulist",
)

_SERIAL = re.compile(r"^(?=.*\b(?:serial|chassis)\b).*$\n?", re.IGNORECASE | re.MULTILINE)
_MAC = re.compile(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")


def ask_more(machine: Machine) -> None:
    """Ask everything listed here and each PCI device; the answers stay in the recording."""
    for name in AHEAD:
        machine.probe(name)
    for words in COMMANDS:
        machine.command(*words, timeout_s=10.0)
    for path in TEXTS:
        machine.text(path)
    for path in FOLDERS:
        machine.entries(path)
    for device in machine.entries("/sys/bus/pci/devices") or ():
        root = f"/sys/bus/pci/devices/{device}"
        machine.target(root)
        machine.target(f"{root}/driver")
        for name in _PCI_FILES:
            machine.text(f"{root}/{name}")
    for kind in ("infiniband", "net"):
        for card in machine.entries(f"/sys/class/{kind}") or ():
            machine.target(f"/sys/class/{kind}/{card}/device")
            machine.text(f"/sys/class/{kind}/{card}/speed")
            machine.text(f"/sys/class/{kind}/{card}/operstate")
    for path in ("/usr/local/cuda", "/dev/nvidia0", "/sys/class/kfd/kfd"):
        machine.target(path)


def scrubbed(recording: Recording) -> Recording:
    """Return a recording without serial numbers and hardware addresses of network cards."""

    def clean(text: str) -> str:
        return _MAC.sub("00:00:00:00:00:00", _SERIAL.sub("", text))

    commands = {
        words: None if answer is None else Answer(answer.code, clean(answer.out), clean(answer.err))
        for words, answer in recording.commands.items()
    }
    texts = {path: None if text is None else clean(text) for path, text in recording.texts.items()}
    return Recording(
        commands,
        texts,
        dict(recording.folders),
        dict(recording.targets),
        dict(recording.environment),
        dict(recording.probes),
        dict(recording.probe_errors),
        dict(recording.probe_silence_s),
    )
