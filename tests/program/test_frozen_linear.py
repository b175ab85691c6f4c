"""Frozen layers with adapters: what learns, what is computed, what a job's step has."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gpuscope.api import capture  # noqa: E402
from gpuscope.program.models.networks.frozen_linear import AdaptedLinear, FrozenLinear, freeze  # noqa: E402
from gpuscope.program.models.parallel.options import ParallelOptions, Software  # noqa: E402
from gpuscope.program.models.parallel.size import TransformerSize  # noqa: E402
from gpuscope.program.models.settings import WorkloadOptions  # noqa: E402

PRODUCTS = ("aten::mm", "aten::addmm", "aten::linear")
SIZE = TransformerSize(
    layers=2, hidden=256, heads=4, kv_heads=4, head=64, ffn=512, vocabulary=512, context=256
)


def test_it_begins_as_the_layer_and_only_its_adapter_learns() -> None:
    base = nn.Linear(32, 48)
    made = AdaptedLinear(base, torch.float32, 16, float8=False)
    x = torch.randn(5, 32, requires_grad=True)
    torch.testing.assert_close(made(x), base(x))
    made(x).sum().backward()
    assert x.grad is not None
    assert {name for name, _ in made.named_parameters()} == {"lora_a.weight", "lora_b.weight"}
    assert made.lora_b.weight.grad.abs().sum() > 0


def test_in_float8_it_is_the_rounded_product() -> None:
    """Checked by hand in float32: sizes that are no multiples of 16 are left alone."""
    base = nn.Linear(32, 48, bias=False)
    made = FrozenLinear(base, torch.bfloat16, float8=True)
    assert made.float8
    assert torch.equal(made.weight.float().t(), made.swapped.float())
    assert (made.weight.float() - base.weight).abs().max() <= base.weight.abs().max() / 16
    assert not FrozenLinear(nn.Linear(30, 48), torch.bfloat16, float8=True).float8


def test_attention_alone_gets_adapters() -> None:
    block = nn.ModuleDict(
        {"attention": nn.ModuleDict({"qkv": nn.Linear(16, 48)}), "up": nn.Linear(16, 64)}
    )
    model = nn.ModuleDict({"layers": nn.ModuleList([block]), "norm": nn.LayerNorm(16)})
    freeze(model, model["layers"], 4, torch.bfloat16, False)
    assert type(block["attention"]["qkv"]) is AdaptedLinear
    assert type(block["up"]) is FrozenLinear
    learning = [name for name, each in model.named_parameters() if each.requires_grad]
    assert all("lora_" in name for name in learning)
    assert len(learning) == 2
    assert model["norm"].weight.dtype == torch.bfloat16


def _work(program, phase: str) -> float:
    """FLOPs of products, from their shapes."""
    total = 0.0
    for op in program.ops:
        if op.name in PRODUCTS and op.phase == phase and not op.view:
            (rows, inner), (_, columns) = (spec.shape for spec in op.inputs[-2:])
            total += 2.0 * rows * inner * columns * op.repeat
    return total


def test_a_job_computes_no_gradient_of_what_is_frozen() -> None:
    """Full training works twice as much backward as forward, adapters about as much, less the
    first block's inputs; ranks share the adapters' gradients only."""

    def made(rank: int):
        plan = ParallelOptions(world=4, dp=4, fsdp="zero1", software=Software(adapter_rank=rank))
        return capture(SIZE, options=WorkloadOptions(seq=256, parallel=plan))

    full, adapted = made(0), made(16)
    assert _work(full, "backward") == pytest.approx(2 * _work(full, "forward"), rel=0.01)
    share = _work(adapted, "backward") / _work(adapted, "forward")
    assert 0.75 < share < 1.3
    sent = {
        name: sum(
            spec.numel * op.repeat
            for op in program.ops
            if "reduce_scatter" in op.name
            for spec in op.inputs
        )
        for name, program in (("full", full), ("adapted", adapted))
    }
    assert 0 < sent["adapted"] < sent["full"] / 10


def test_a_block_is_replayed_as_two_graphs() -> None:
    plan = ParallelOptions(world=4, dp=4, fsdp="zero1", software=Software(graphs=True))
    program = capture(SIZE, options=WorkloadOptions(seq=256, parallel=plan))
    numbers = {op.graph for op in program.ops if op.graph}
    assert len(numbers) >= 2 * SIZE.layers
    assert all(op.graph == 0 for op in program.ops if op.phase == "optimizer")
    assert all(not op.sync for op in program.ops if op.graph)
