from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.machine import Answer, Recording

GVISOR = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        (Recording(targets={"/.dockerenv": "/.dockerenv"}), "Docker"),
        (Recording(targets={"/run/.containerenv": "/run/.containerenv"}), "Podman"),
        (Recording(targets={"/.singularity.d": "/.singularity.d"}), "Apptainer"),
        (Recording(environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}), "Kubernetes"),
        (Recording(texts={"/proc/1/cgroup": "0::/kubepods/pod1/x"}), "Kubernetes"),
        (Recording(texts={"/proc/1/cgroup": "4:memory:/lxc/web"}), "LXC"),
        (Recording(texts={"/proc/version": GVISOR}), "gVisor"),
        (Recording(texts={"/proc/version": "Linux 5.15-microsoft-standard-WSL2"}), "WSL"),
        (Recording(environment={"container": "oci"}), "oci"),
    ],
)
def test_containers_are_recognised(mark: Recording, name: str) -> None:
    (found,) = findings("container_kind", mark)
    assert found.severity == "ok"
    assert found.values["container"] == name


def test_a_host_with_docker_needs_the_toolkit_for_its_gpus() -> None:
    machine = h200()
    machine.targets["/usr/bin/docker"] = "/usr/bin/docker"
    assert severities("container_kind", machine) == ["note"]
    machine.commands["nvidia-ctk --version"] = Answer(0, "NVIDIA Container Toolkit CLI 1.17")
    assert findings("container_kind", machine) == []


def test_plain_hosts_are_not_mentioned() -> None:
    assert findings("container_kind", cpu_only()) == []
    assert findings("container_kind", h200()) == []
