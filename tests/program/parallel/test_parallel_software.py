"""Software: what each habit turns the captured program into, and that it still computes right."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from gpuscope.api import capture
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.networks.cast_linear import (
    CastLinear,
    cast_transpose,
    use_cast_products,
)
from gpuscope.program.models.networks.transformer_attention import attend_causally
from gpuscope.program.models.parallel.clip import clip_gradients
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program

SIZE = TransformerSize(
    layers=1, hidden=64, heads=4, kv_heads=4, head=16, ffn=128, vocabulary=256, context=64
)


def _program(software: Software, **plan: object) -> Program:
    parallel = ParallelOptions(software=software, microbatch=1, **plan)  # type: ignore[arg-type]
    return capture(SIZE, options=WorkloadOptions(seq=64, parallel=parallel))


def _names(program: Program) -> Counter[str]:
    counted: Counter[str] = Counter()
    for op in program.ops:
        counted[op.name] += 1
    return counted


def test_float8_products_take_the_place_of_the_blocks_linear_layers() -> None:
    plain, cast = _names(_program(Software())), _names(_program(Software(matmul="float8")))
    layers = 7 * SIZE.layers  # query, key, value, out, up, gate, down
    assert cast["aten::_scaled_mm"] == 3 * layers
    assert cast["gpuscope::cast_transpose"] == 3 * layers
    assert plain["aten::mm"] - cast["aten::mm"] == 3 * layers
    assert cast["aten::mm"] == 3, "the output layer stays"


def test_float8_products_are_cut_by_tensor_parallelism_too() -> None:
    made = _program(Software(matmul="float8"), world=2, tp=2)
    inner = [op for op in made.ops if op.name == "aten::_scaled_mm"]
    assert len(inner) == 3 * 7 * SIZE.layers
    widths = {op.inputs[1].shape for op in inner if op.phase == "forward"}
    assert (64, 32) in widths, "a column-wise layer holds half of its columns"


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("flash_only", "flash_only"), ("efficient", "efficient_only"), ("cudnn", "cudnn")],
)
def test_one_attention_kernel_and_no_other(kind: str, backend: str) -> None:
    made = _program(Software(attention=kind))  # type: ignore[arg-type]
    backends = {op.args["backend"] for op in made.ops if op.name == "gpuscope::attention"}
    assert backends == {backend}


def test_a_fused_softmax_moves_the_scores_once_a_pass() -> None:
    fused = _names(_program(Software(attention="fused_softmax")))
    eager = _names(_program(Software(attention="eager")))
    assert fused["aten::_softmax"] == eager["aten::_softmax"] == SIZE.layers
    assert fused["aten::masked_fill"] == 0 < eager["aten::masked_fill"]


def test_context_parallelism_refuses_attention_in_steps() -> None:
    with pytest.raises(InvalidValueError, match="fused attention"):
        _program(Software(attention="fused_softmax"), world=2, cp=2)


@pytest.mark.parametrize("kind", ["flash_only", "efficient"])
def test_chosen_kernels_give_what_attention_is(kind: str) -> None:
    query, key, value = (torch.randn(1, 2, 8, 16) for _ in range(3))
    wanted = attend_causally(query, key, value, kind="eager")
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert torch.allclose(wanted, found, atol=1e-5)
    assert kind in ("flash_only", "efficient")


def test_a_cast_swaps_rows_and_columns() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    plain, swapped = cast_transpose(x, torch.float8_e4m3fn)
    assert torch.equal(plain.float(), x)
    assert torch.equal(swapped.float(), x.t())


def test_layers_that_do_not_fit_and_routers_stay() -> None:
    blocks = nn.ModuleDict(
        {"fits": nn.Linear(32, 16), "odd": nn.Linear(32, 17), "router": nn.Linear(32, 16)}
    )
    use_cast_products(blocks)
    kinds = {name: type(module) for name, module in blocks.items()}
    assert kinds == {"fits": CastLinear, "odd": nn.Linear, "router": nn.Linear}


def test_gradients_are_scaled_to_a_norm_of_one() -> None:
    first, second, idle = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    first.grad, second.grad = torch.tensor([3.0]), torch.tensor([4.0])
    clip_gradients([first, second, idle])
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad.item() == pytest.approx(0.6, rel=1e-4)
    assert second.grad.item() == pytest.approx(0.8, rel=1e-4)
    assert idle.grad is None


def test_small_gradients_stay_as_they_are() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([0.3, 0.4])
    clip_gradients([parameter])
    assert torch.allclose(parameter.grad, torch.tensor([0.3, 0.4]))
    clip_gradients([nn.Parameter(torch.zeros(1))])


def test_gradients_of_experts_are_clipped_with_the_others() -> None:
    """Their mesh is another than that of the rest, which PyTorch's own clipping refuses."""
    from dataclasses import replace

    from gpuscope.program.models.parallel.size import Experts

    size = replace(SIZE, experts=Experts(count=4, chosen=2, ffn=32))
    parallel = ParallelOptions(software=Software(clip=True), world=4, ep=2, microbatch=1)
    made = capture(size, options=WorkloadOptions(seq=64, parallel=parallel))
    assert any("norm" in op.name for op in made.ops if op.phase != "forward")


def test_gradients_of_experts_in_a_pipeline_are_clipped_with_the_others() -> None:
    from dataclasses import replace

    from gpuscope.api import capture_job, resolve_target
    from gpuscope.program.models.parallel.size import Experts
    from gpuscope.program.world import RankPrograms

    size = replace(SIZE, layers=2, experts=Experts(count=4, chosen=2, ffn=32))
    parallel = ParallelOptions(
        software=Software(clip=True), ep=2, pp=2, fsdp="zero1", microbatch=1, global_batch=8
    )
    made = capture_job(size, resolve_target("8xh200"), WorkloadOptions(seq=64, parallel=parallel))
    assert isinstance(made, RankPrograms)
    assert made.world_size == 8


def test_experts_multiply_in_float8_too() -> None:
    from dataclasses import replace

    from gpuscope.program.models.parallel.size import Experts

    size = replace(SIZE, experts=Experts(count=4, chosen=2, ffn=32))
    parallel = ParallelOptions(software=Software(matmul="float8"), microbatch=1)
    names = _names(capture(size, options=WorkloadOptions(seq=64, parallel=parallel)))
    assert names["aten::_scaled_grouped_mm"] == 3 * 3 * size.layers
    assert names["aten::_grouped_mm"] == 0


def test_float8_products_come_near_those_of_bfloat16() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(64, 32)).bfloat16()
    x = torch.randn(48, 64).bfloat16().requires_grad_()

    def run() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        layers.zero_grad()
        x.grad = None
        out = layers(x)
        out.float().square().sum().backward()
        assert x.grad is not None
        assert layers[0].weight.grad is not None
        return out.detach().clone(), x.grad.clone(), layers[0].weight.grad.clone()

    wanted = run()
    use_cast_products(layers)
    for found, exact in zip(run(), wanted, strict=True):
        error = (found - exact).float().norm() / exact.float().norm()
        assert 0.005 < error < 0.12  # three bits of mantissa forward, two backward
