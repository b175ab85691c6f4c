"""DTensor, tensor parallelism and context parallelism: collectives and local work by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from job import base, collectives, count, joined

from gpuscope.program.capture import capture
from gpuscope.program.types import Program
from gpuscope.program.world import World

TP, WIDTH, ROWS = 4, 64, 16


def captured(make: Callable[[Any, Any], Callable[[], object]], *, rank: int = 1) -> Program:
    """Capture what `make(device, mesh)` returns, on a mesh of one dimension "tp"."""

    def build() -> Callable[[], object]:
        from torch.distributed.device_mesh import init_device_mesh

        device = joined()
        return make(device, init_device_mesh("cuda", (TP,), mesh_dim_names=("tp",)))

    return capture(build, world=World(TP, rank))


def feed_forward(device: Any) -> Any:
    import torch.nn as nn

    layers = (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
    return nn.Sequential(*layers).to(device)


def products(program: Program, phase: str) -> list[tuple[tuple[int, ...], ...]]:
    return [
        tuple(spec.shape for spec in op.inputs[-2:])
        for op in program.ops
        if base(op) in ("mm", "addmm") and op.phase == phase
    ]


def test_columns_then_rows_reduce_once_each_way() -> None:
    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        model = parallelize_module(
            feed_forward(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}
        )
        x = torch.randn(ROWS, WIDTH, device=device, requires_grad=True)

        def step() -> None:
            model(x).sum().backward()
            model.zero_grad()

        return step

    program = captured(make)
    hidden = 4 * WIDTH // TP
    assert products(program, "forward") == [
        ((ROWS, WIDTH), (WIDTH, hidden)),
        ((ROWS, hidden), (hidden, WIDTH)),
    ]
    forward, backward = collectives(program)
    assert base(forward) == base(backward) == "all_reduce"
    assert forward.outputs[0].shape == backward.outputs[0].shape == (ROWS, WIDTH)
    assert (forward.phase, backward.phase) == ("forward", "backward")
    assert program.groups[0].label == "tp"
    weights = [s.nbytes for s in program.storages if s.category == "parameter"]
    assert sorted(weights) == sorted(4 * n for n in (hidden * WIDTH, hidden, WIDTH * hidden, WIDTH))
    assert program.parameters == 2 * 4 * WIDTH * WIDTH + 5 * WIDTH


def test_what_does_not_need_the_sum_runs_meanwhile() -> None:
    """A result of a functional collective is waited for when it is used, and not before."""

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor import DTensor, Partial, Replicate

        def step() -> None:
            x = DTensor.from_local(torch.ones(8, 8, device=device), mesh, [Partial()])
            whole = x.redistribute(mesh, [Replicate()], async_op=True)
            other = torch.ones(8, 8, device=device).exp()
            (whole.to_local() + other).sum()

        return step

    program = captured(make)
    names = [base(op) for op in program.ops]
    assert names.index("all_reduce") < names.index("exp") < names.index("wait_tensor")


def test_sequence_parallel_gathers_and_scatters() -> None:
    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        import torch.nn as nn
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            PrepareModuleInput,
            RowwiseParallel,
            SequenceParallel,
            parallelize_module,
        )

        model = nn.Sequential(nn.LayerNorm(WIDTH, device=device), feed_forward(device))
        parallelize_module(
            model,
            mesh,
            {
                "0": SequenceParallel(sequence_dim=1),
                "1": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Shard(1)),
                "1.0": ColwiseParallel(input_layouts=Shard(1)),
                "1.2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )
        x = torch.randn(2, ROWS // TP, WIDTH, device=device)
        return lambda: model(x).sum().backward()

    program = captured(make)
    forward = [base(op) for op in collectives(program) if op.phase == "forward"]
    assert forward == ["all_gather_into_tensor", "reduce_scatter_tensor"]
    (norm,) = [op for op in program.ops if base(op) == "native_layer_norm"]
    assert norm.inputs[0].shape == (2, ROWS // TP, WIDTH)


def test_loss_on_sharded_logits_moves_only_rows() -> None:
    classes = 512

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        import torch.nn as nn
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            loss_parallel,
            parallelize_module,
        )

        model = parallelize_module(
            nn.Linear(WIDTH, classes, bias=False).to(device),
            mesh,
            ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        )
        x = torch.randn(ROWS, WIDTH, device=device)
        y = torch.randint(0, classes, (ROWS,), device=device)

        def step() -> None:
            with loss_parallel():
                torch.nn.functional.cross_entropy(model(x), y).backward()
            model.zero_grad()

        return step

    program = captured(make)
    assert collectives(program)
    assert max(op.outputs[0].numel for op in collectives(program)) == ROWS
    assert ((ROWS, WIDTH), (WIDTH, classes // TP)) in products(program, "forward")


def test_plain_dtensors() -> None:
    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor, randn

        rows = distribute_tensor(torch.randn(8, 8, device=device), mesh, [Shard(0)])
        columns = randn(8, 8, device_mesh=mesh, placements=[Shard(1)])

        def step() -> None:
            assert rows.device == device
            assert rows.is_cuda
            assert rows.to_local().shape == columns.to_local().t().shape == (2, 8)
            assert rows.redistribute(mesh, [Replicate()]).to_local().shape == (8, 8)
            assert rows.redistribute(mesh, [Shard(1)]).to_local().shape == (8, 2)
            assert columns.full_tensor().shape == (8, 8)
            assert rows.cpu().to_local().device.type == "cpu"

        return step

    program = captured(make)
    names = [base(op) for op in collectives(program)]
    assert names.count("all_gather_into_tensor") == 2
    assert names.count("alltoall_") == 1
    assert len(names) == 3
    (down,) = [op for op in program.ops if base(op) == "_to_copy"]
    assert (down.outputs[0].device, down.sync) == ("host", "blocking_copy")


def test_fused_kernels_of_sharded_tensors_are_those_of_cuda() -> None:
    heads, length, size = 8, 32, 16

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        import torch.nn.functional as functional
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        def sharded(*shape: int, placement: Any) -> Any:
            x = torch.randn(*shape, device=device, dtype=torch.bfloat16)
            return distribute_tensor(x, mesh, [placement]).requires_grad_()

        q, k, v = (sharded(2, heads, length, size, placement=Shard(1)) for _ in range(3))
        scale = sharded(size, placement=Replicate())

        def step() -> None:
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            out = functional.rms_norm(out, (size,), scale)
            functional.dropout(out, 0.1).sum().backward()
            for tensor in (q, k, v, scale):
                tensor.grad = None

        return step

    program = captured(make)
    for name in ("attention", "attention_backward", "native_dropout"):
        assert count(program, name) == 1, name
    assert count(program, "rms_norm") == count(program, "rms_norm_backward") == 1
    (attention,) = [op for op in program.ops if base(op) == "attention"]
    assert attention.name == "gpuscope::attention"
    assert attention.inputs[0].shape == (2, heads // TP, length, size)
    assert attention.args["causal"] is True


def test_python_of_sharding_rules_is_counted_as_in_a_steady_step() -> None:
    """DTensor's dispatch costs Python; working out a sharding for the first time costs far more."""

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor import Shard, distribute_tensor

        x = distribute_tensor(torch.ones(8, 8, device=device), mesh, [Shard(0)])
        local = torch.ones(2, 8, device=device)
        steps: list[int] = []

        def step() -> None:
            steps.append(1)
            local.exp()
            local.exp()
            x.exp()
            if len(steps) > 1:
                x.tanh()  # for the first time

        return step

    program = captured(make)
    _, plain, known, new = (op for op in program.ops if not op.view)
    assert plain.python_calls < known.python_calls < 300
    assert new.python_calls < 1.5 * known.python_calls + 50
    again = captured(make)
    assert [op.python_calls for op in again.ops] == [op.python_calls for op in program.ops]


@pytest.mark.parametrize("method", ["allgather", "alltoall"])
def test_context_parallel_attention(method: str) -> None:
    batch, heads, length, size = 2, 4, 64, 16

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        import torch.nn.functional as functional
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import set_rotate_method

        set_rotate_method(method)
        shape = (batch, heads, length, size)

        def step() -> None:
            q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
            with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
                for tensor in (q, k, v):
                    assert tensor.shape == (batch, heads, length // TP, size)
                    tensor.requires_grad_()
                functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
                for tensor in (q, k, v):
                    tensor.requires_grad_(False)

        return step

    program = captured(make)
    forward = [op for op in program.ops if base(op) == "attention"]
    assert len(forward) == count(program, "attention_backward") == TP
    part = length // TP
    assert {op.inputs[0].shape[2] for op in forward} == {part, part // 2}
    both = 2 * batch * heads * part * size  # keys and values
    rotations = [op for op in collectives(program) if op.phase == "forward"]
    name, times = {
        "allgather": ("all_gather_into_tensor", 1),
        "alltoall": ("all_to_all_single", TP - 1),
    }[method]
    assert [base(op) for op in rotations] == [name] * times
    assert {op.inputs[0].numel for op in rotations} == {both}
    assert program.ops[rotations[0].index + 1].index not in rotations[0].waits


def test_fsdp_over_tensor_parallel() -> None:
    def build() -> Callable[[], object]:
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        device = joined()
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
        model = feed_forward(device)
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["dp"])
        x = torch.randn(ROWS, WIDTH, device=device)

        def step() -> None:
            model(x).sum().backward()
            model.zero_grad()

        return step

    program = capture(build, world=World(4, 3))
    found = {
        (base(op), program.groups[op.group].label, program.groups[op.group].ranks)
        for op in collectives(program)
    }
    assert found == {
        ("_allgather_base_", "dp", (1, 3)),
        ("_reduce_scatter_base_", "dp", (1, 3)),
        ("all_reduce", "tp", (2, 3)),
    }
    quarter = 2 * (4 * WIDTH * WIDTH // 4) + WIDTH + WIDTH // 2
    held = sum(s.nbytes for s in program.storages if s.category == "parameter")
    assert held == 4 * quarter
    assert [(d.name, d.size) for d in program.mesh] == [("dp", 2), ("tp", 2)]


def test_autocast_goes_for_sharded_tensors() -> None:
    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        weight = distribute_tensor(torch.ones(8, 8, device=device), mesh, [Shard(0)])
        x = distribute_tensor(torch.ones(8, 8, device=device), mesh, [Replicate()])

        def step() -> None:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                assert torch.nn.functional.linear(x, weight).dtype is torch.bfloat16
            assert torch.nn.functional.linear(x, weight).dtype is torch.float32

        return step

    dtypes = [op.inputs[0].dtype for op in captured(make).ops if base(op) == "mm"]
    assert dtypes == ["bfloat16", "float32"]


def test_synchronised_batch_norm_exchanges_statistics() -> None:
    channels = 8

    def build() -> Callable[[], object]:
        import torch
        import torch.nn as nn

        device = joined()
        norm = nn.SyncBatchNorm(channels).to(device)
        x = torch.randn(4, channels, 6, 6, device=device, requires_grad=True)
        return lambda: norm(x).sum().backward()

    program = capture(build, world=World(TP, 1))
    forward, backward = collectives(program)
    assert base(forward) == "_allgather_base_"
    assert forward.inputs[-1].numel == 2 * channels + 1  # means, variances, a count
    assert base(backward) == "allreduce_"
    assert backward.outputs[0].numel == 2 * channels
    assert count(program, "batch_norm_stats") == 1
    assert not program.unsupported


def without_autograd(mode: str, layers: int = 1) -> Program:
    """Layers split by columns, then by rows, run without gradients."""

    def make(device: Any, mesh: Any) -> Callable[[], object]:
        import torch
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        models = [parallelize_module(feed_forward(device), mesh, plan) for _ in range(layers)]
        x = torch.randn(ROWS, 4, WIDTH, device=device)

        def step() -> None:
            with getattr(torch, mode)():
                y = x
                for model in models:
                    y = y + model(y)

        return step

    return captured(make)


def test_sharding_that_is_not_found_is_looked_for_in_every_step() -> None:
    inference, training = without_autograd("inference_mode"), without_autograd("enable_grad")
    sent = [
        [(base(op), op.inputs[0].shape) for op in collectives(p)] for p in (inference, training)
    ]
    assert sent[0] == sent[1]
    work = [sum(op.python_instructions for op in p.ops) for p in (inference, training)]
    assert work[0] > 3 * work[1]


def test_what_a_failed_search_held_is_freed() -> None:
    few, many = (without_autograd("inference_mode", layers) for layers in (4, 12))
    kept = [
        sum(s.nbytes for s in p.storages if s.born >= 0 and s.died is None) for p in (few, many)
    ]
    assert kept[0] == kept[1]
