"""Whose a process is: made-up /proc folders in the forms that runtimes use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuscope.measurement.sensors.types import ProcessUse
from gpuscope.watch.owners import NOBODY, Owner, Owners, owner_in

ID = "0123456789ab" + "c" * 52


def process(
    proc: Path,
    pid: int = 7,
    cgroup: str = "0::/",
    environ: str = "",
    start: str = "5",
    command: str = "/usr/bin/python\0train.py\0",
    namespace: str | None = None,
) -> Path:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 18, start]
    (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")
    (folder / "cmdline").write_text(command)
    (folder / "comm").write_text("python\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_text(environ)
    if namespace is not None:
        secrets = folder / "root/var/run/secrets/kubernetes.io/serviceaccount"
        secrets.mkdir(parents=True)
        (secrets / "namespace").write_text(namespace)
    return folder


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/system.slice/docker-{ID}.scope\n",
        f"12:devices:/docker/{ID}\n11:cpu:/docker/{ID}\n",
        f"0::/machine.slice/libpod-{ID}.scope/container\n",
        f"0::/kubepods/besteffort/pod1-2/{ID}\n",
        f"0::/kubepods.slice/kubepods-podaa.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods.slice/kubepods-podaa.slice/crio-{ID}.scope",
        f"0::/system.slice/containerd.service/kubepods-podaa.slice:cri-containerd:{ID}",
    ],
)
def test_containers(tmp_path: Path, cgroup: str) -> None:
    assert owner_in(process(tmp_path, cgroup=cgroup)).container == "0123456789ab"


@pytest.mark.parametrize(
    "cgroup", ["0::/", "0::/user.slice/user-1000.slice/session-2.scope", "0::/init.scope", ""]
)
def test_no_container(tmp_path: Path, cgroup: str) -> None:
    assert owner_in(process(tmp_path, cgroup=cgroup)) == NOBODY


@pytest.mark.parametrize(
    ("cgroup", "environ"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", ""),
        ("5:memory:/slurm/uid_1000/job_4711/step_batch", ""),
        ("0::/", "A=b\0SLURM_JOB_ID=4711\0"),
    ],
)
def test_slurm_jobs(tmp_path: Path, cgroup: str, environ: str) -> None:
    owner = owner_in(process(tmp_path, cgroup=cgroup, environ=environ))
    assert owner == Owner(slurm_job_id="4711")


def test_pods(tmp_path: Path) -> None:
    environ = "HOSTNAME=trainer-0\0KUBERNETES_SERVICE_HOST=10.0.0.1\0TOKEN=secret\0"
    folder = process(tmp_path, environ=environ, namespace="ml\n")
    assert owner_in(folder) == Owner(pod="trainer-0", namespace="ml")


def test_a_host_name_alone_is_no_pod(tmp_path: Path) -> None:
    assert owner_in(process(tmp_path, environ="HOSTNAME=node1\0")) == NOBODY


@pytest.mark.parametrize("name", ["/usr/bin/python", "python train.py", "python a/b.py"])
def test_a_process_is_known_by_its_program(tmp_path: Path, name: str) -> None:
    process(tmp_path, environ="SLURM_JOB_ID=1\0")
    assert Owners(tmp_path).of([ProcessUse(7, name)]) == {7: Owner(slurm_job_id="1")}


@pytest.mark.parametrize("name", ["", "/usr/bin/java", " "])
def test_another_program_of_that_number_is_nobody_s(tmp_path: Path, name: str) -> None:
    """Inside a container the driver's numbers may be another namespace's."""
    process(tmp_path, environ="SLURM_JOB_ID=1\0")
    assert Owners(tmp_path).of([ProcessUse(7, name)]) == {7: NOBODY}


def test_a_process_that_is_gone_is_nobody_s(tmp_path: Path) -> None:
    assert Owners(tmp_path).of([ProcessUse(7, "python")]) == {7: NOBODY}


def test_what_is_known_is_kept_while_the_process_lives(tmp_path: Path) -> None:
    owners, one = Owners(tmp_path), [ProcessUse(7, "python")]
    process(tmp_path, environ="SLURM_JOB_ID=1\0")
    assert owners.of(one)[7].slurm_job_id == "1"
    process(tmp_path, environ="SLURM_JOB_ID=2\0")
    assert owners.of(one)[7].slurm_job_id == "1"  # the same process: not read again
    process(tmp_path, environ="SLURM_JOB_ID=2\0", start="6")
    assert owners.of(one)[7].slurm_job_id == "2"  # the number was given anew
    owners.of([])
    assert owners._known == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_a_real_process() -> None:
    name = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    found = Owners().of([ProcessUse(os.getpid(), name)])
    assert found[os.getpid()] == owner_in(Path("/proc/self"))
