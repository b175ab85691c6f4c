"""Which container this is, and whether a host's containers can have its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvidia_present
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_NAMES = {
    "docker": "Docker",
    "podman": "Podman",
    "kubernetes": "Kubernetes",
    "apptainer": "Apptainer",
    "lxc": "LXC",
    "gvisor": "gVisor",
    "wsl": "WSL",
    "containerd": "containerd",
}


@check(
    "container_kind", "container", Text("The container or virtual system; the container toolkit")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Name the container; on a host with Docker look for NVIDIA's container toolkit."""
    kind = container(machine)
    if kind:
        name = _NAMES.get(kind, kind)
        yield Finding(
            "container_kind",
            "ok",
            Text("This is inside {name}.", name=name),
            verbatim(""),
            known_by="/proc/version, /proc/1/cgroup, /",
            values={"container": name},
        )
        return
    docker = machine.target("/usr/bin/docker")
    if not docker or not nvidia_present(machine):
        return
    toolkit = machine.command("nvidia-ctk", "--version")
    if toolkit is None and not machine.target("/usr/bin/nvidia-container-runtime"):
        yield Finding(
            "container_kind",
            "note",
            Text("Docker is here, NVIDIA's container toolkit is not."),
            Text("Containers cannot be given the GPUs."),
            fix=Text("Install it, if containers are to use the GPUs."),
            commands=(
                "sudo apt install nvidia-container-toolkit",
                "sudo nvidia-ctk runtime configure --runtime=docker",
                "sudo systemctl restart docker",
            ),
            known_by="nvidia-ctk",
        )
