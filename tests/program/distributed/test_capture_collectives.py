"""Each collective is one operator with its group, its peer, its bytes and the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from job import base, collectives, run

from gpuscope.errors import CaptureError, WorkloadError


def dist() -> Any:
    import torch.distributed

    return torch.distributed


def floats(numel: int, device: Any) -> Any:
    import torch

    return torch.ones(numel, device=device)


def four(numel: int, device: Any) -> list[Any]:
    return [floats(numel, device) for _ in range(4)]


CALLS: dict[str, tuple[Callable[[Any], object], int, int]] = {
    # what is called on rank 1 of 4; elements read; elements written
    "allreduce_": (lambda d: dist().all_reduce(floats(8, d)), 8, 8),
    "_allgather_base_": (
        lambda d: dist().all_gather_into_tensor(floats(32, d), floats(8, d)),
        40,
        32,
    ),
    "allgather_": (lambda d: dist().all_gather(four(8, d), floats(8, d)), 40, 32),
    "_reduce_scatter_base_": (
        lambda d: dist().reduce_scatter_tensor(floats(2, d), floats(8, d)),
        10,
        2,
    ),
    "reduce_scatter_": (lambda d: dist().reduce_scatter(floats(8, d), four(8, d)), 40, 8),
    "alltoall_base_": (lambda d: dist().all_to_all_single(floats(8, d), floats(8, d)), 16, 8),
    "alltoall_": (lambda d: dist().all_to_all(four(2, d), four(2, d)), 16, 8),
    "broadcast_": (lambda d: dist().broadcast(floats(8, d), 0), 8, 8),
    "reduce_": (lambda d: dist().reduce(floats(8, d), 0), 8, 8),
    "gather_": (lambda d: dist().gather(floats(8, d), four(8, d), 1), 40, 32),
    "scatter_": (lambda d: dist().scatter(floats(8, d), four(8, d), 1), 40, 8),
    "barrier": (lambda d: dist().barrier(), 1, 0),
    "send": (lambda d: dist().send(floats(8, d), 3), 8, 0),
    "recv_": (lambda d: dist().recv(floats(8, d), 0), 8, 8),
}


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_collective_is_one_operator(name: str) -> None:
    call, read, written = CALLS[name]
    program = run(call)
    (op,) = collectives(program)
    assert op.name == f"c10d::{name}"
    assert sum(spec.numel for spec in op.inputs) == read
    assert sum(spec.numel for spec in op.outputs) == written
    assert program.groups[op.group].ranks == (0, 1, 2, 3)
    assert program.groups[op.group].label == "world"
    assert (program.rank, program.world_size) == (1, 4)
    assert op.peer == {"send": 3, "recv_": 0}.get(name, -1)
    assert not any("FakeTensor" in str(value) for value in op.args.values())


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_functional_collectives_and_their_wait() -> None:
    def step(device: Any) -> None:
        import torch.distributed._functional_collectives as functional

        x = functional.all_reduce(floats(8, device), "sum", dist().group.WORLD)
        y = floats(8, device) * 2  # runs meanwhile
        (x + y).sum()

    program = run(step)
    names = [base(op) for op in program.ops]
    reduce, wait = names.index("all_reduce"), names.index("wait_tensor")
    assert program.ops[reduce].name == "_c10d_functional::all_reduce"
    assert names.index("mul") < wait
    assert program.ops[wait].waits == (reduce,)
    assert reduce in program.ops[names.index("add")].waits


def test_gradients_of_collectives() -> None:
    def step(device: Any) -> None:
        import torch.distributed._functional_collectives as functional

        x = floats(16, device).view(16, 1).requires_grad_()
        parts = [4] * 4
        y = functional.all_to_all_single_autograd(x, parts, parts, dist().group.WORLD)
        (y * 2).sum().backward()

    forward, backward = collectives(run(step))
    assert base(forward) == base(backward) == "all_to_all_single"
    assert (forward.phase, backward.phase) == ("forward", "backward")


def test_sends_and_receives_of_a_batch_belong_together() -> None:
    def step(device: Any) -> None:
        d = dist()
        a, b = floats(8, device), floats(8, device)
        ops = [d.P2POp(d.isend, a, 2), d.P2POp(d.irecv, b, 0)]
        (work,) = d.batch_isend_irecv(ops)
        work.wait()
        b.add_(1)

    program = run(step)
    send, receive = collectives(program)
    assert (send.peer, receive.peer) == (2, 0)
    assert send.args["batch"] == receive.args["batch"] == 1
    (after,) = [op for op in program.ops if base(op) == "add_"]
    assert after.waits == (send.index, receive.index)


def test_coalesced_collectives_are_one() -> None:
    def step(device: Any) -> None:
        import torch

        d = dist()
        with d._coalescing_manager(d.group.WORLD, device=torch.device("cuda")):
            d.all_reduce(floats(8, device))
            d.all_reduce(floats(16, device))

    (op,) = collectives(run(step))
    assert base(op) == "allreduce_coalesced_"
    assert sum(spec.numel for spec in op.outputs) == 24


def test_peers_are_ranks_of_the_job() -> None:
    def step(device: Any) -> None:
        dist().send(floats(8, device), group=group[0], group_dst=1)

    group: list[Any] = []

    def first(device: Any) -> None:
        if not group or group[0] not in dist().distributed_c10d._world.pg_names:
            group[:] = [dist().new_group([2, 5, 7])]
        step(device)

    (op,) = collectives(run(first, rank=2, size=8))
    assert op.peer == 5


def test_futures_of_collectives() -> None:
    def step(device: Any) -> None:
        x = floats(8, device)
        work = dist().all_reduce(x, async_op=True)
        floats(8, device).exp()
        assert work.is_completed()
        work.get_future().then(lambda done: done.value()[0].div_(4)).wait()

    program = run(step)
    (reduce,) = collectives(program)
    by_name = {base(op): op for op in program.ops}
    assert by_name["exp"].waits == ()
    assert by_name["div_"].waits == (reduce.index,)


def test_a_receive_from_anybody_is_assumed() -> None:
    ranks: list[int] = []

    def step(device: Any) -> None:
        ranks.append(dist().recv(floats(8, device)))

    program = run(step, rank=2)
    assert [op.peer for op in collectives(program)] == [1]
    assert ranks[-1] == 1
    assert any("rank before" in sentence for sentence in program.assumptions)


WRONG: dict[str, Callable[[Any], object]] = {
    "times the part": lambda d: dist().all_gather_into_tensor(floats(9, d), floats(3, d)),
    "same dtype": lambda d: dist().reduce_scatter_tensor(floats(3, d).long(), floats(12, d)),
    "must have 4 tensors": lambda d: dist().all_to_all(four(1, d)[:3], four(1, d)[:3]),
    "device type cpu": lambda d: dist().all_reduce(floats(3, "cpu")),
}


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("reason", WRONG)
def test_what_nccl_refuses_is_refused_with_the_users_line(reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason) as caught:
        run(WRONG[reason])
    assert "test_capture_collectives.py" in str(caught.value)


def test_objects_travel_as_bytes_and_are_equal_everywhere() -> None:
    got: list[Any] = []

    def step(device: Any) -> None:
        got[:] = [None] * 4
        dist().all_gather_object(got, {"tokens": 7})

    program = run(step)
    assert got == [{"tokens": 7}] * 4
    sizes, contents = collectives(program)
    assert sizes.inputs[-1].dtype == "int64"
    assert contents.inputs[-1].dtype == "uint8"
    assert any(op.sync == "item" for op in program.ops)
    assert any("equal" in sentence for sentence in program.assumptions)


def test_the_line_is_the_users() -> None:
    def step(device: Any) -> None:
        dist().all_reduce(floats(8, device))

    line = inspect.getsourcelines(step)[1] + 1
    (op,) = collectives(run(step))
    assert op.site == f"test_capture_collectives.py:{line}"


def test_symmetric_memory_is_captured_as_operators_of_the_group() -> None:
    import torch

    if not hasattr(torch.ops.symm_mem, "two_shot_all_reduce_"):
        pytest.skip("this torch has no symmetric memory")

    def step(device: Any) -> None:
        import torch.distributed._symmetric_memory as symmetric

        name = dist().group.WORLD.group_name
        buffer = symmetric.empty(64, dtype=torch.bfloat16, device=device)
        handle = symmetric.rendezvous(buffer, name)
        assert (handle.rank, handle.world_size) == (1, 4)
        assert torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", name).shape == (64,)
        torch.ops.symm_mem.two_shot_all_reduce_(buffer, "sum", name)
        handle.barrier()

    names = [op.name for op in collectives(run(step))]
    assert names == [
        "symm_mem::one_shot_all_reduce",
        "symm_mem::two_shot_all_reduce_",
        "symm_mem::barrier",
    ]


def test_an_operator_on_symmetric_memory_without_shapes_is_refused() -> None:
    import torch

    library = torch.library.Library("symm_mem", "FRAGMENT")
    library.define("read_all(Tensor x, str group_name) -> Tensor")

    def step(device: Any) -> None:
        torch.ops.symm_mem.read_all(floats(8, device), dist().group.WORLD.group_name)

    try:
        with pytest.raises(CaptureError, match="read_all"):
            run(step)
    finally:
        library._destroy()
