"""Which container this is, and whether a host's containers can have its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvidia_present
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_NAMES = {
    "docker": "Docker", "podman": "Podman", "kubernetes": "Kubernetes", "apptainer": "Apptainer",
    "lxc": "LXC", "gvisor": "gVisor", "wsl": "WSL", "containerd": "containerd",
}  # fmt: skip


@check("container_kind", "container", "The container or virtual system; the container toolkit")
def run(machine: Machine) -> Iterator[Finding]:
    """Name the container; on a host with Docker look for NVIDIA's container toolkit."""
    kind = container(machine)
    if kind:
        name = _NAMES.get(kind, kind)
        yield Finding(
            "container_kind", "ok", Words(f"This is inside {name}.", f"运行于 {name} 中。"),
            Words("", ""),
            known_by="/proc/version, /proc/1/cgroup, /",
            values={"container": name},
        )  # fmt: skip
        return
    docker = machine.target("/usr/bin/docker")
    if not docker or not nvidia_present(machine):
        return
    toolkit = machine.command("nvidia-ctk", "--version")
    if toolkit is None and not machine.target("/usr/bin/nvidia-container-runtime"):
        yield Finding(
            "container_kind", "note",
            Words("Docker is here, NVIDIA's container toolkit is not.",
                  "已安装 Docker，但没有 NVIDIA 容器工具包。"),
            Words("Containers cannot be given the GPUs.", "无法把 GPU 交给容器。"),
            fix=Words("Install it, if containers are to use the GPUs.",
                      "如果容器需要使用 GPU，请安装它。"),
            commands=(
                "sudo apt install nvidia-container-toolkit",
                "sudo nvidia-ctk runtime configure --runtime=docker",
                "sudo systemctl restart docker",
            ),
            known_by="nvidia-ctk",
        )  # fmt: skip
