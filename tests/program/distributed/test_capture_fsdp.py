"""`fully_shard` in all its forms: collectives by count and bytes, overlap, memory by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from job import base, collectives, count, joined, linears, peak_bytes, training

from gpuscope.program.capture import capture
from gpuscope.program.types import Program
from gpuscope.program.world import World

RANKS, LAYERS, WIDTH, ROWS = 8, 3, 1024, 64
WEIGHT = WIDTH * WIDTH * 4
"""Bytes of one layer's weight in float32."""


def sharded(device: Any, **options: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    model = linears(LAYERS, WIDTH, device)
    for layer in model:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def captured(
    make: Callable[[Any], Any] = sharded, ranks: int = RANKS, rank: int = 1, **options: Any
) -> Program:
    def build() -> Callable[[], object]:
        import torch

        device = joined()
        x = torch.randn(ROWS, WIDTH, device=device)
        return training(make(device), x, **options)

    return capture(build, world=World(ranks, rank))


@pytest.fixture(scope="module")
def plain() -> Program:
    return captured()


def numels(program: Program, name: str) -> list[tuple[int, int]]:
    """(elements read, elements written) of each collective of that name."""
    return [
        (op.inputs[-1].numel, op.outputs[0].numel)
        for op in collectives(program)
        if base(op) == name
    ]


def test_parameters_are_gathered_twice_and_gradients_scattered_once(plain: Program) -> None:
    whole, part = WIDTH * WIDTH, WIDTH * WIDTH // RANKS
    assert numels(plain, "_allgather_base_") == [(part, whole)] * (2 * LAYERS)
    assert numels(plain, "_reduce_scatter_base_") == [(whole, part)] * LAYERS
    assert len(collectives(plain)) == 3 * LAYERS
    assert plain.parameters == LAYERS * WIDTH * WIDTH


def test_copies_are_the_kernels_that_cuda_runs(plain: Program) -> None:
    assert count(plain, "split_with_sizes_copy") == 2 * LAYERS
    assert count(plain, "_chunk_cat") == LAYERS
    assert not any(op.name.startswith("fsdp::") for op in plain.ops)
    copies = [op for op in plain.ops if base(op) == "_foreach_copy_" and op.stream]
    assert len(copies) == 2 * LAYERS


def test_gathering_overlaps_with_computing(plain: Program) -> None:
    """No all-gather of the forward pass waits, even indirectly, for a matmul of it."""

    def reached(index: int) -> set[int]:
        """Everything of this step that must be done before operator `index` runs."""
        out: set[int] = set()
        todo = [index]
        while todo:
            op = plain.ops[todo.pop()]
            before = [w for w in op.waits if w >= 0]
            if op.group < 0:  # its stream's operators before it
                before += [
                    o.index
                    for o in plain.ops[: op.index]
                    if o.stream == op.stream and not o.view and o.group < 0
                ]
            todo += [w for w in before if w not in out]
            out.update(before)
        return out

    forward = [op for op in plain.ops if op.phase == "forward"]
    gathers = [op for op in forward if base(op) == "_allgather_base_"]
    products = [op.index for op in forward if base(op) == "mm"]
    assert products[0] not in reached(gathers[1].index)
    assert gathers[0].index in reached(products[0])
    assert gathers[1].index in reached(products[1])
    # The third reuses the buffer of the first: it waits for its copy-out, which is on the
    # computing stream after the first layer's matmul.
    assert products[1] not in reached(gathers[2].index)


def test_gradients_wait_for_their_scattering(plain: Program) -> None:
    scatters = [op for op in collectives(plain) if base(op) == "_reduce_scatter_base_"]
    first = next(op for op in plain.ops if op.phase == "optimizer" and op.waits)
    assert first.waits == (scatters[-1].index,)
    assert {op.stream for op in scatters} == {scatters[0].stream}
    assert scatters[0].stream not in (0, next(iter(collectives(plain))).stream)


def test_memory_by_hand(plain: Program) -> None:
    """The largest moment: the weight gradient of the middle layer has just been computed.

    Held then in full: its weight, the gradient, the next layer's gathered buffer (prefetched), the
    buffer that the last layer's gradient is being scattered from. Sharded: the parameters, two
    states each, and one gradient. And the small ones: input, activations, their gradients.
    """
    full = peak_bytes(plain, "communication", "temporary")
    rows = ROWS * WIDTH * 4
    assert 4 * WEIGHT <= full <= 4 * WEIGHT + 2 * rows
    held = [s for s in plain.storages if s.born < 0]
    kinds = {
        kind: sum(s.nbytes for s in held if s.category == kind)
        for kind in ("parameter", "optimizer_state", "input", "communication")
    }
    assert kinds == {
        "parameter": LAYERS * WEIGHT // RANKS,
        "optimizer_state": 2 * LAYERS * WEIGHT // RANKS,
        "input": rows,
        "communication": 0,
    }
    gradients = [s for s in plain.storages if s.category == "gradient"]
    assert [s.nbytes for s in gradients] == [WEIGHT // RANKS] * LAYERS


def test_unsharded_parameters_are_communication_memory(plain: Program) -> None:
    whole = [s for s in plain.storages if s.label == "unsharded weight"]
    assert [s.nbytes for s in whole] == [WEIGHT] * (2 * LAYERS)
    assert [s.module for s in whole] == ["0", "1", "2", "2", "1", "0"]
    assert {s.category for s in whole} == {"communication"}
    assert all(s.born >= 0 and s.died is not None for s in whole)


def test_gathered_memory_is_named_by_what_it_holds() -> None:
    """A norm and the head are one group; the norm's hook gathers it, the head's weights fill it."""

    def headed(device: Any) -> Any:
        import torch
        from torch import nn
        from torch.distributed.fsdp import fully_shard

        body = linears(2, WIDTH, device)
        head = nn.Linear(WIDTH, 4 * WIDTH, bias=False, device=device)
        model = torch.nn.Sequential(body, nn.LayerNorm(WIDTH, device=device), head)
        fully_shard(body)
        fully_shard([model[1], model[2]])
        return fully_shard(model)

    program = captured(headed)
    gathered = {s.module: s.nbytes for s in program.storages if s.label == "gathered weights"}
    assert set(gathered) == {"0", "2"}  # the two layers of one group; the head
    assert gathered["2"] == 4 * WEIGHT + 2 * WIDTH * 4
    assert not any(s.label.startswith("all-gather") for s in program.storages)


def test_the_size_of_the_job_changes_only_the_shards() -> None:
    small, large = captured(ranks=2), captured(ranks=64, rank=63)
    assert [op.name for op in small.ops] == [op.name for op in large.ops]
    assert large.groups[0].size == 64
    assert numels(large, "_allgather_base_")[0] == (WIDTH * WIDTH // 64, WIDTH * WIDTH)


def test_without_resharding_parameters_are_gathered_once() -> None:
    program = captured(lambda d: sharded(d, reshard_after_forward=False))
    assert len(numels(program, "_allgather_base_")) == LAYERS
    assert peak_bytes(program, "communication") > LAYERS * WEIGHT


def test_resharding_to_fewer_ranks() -> None:
    program = captured(lambda d: sharded(d, reshard_after_forward=2))
    sizes = [
        program.groups[op.group].size
        for op in collectives(program)
        if base(op) == "_allgather_base_"
    ]
    assert sizes == [RANKS] * LAYERS + [2] * LAYERS


def test_mixed_precision_gathers_half_the_bytes() -> None:
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    program = captured(lambda d: sharded(d, mp_policy=policy))
    by_name = {base(op): op.outputs[0].dtype for op in collectives(program)}
    assert by_name == {"_allgather_base_": "bfloat16", "_reduce_scatter_base_": "float32"}
    assert {op.inputs[0].dtype for op in program.ops if base(op) == "mm"} == {"bfloat16"}


def test_hybrid_sharding_scatters_inside_and_reduces_across() -> None:
    def make(device: Any) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
        return sharded(device, mesh=mesh)

    program = captured(make, rank=5)
    labels = [
        (base(op), program.groups[op.group].label, program.groups[op.group].ranks)
        for op in collectives(program)
    ]
    assert labels.count(("_allgather_base_", "shard", (4, 5, 6, 7))) == 2 * LAYERS
    assert labels.count(("_reduce_scatter_base_", "shard", (4, 5, 6, 7))) == LAYERS
    assert labels.count(("allreduce_", "replicate", (1, 5))) == LAYERS
    assert numels(program, "allreduce_") == [(WIDTH * WIDTH // 4,) * 2] * LAYERS


def test_offloaded_parameters_cross_the_bus() -> None:
    def make(device: Any) -> Any:
        from torch.distributed.fsdp import CPUOffloadPolicy

        return sharded("cpu", offload_policy=CPUOffloadPolicy())

    program = captured(make)
    shard = WIDTH * WIDTH // RANKS
    up = [
        op
        for op in program.ops
        if base(op) in ("_to_copy", "copy_")
        and op.inputs[-1].device == "host"
        and op.outputs[0].device == "device"
    ]
    down = [
        op
        for op in program.ops
        if base(op) in ("_to_copy", "copy_")
        and op.inputs[-1].device == "device"
        and op.outputs[0].device == "host"
    ]
    assert sum(op.outputs[0].numel for op in up) >= 2 * LAYERS * shard
    assert [op.outputs[0].numel for op in down] == [shard] * LAYERS
    assert not any(s.category == "optimizer_state" for s in program.storages)


def test_accumulating_gradients_scatters_them_once() -> None:
    micro_batches = 3

    def build() -> Callable[[], object]:
        import torch

        device = joined()
        model = sharded(device)
        x = torch.randn(ROWS, WIDTH, device=device)

        def step() -> None:
            for number in range(micro_batches):
                model.set_requires_gradient_sync(number == micro_batches - 1)
                model.set_is_last_backward(number == micro_batches - 1)
                model(x).sum().backward()
            model.zero_grad()

        return step

    program = capture(build, world=World(RANKS, 1))
    gathered = len(numels(program, "_allgather_base_"))
    assert 2 * LAYERS * micro_batches <= gathered <= (2 * LAYERS + 1) * micro_batches
    assert len(numels(program, "_reduce_scatter_base_")) == LAYERS


def test_forward_prefetch_gathers_the_next_layer_first() -> None:
    def make(device: Any) -> Any:
        model = sharded(device)
        for layer, following in zip(model, list(model)[1:], strict=False):
            layer.set_modules_to_forward_prefetch([following])
        return model

    def before_first_product(program: Program) -> int:
        names = [base(op) for op in program.ops]
        return names[: names.index("mm")].count("_allgather_base_")

    assert before_first_product(captured()) == 1
    assert before_first_product(captured(make)) == 2


def test_checkpointing_gathers_no_more() -> None:
    def make(device: Any) -> Any:
        import torch.nn as nn
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        from torch.distributed.fsdp import fully_shard

        pairs = [linears(2, WIDTH, device) for _ in range(LAYERS)]
        model = nn.Sequential(*[checkpoint_wrapper(pair) for pair in pairs])
        for layer in model:
            fully_shard(layer)
        return fully_shard(model)

    program = captured(make)
    assert len(numels(program, "_allgather_base_")) == 2 * LAYERS
    # Only what the backward pass reads is computed again: the first of each pair.
    assert sum(op.recomputed for op in program.ops if base(op) == "mm") == LAYERS


def test_norms_are_summed_over_the_ranks() -> None:
    def build() -> Callable[[], object]:
        import torch

        model = sharded(joined())
        x = torch.randn(ROWS, WIDTH, device="cuda")

        def step() -> None:
            model(x).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model.zero_grad()

        return step

    program = capture(build, world=World(RANKS))
    reduced = [op for op in collectives(program) if base(op) == "all_reduce"]
    assert reduced
    assert all(op.outputs[0].numel <= LAYERS for op in reduced)


def test_torch_compile_on_top_is_noted() -> None:
    def make(device: Any) -> Any:
        import torch

        return torch.compile(sharded(device), mode="reduce-overhead")

    program = captured(make)
    assert program.compiled == "reduce-overhead"
    assert len(collectives(program)) == 3 * LAYERS


@pytest.mark.parametrize("original", [True, False])
def test_the_first_fsdp(original: bool) -> None:
    def make(device: Any) -> Any:
        import torch.nn as nn
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(
            linears(LAYERS, WIDTH, device),
            auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
            use_orig_params=original,
            device_id=1,
        )

    program = captured(make)
    whole, part = WIDTH * WIDTH, WIDTH * WIDTH // RANKS
    assert numels(program, "_allgather_base_") == [(part, whole)] * (2 * LAYERS)
    assert numels(program, "_reduce_scatter_base_") == [(whole, part)] * LAYERS


def test_sharded_optimizer_states() -> None:
    def build() -> Callable[[], object]:
        import torch
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = linears(4, WIDTH, joined())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
        x = torch.randn(ROWS, WIDTH, device="cuda")

        def step() -> None:
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    program = capture(build, world=World(4, 1))
    assert count(program, "broadcast_") == 4
    states = sum(s.nbytes for s in program.storages if s.category == "optimizer_state")
    assert states == 2 * WEIGHT


def test_a_hugging_face_model() -> None:
    pytest.importorskip("transformers")
    layers, vocabulary = 2, 128

    def build() -> Callable[[], object]:
        import torch
        from torch.distributed.fsdp import fully_shard
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=layers,
            vocab_size=vocabulary,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
        model = LlamaForCausalLM(config).to(joined())
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
        tokens = torch.randint(0, vocabulary, (2, 16), device="cuda")
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step() -> None:
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    program = capture(build, world=World(RANKS))
    gathered = numels(program, "_allgather_base_")
    assert len(gathered) == 2 * layers + 1  # the root's own stay whole until backward is over
    assert count(program, "attention") == layers
    held = sum(s.nbytes for s in program.storages if s.category == "parameter")
    assert held == pytest.approx(4 * program.parameters / RANKS, rel=0.01)


def test_whole_gradients_that_wait_for_later_microbatches_are_gradients() -> None:
    def build() -> Callable[[], object]:
        import torch

        device = joined()
        model = sharded(device)
        x = torch.randn(ROWS, WIDTH, device=device)

        def step() -> None:
            model.set_requires_gradient_sync(False)
            model(x).sum().backward()
            model.set_requires_gradient_sync(True)
            model(x).sum().backward()

        return step

    program = capture(build, world=World(RANKS, 1))
    whole = [s for s in program.storages if s.category == "gradient" and s.nbytes == WEIGHT]
    assert [s.module for s in whole] == ["2", "1", "0"]
