"""Whose a process is: its container, its batch job, its pod, read from the kernel's own files.

`/proc/PID/cgroup` (manual page cgroups(7)) holds the path that a container runtime or a batch
system put the process under; `/proc/PID/environ` holds the variables that they set, readable for
one's own processes and for the administrator. Of the latter nothing but the names below is kept.

Forms that are known: Docker, containerd, CRI-O and Podman name a path's last part by the
container's identifier of 64 hexadecimal digits; Kubernetes has a part `pod<UID>` above it and sets
HOSTNAME to the pod's name (Kubernetes documentation, "Container environment"); Slurm's cgroup
plug-in has `job_<ID>`, and Slurm sets SLURM_JOB_ID (sbatch(1), "Output environment variables").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuscope.measurement.sensors.types import ProcessUse

PROC = Path("/proc")

_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
_SLURM = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_NAMESPACE = Path("root/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_VARIABLES = (b"SLURM_JOB_ID", b"HOSTNAME", b"KUBERNETES_SERVICE_HOST")
_ID_LENGTH = 12
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a process is; "" for what is not so, or may not be read.

    Attributes:
        container: the first 12 digits of the container's identifier, as `docker ps` shows it.
        slurm_job_id: the batch job.
        pod, namespace: in Kubernetes.
    """

    container: str = ""
    slurm_job_id: str = ""
    pod: str = ""
    namespace: str = ""


NOBODY = Owner()


class Owners:
    """Remembers whose each process is, for as long as it lives."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._known: dict[tuple[int, str], Owner] = {}

    def of(self, processes: Iterable[ProcessUse]) -> dict[int, Owner]:
        """Return the owner of each process, by its number; forgets all others.

        A number that names another program here than the driver says (it counts processes in
        another namespace) has no owner: a wrong label is worse than none.
        """
        found: dict[int, Owner] = {}
        kept: dict[tuple[int, str], Owner] = {}
        for process in processes:
            folder = self._proc / str(process.pid)
            started = _start(folder)
            if started is None or not _is_program(folder, process.name):
                found[process.pid] = NOBODY
                continue
            key = (process.pid, started)
            kept[key] = found[process.pid] = self._known.get(key) or owner_in(folder)
        self._known = kept
        return found


FindOwners = Callable[[Iterable[ProcessUse]], dict[int, Owner]]


def owner_in(folder: Path) -> Owner:
    """Return the owner of the process whose `/proc` folder this is."""
    cgroup = _text(folder / "cgroup")
    given = _variables(folder / "environ")
    containers = _CONTAINER.findall(cgroup)
    slurm = _SLURM.search(cgroup)
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in given or "kubepods" in cgroup
    return Owner(
        container=containers[-1][:_ID_LENGTH] if containers else "",
        slurm_job_id=slurm.group(1) if slurm else given.get("SLURM_JOB_ID", ""),
        pod=given.get("HOSTNAME", "") if in_kubernetes else "",
        namespace=_text(folder / _NAMESPACE).strip() if in_kubernetes else "",
    )


def _start(folder: Path) -> str | None:
    """When the process started, in clock ticks; None where there is none of that number."""
    words = _text(folder / "stat").rpartition(")")[2].split()
    return words[19] if len(words) > 19 else None


def _is_program(folder: Path, name: str) -> bool:
    """Whether the driver's name of a process is this one's; "" is the name of one not seen."""
    # The driver tells a path, the sampler a program and its script.
    wanted = Path(name.split("\0")[0].split(" ")[0] or "/").name
    if not wanted:
        return False
    command = _text(folder / "cmdline").split("\0")[0]
    # comm(5) is cut to 15 characters.
    return wanted == Path(command or "/").name or wanted[:15] == _text(folder / "comm").strip()


def _variables(path: Path) -> dict[str, str]:
    found = {}
    for entry in _bytes(path).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in _VARIABLES:
            found[name.decode()] = value.decode("utf-8", "replace")
    return found


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""
