"""Which ranks of a job differ, and what is said when one of them fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuscope.errors import WorkloadError
from gpuscope.program.ranks import capture_ranks
from gpuscope.program.world import World

Build = Callable[[], Callable[[], object]]


def job(work: Callable[[int, int], None], mesh: tuple[int, ...] = ()) -> Build:
    """A build whose step does `work(rank, ranks)`."""

    def build() -> Callable[[], object]:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        dist.init_process_group("nccl")
        if mesh:
            init_device_mesh("cuda", mesh, mesh_dim_names=tuple("abc"[: len(mesh)]))
        rank, size = dist.get_rank(), dist.get_world_size()
        return lambda: work(rank, size)

    return build


def product(rows: int) -> None:
    """Some work, whose size tells who did it, and a word with all others."""
    import torch
    import torch.distributed as dist

    x = torch.empty(rows, 8, device="cuda")
    torch.mm(x, x.t())
    dist.all_reduce(torch.ones(1, device="cuda"))


def test_equal_ranks_are_captured_once() -> None:
    calls: list[int] = []

    def work(rank: int, size: int) -> None:
        import torch
        import torch.distributed as dist

        calls.append(rank)
        dist.all_reduce(torch.ones(4, device="cuda"))

    ranks = capture_ranks(job(work), World(4096))
    assert ranks.equal
    assert ranks.world_size == 4096
    assert set(calls) == {0, 4095}


def test_ranks_that_do_not_talk_are_taken_as_copies() -> None:
    def work(rank: int, size: int) -> None:
        import torch

        torch.ones(rank + 1, device="cuda").sum()

    assert capture_ranks(job(work), World(8)).members == (tuple(range(8)),)


def test_one_rank_alone() -> None:
    ranks = capture_ranks(job(lambda rank, size: product(8)), World())
    assert ranks.members == ((0,),)


def test_a_last_rank_that_differs() -> None:
    ranks = capture_ranks(job(lambda rank, size: product(16 if rank == size - 1 else 8)), World(6))
    assert ranks.members == ((0, 1, 2, 3, 4), (5,))


def test_ranks_that_differ_along_one_dimension() -> None:
    """Rank = a * 4 + b: what they do depends on b alone."""
    build = job(lambda rank, size: product(8 * (rank % 4 + 1)), mesh=(8, 4))
    ranks = capture_ranks(build, World(32))
    assert len(ranks.programs) == 4
    assert ranks.members[1] == tuple(range(1, 32, 4))


def test_long_dimensions_are_sampled_and_it_is_said() -> None:
    build = job(lambda rank, size: product(8 if rank == 0 else 16), mesh=(64,))
    ranks = capture_ranks(build, World(64))
    assert ranks.members == ((0,), tuple(range(1, 64)))
    assert "62 more ranks are taken to run" in " ".join(ranks.programs[1].assumptions)


def test_a_ring_of_sends_is_followed_until_it_closes() -> None:
    def work(rank: int, size: int) -> None:
        import torch
        import torch.distributed as dist

        x, y = torch.ones(4, device="cuda"), torch.empty(4, device="cuda")
        pairs = [
            dist.P2POp(dist.isend, x, (rank + 1) % size),
            dist.P2POp(dist.irecv, y, (rank - 1) % size),
        ]
        for request in dist.batch_isend_irecv(pairs):
            request.wait()

    ranks = capture_ranks(job(work), World(5))
    assert ranks.members == ((0,), (1,), (2,), (3,), (4,))


def test_the_rank_that_fails_is_named() -> None:
    def work(rank: int, size: int) -> None:
        product(8)
        if rank == size - 1:
            raise ValueError("no data here")

    with pytest.raises(WorkloadError, match=r"On rank 3 \(rank 0 ran\)"):
        capture_ranks(job(work), World(4))
    with pytest.raises(WorkloadError, match="raised ValueError"):
        capture_ranks(job(lambda rank, size: work(3, 4)), World(4))


def test_objects_that_nobody_sends() -> None:
    def work(rank: int, size: int) -> None:
        import torch.distributed as dist

        objects: list[object] = [None]
        dist.recv_object_list(objects, src=1 - rank)

    with pytest.raises(WorkloadError, match="receives an object from rank"):
        capture_ranks(job(work), World(2))


def test_objects_arrive() -> None:
    def work(rank: int, size: int) -> None:
        import torch.distributed as dist

        objects: list[object] = [8 * (rank + 1)]
        if rank == 1:
            dist.send_object_list(objects, dst=0)
        else:
            dist.recv_object_list(objects, src=1)
        product(int(str(objects[0])))

    ranks = capture_ranks(job(work), World(2))
    sizes = [op.outputs[0].shape for p in ranks.programs for op in p.ops if op.name == "aten::mm"]
    assert sizes == [(16, 16), (16, 16)]
