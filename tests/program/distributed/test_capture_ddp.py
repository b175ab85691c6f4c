"""DistributedDataParallel: buckets, when they are reduced, what is copied, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job import base, collectives, count, joined, linears, live_bytes

from gpuscope.errors import WorkloadError
from gpuscope.program.capture import capture
from gpuscope.program.types import Op, Program
from gpuscope.program.world import World

MIB = 2**20


def ddp(
    model: Callable[[Any], Any],
    x: tuple[int, ...] = (4, 512),
    accumulate: int = 1,
    prepare: Callable[[Any], None] | None = None,
    keep_gradients: bool = False,
    **options: Any,
) -> Program:
    """One training step of a model in DDP, as rank 1 of 4."""
    import torch

    def build() -> Callable[[], None]:
        device = joined()
        wrapped = torch.nn.parallel.DistributedDataParallel(model(device), **options)
        if prepare is not None:
            prepare(wrapped)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        data = torch.randn(*x, device=device)

        def step() -> None:
            optimizer.zero_grad(set_to_none=not keep_gradients)
            with wrapped.no_sync():
                for _ in range(accumulate - 1):
                    wrapped(data).sum().backward()
            wrapped(data).sum().backward()
            optimizer.step()

        return step

    return capture(build, world=World(4, 1))


def reduced(program: Program) -> list[Op]:
    return [op for op in collectives(program) if base(op) == "allreduce_"]


def sizes(program: Program) -> list[int]:
    return [op.inputs[0].numel for op in reduced(program)]


def squares(layers: int) -> Callable[[Any], Any]:
    """Layers of 512 x 512 float32: exactly 1 MiB each."""
    return lambda device: linears(layers, 512, device)


def test_buckets_fill_in_the_order_in_which_gradients_come() -> None:
    program = ddp(squares(30))
    assert sizes(program) == [512 * 512, 25 * 512 * 512, 4 * 512 * 512]
    assert {op.phase for op in reduced(program)} == {"backward"}
    assert {program.groups[op.group].label for op in reduced(program)} == {"world"}
    assert all(op.site.startswith("test_capture_ddp.py:") for op in reduced(program))


def test_a_cap_of_ones_own_holds_for_the_first_bucket_too() -> None:
    assert sizes(ddp(squares(6), bucket_cap_mb=2)) == [2 * 512 * 512] * 3


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 3))
def test_every_gradient_is_reduced_once_whatever_the_sizes(widths: list[int], cap: int) -> None:
    def model(device: Any) -> Any:
        import torch.nn as nn

        inner = [8 * w for w in widths]
        pairs = zip([16, *inner], [*inner, 16], strict=True)
        return nn.Sequential(*[nn.Linear(a, b) for a, b in pairs]).to(device)

    program = ddp(model, x=(2, 16), bucket_cap_mb=cap)
    inner = [16, *[8 * w for w in widths], 16]
    elements = sum(a * b + b for a, b in pairwise(inner))
    assert sum(sizes(program)) == elements


def test_gradients_are_divided_into_the_bucket_and_copied_back() -> None:
    program = ddp(squares(3))
    assert count(program, "mul") == 3
    assert count(program, "copy_") == 3
    first = reduced(program)[0].index
    copies = [op for op in program.ops if base(op) == "copy_"]
    assert min(op.index for op in copies) > reduced(program)[-1].index > first
    flats = {op.inputs[0].storage for op in reduced(program)}
    assert {op.inputs[1].storage for op in copies} <= flats


def test_each_bucket_is_waited_for_before_it_is_copied_back() -> None:
    program = ddp(squares(3), bucket_cap_mb=1)
    copies = [op for op in program.ops if base(op) == "copy_"]
    assert [op.waits for op in copies] == [(op.index,) for op in reduced(program)]


def test_views_of_buckets_are_not_copied_back() -> None:
    program = ddp(squares(3), gradient_as_bucket_view=True)
    assert (count(program, "mul"), count(program, "copy_")) == (3, 0)


def test_gradients_kept_as_views_are_only_divided() -> None:
    program = ddp(squares(3), gradient_as_bucket_view=True, keep_gradients=True)
    assert (count(program, "div_"), count(program, "mul"), count(program, "copy_")) == (3, 0, 0)


def test_buckets_take_memory_of_their_own_unless_gradients_are_views() -> None:
    plain, views = ddp(squares(8)), ddp(squares(8), gradient_as_bucket_view=True)
    end = len(plain.ops) - 1, len(views.ops) - 1
    assert live_bytes(plain, end[0], "communication") == 8 * MIB
    assert live_bytes(plain, end[0], "gradient") == 8 * MIB
    assert live_bytes(views, end[1], "communication") == 0
    assert live_bytes(views, end[1], "gradient") == 8 * MIB


def test_only_the_last_microbatch_is_reduced() -> None:
    program = ddp(squares(3), accumulate=4)
    assert sum(sizes(program)) == 3 * 512 * 512
    backwards = [op.index for op in program.ops if base(op) == "mm" and op.phase == "backward"]
    assert len(backwards) == 4 * 5  # the first layer gives no gradient of its input
    assert reduced(program)[0].index > backwards[-6]


def test_copies_can_be_one_operator_a_bucket() -> None:
    program = ddp(squares(6), bucket_cap_mb=3, batched_grad_copy=True)
    assert count(program, "_foreach_copy_") == len(reduced(program)) == 2
    assert (count(program, "div_"), count(program, "mul")) == (2, 0)


def test_a_static_graph_has_the_same_buckets() -> None:
    assert sizes(ddp(squares(30), static_graph=True)) == sizes(ddp(squares(30)))


def two_heads(device: Any) -> Any:
    import torch
    import torch.nn as nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(512, 512), nn.Linear(512, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.used(x)
            return out

    return Model().to(device)


def test_unused_parameters_are_found_and_agreed_upon() -> None:
    program = ddp(two_heads, find_unused_parameters=True)
    dtypes = [op.inputs[0].dtype for op in reduced(program)]
    assert dtypes.count("int32") == 1
    assert sum(n for n, d in zip(sizes(program), dtypes, strict=True) if d == "float32") == (
        2 * (512 * 512 + 512)
    )


def test_parameters_without_gradients_are_an_error_as_in_a_real_run() -> None:
    with pytest.raises(WorkloadError, match="find_unused_parameters"):
        ddp(two_heads)


def normed(device: Any) -> Any:
    import torch.nn as nn

    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.BatchNorm2d(8)).to(device)


def test_buffers_are_broadcast_before_each_forward() -> None:
    program = ddp(normed, x=(2, 3, 8, 8))
    sent = [op for op in collectives(program) if base(op) == "broadcast_"]
    assert [(op.inputs[0].numel, op.inputs[0].dtype) for op in sent] == [
        (4 * 8, "float32"),
        (2, "int64"),
    ]
    assert {op.phase for op in sent} == {"forward"}
    without = ddp(normed, x=(2, 3, 8, 8), forward_sync_buffers=False)
    assert not any(base(op) == "broadcast_" for op in collectives(without))


def halved(wrapped: Any) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)


def test_a_hook_that_compresses_sends_half_the_bytes_and_overlaps() -> None:
    program = ddp(squares(4), bucket_cap_mb=1, prepare=halved)
    assert {op.inputs[0].dtype for op in reduced(program)} == {"float16"}
    assert sum(sizes(program)) == 4 * 512 * 512
    back = [
        op
        for op in program.ops
        if base(op) == "copy_"
        and [s.dtype for s in op.inputs] == ["float32", "float16"]
        and op.stream
    ]
    assert len(back) == 4  # decompressed beside the backward pass, not in it
    assert [op.waits for op in back] == [(op.index,) for op in reduced(program)]


def test_a_hook_of_ones_own_is_given_the_bucket() -> None:
    seen: list[tuple[int, int, bool]] = []

    def averaged(state: list[tuple[int, int, bool]], bucket: Any) -> Any:
        import torch
        import torch.distributed as dist

        state.append((bucket.index(), len(bucket.parameters()), bucket.is_last()))
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        whole = torch.empty(4 * bucket.buffer().numel(), device=bucket.buffer().device)
        dist.all_gather_into_tensor(whole, bucket.buffer())
        future: Any = torch.futures.Future()
        future.set_result(whole.view(4, -1).mean(0))
        return future

    def prepare(wrapped: Any) -> None:  # DDP refuses annotations that are not its own
        wrapped.register_comm_hook(seen, lambda state, bucket: averaged(state, bucket))

    program = ddp(squares(3), prepare=prepare)
    assert seen[-2:] == [(0, 1, False), (1, 2, True)]
    assert [base(op) for op in collectives(program)] == ["_allgather_base_"] * 2
    assert count(program, "mul") == 0


@pytest.mark.parametrize("name", ["ALLREDUCE", "FP16_COMPRESS"])
def test_builtin_hooks_divide_before_they_reduce(name: str) -> None:
    from torch._C._distributed_c10d import BuiltinCommHookType

    kind = getattr(BuiltinCommHookType, name)
    program = ddp(squares(3), prepare=lambda d: d._register_builtin_comm_hook(kind))
    (division, *_) = [op for op in program.ops if base(op) == "div_"]
    assert division.index < reduced(program)[0].index
    assert reduced(program)[0].inputs[0].dtype == ("float32" if name == "ALLREDUCE" else "float16")


def test_sparse_gradients_are_refused() -> None:
    import torch.nn as nn

    with pytest.raises(WorkloadError, match="sparse"):
        ddp(lambda device: nn.Embedding(8, 4, sparse=True).to(device))


def test_logging_data_can_be_read() -> None:
    found: dict[str, Any] = {}
    ddp(squares(1), prepare=lambda d: found.update(d._get_ddp_logging_data()))
    assert found["world_size"] == 4
    assert found["module_name"] == "Sequential"
