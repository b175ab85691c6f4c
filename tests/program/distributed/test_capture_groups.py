"""torchrun's environment, `init_process_group`, meshes and groups, and what contradicts them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from job import collectives, joined, run

from gpuscope.errors import WorkloadError
from gpuscope.program.capture import capture
from gpuscope.program.types import MeshDimension, Program
from gpuscope.program.world import World


def torch_distributed() -> Any:
    import torch.distributed

    return torch.distributed


def ones(device: Any) -> Any:
    import torch

    return torch.ones(8, device=device)


def test_the_code_sees_what_torchrun_tells() -> None:
    seen: dict[str, Any] = {}

    def build() -> Callable[[], object]:
        import torch

        device = joined()
        dist = torch_distributed()
        seen.update(
            {name: os.environ[name] for name in World(16, 9).environment()}
            | {"rank": dist.get_rank(), "size": dist.get_world_size()}
            | {"backend": dist.get_backend(), "count": torch.cuda.device_count()}
            | {"current": torch.cuda.current_device(), "tensor": ones("cuda").device, "to": device}
        )
        return lambda: ones(device) + ones("cuda")

    before = {name: os.environ.get(name) for name in World().environment()}
    program = capture(build, world=World(16, 9, local_size=8))
    assert seen["RANK"] == "9"
    assert seen["LOCAL_RANK"] == "1"
    assert seen["GROUP_RANK"] == "1"
    assert (seen["rank"], seen["size"]) == (9, 16)
    assert (seen["count"], seen["current"]) == (8, 1)
    assert str(seen["tensor"]) == str(seen["to"]) == "cuda:1"
    assert seen["backend"] == "nccl"
    assert {name: os.environ.get(name) for name in before} == before
    assert not torch_distributed().is_initialized()
    assert (program.rank, program.world_size) == (9, 16)


@pytest.mark.parametrize("backend", ["nccl", "gloo", "cuda:nccl,cpu:gloo", None])
def test_backends_are_accepted_by_name(backend: str | None) -> None:
    def build() -> Callable[[], object]:
        import torch

        device = torch.device("cuda", 0)
        torch_distributed().init_process_group(backend, device_id=device)
        return lambda: torch_distributed().all_reduce(ones(device))

    assert len(collectives(capture(build, world=World(4)))) == 1


def test_without_a_job_the_code_is_one_process() -> None:
    def build() -> Callable[[], object]:
        torch_distributed().init_process_group("nccl", init_method="tcp://10.0.0.1:23456")
        assert "LOCAL_RANK" not in os.environ
        return lambda: torch_distributed().all_reduce(ones("cuda"))

    program = capture(build)
    assert (program.rank, program.world_size) == (0, 1)


def test_the_code_may_say_its_own_job() -> None:
    def build() -> Callable[[], object]:
        torch_distributed().init_process_group("nccl", rank=2, world_size=4)
        return lambda: torch_distributed().all_reduce(ones("cuda"))

    program = capture(build)
    assert (program.rank, program.world_size) == (2, 4)
    with pytest.raises(WorkloadError, match="rank 2 of 4, but this is rank 0 of 8"):
        capture(build, world=World(8))


def test_joining_twice_is_the_users_error() -> None:
    def build() -> Callable[[], object]:
        torch_distributed().init_process_group("nccl")
        torch_distributed().init_process_group("nccl")
        return lambda: None

    with pytest.raises(WorkloadError, match="default process group twice"):
        capture(build, world=World(4))
    assert not torch_distributed().is_initialized()


def test_a_failing_step_leaves_no_group_behind() -> None:
    def step(device: Any) -> None:
        raise ValueError("not today")

    with pytest.raises(WorkloadError, match="not today"):
        run(step)
    assert not torch_distributed().is_initialized()
    assert "LOCAL_RANK" not in os.environ


def test_a_group_from_before_is_left_alone() -> None:
    dist = torch_distributed()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(WorkloadError, match="process group already"):
            run(lambda device: None)
        with pytest.raises(WorkloadError, match="made before the capture"):
            capture(lambda: lambda: dist.all_reduce(ones("cuda")))
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()


def _ranks(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (program.groups[op.group].label, program.groups[op.group].ranks)
        for op in collectives(program)
    ]


def test_meshes_name_the_groups() -> None:
    made: list[Any] = []

    def step(device: Any) -> None:
        dist = torch_distributed()
        if not made:
            mesh = dist.init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
            made[:] = [mesh, mesh["dp", "tp"]._flatten("dp_tp")]
        mesh, flat = made
        assert tuple(mesh.get_coordinate()) == (1, 0, 1)
        for name in ("pp", "dp", "tp"):
            dist.all_reduce(ones(device), group=mesh.get_group(name))
        dist.all_reduce(ones(device), group=mesh["tp"].get_group())
        dist.all_reduce(ones(device), group=flat.get_group())

    program = run(step, rank=5, size=8)
    assert _ranks(program) == [
        ("pp", (1, 5)),
        ("dp", (5, 7)),
        ("tp", (4, 5)),
        ("tp", (4, 5)),
        ("dp_tp", (4, 5, 6, 7)),
    ]
    assert program.mesh == tuple(MeshDimension(name, 2) for name in ("pp", "dp", "tp"))


def test_a_mesh_of_all_ranks_names_their_group() -> None:
    def step(device: Any) -> None:
        if not made:
            made.append(torch_distributed().init_device_mesh("cuda", (4,), mesh_dim_names=("dp",)))
        torch_distributed().all_reduce(ones(device))

    made: list[Any] = []
    assert _ranks(run(step)) == [("dp", (0, 1, 2, 3))]


def test_meshes_written_down_as_numbers() -> None:
    made: list[Any] = []

    def step(device: Any) -> None:
        import torch

        dist = torch_distributed()
        if not made:
            mesh = torch.arange(8).view(2, 4)
            made.append(dist.device_mesh.DeviceMesh("cuda", mesh, mesh_dim_names=("a", "b")))
            made.append(dist.device_mesh.DeviceMesh("cuda", [[0, 2, 4, 6], [1, 3, 5, 7]]))
            made.append(dist.device_mesh.DeviceMesh.from_group(made[1].get_group(1), "cuda"))
        dist.all_reduce(ones(device), group=made[0].get_group("b"))
        dist.all_reduce(ones(device), group=made[1].get_group(0))
        dist.all_reduce(ones(device), group=made[2].get_group())

    ranks = [found for _, found in _ranks(run(step, rank=2, size=8))]
    assert ranks == [(0, 1, 2, 3), (2, 3), (0, 2, 4, 6)]


def test_groups_made_by_hand() -> None:
    made: list[Any] = []

    def step(device: Any) -> None:
        dist = torch_distributed()
        if not made:
            made.append(dist.new_group([1, 3], group_desc="odd"))
            made.append(dist.new_subgroups(2)[0])
            made.append(dist.split_group(split_ranks=[[0, 2], [1, 3]]))
            assert dist.new_group([0, 2]) is dist.GroupMember.NON_GROUP_MEMBER
        for group in made:
            dist.all_reduce(ones(device), group=group)

    assert _ranks(run(step, rank=3, size=4)) == [("odd", (1, 3)), ("", (2, 3)), ("", (1, 3))]
