"""Experts with biases and clamped gates: the numbers, and which work Megatron-LM has for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_decoders import BIASED
from torch.nn import functional

from gpuscope.api import capture
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.networks.biased_experts import BiasedExperts, rows_of_each
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Op

COUNTS = torch.tensor([5, 0, 8, 3])


def _experts(**how: bool) -> BiasedExperts:
    assert BIASED.experts is not None
    torch.manual_seed(0)
    made = BiasedExperts(BIASED, BIASED.experts, grouped=False, **how)
    for name in ("up_bias", "gate_bias", "down_bias"):
        torch.nn.init.normal_(getattr(made, name))
    return made


def test_every_row_gets_the_bias_of_its_expert_and_a_gate_within_its_limit() -> None:
    made, tokens = _experts(), torch.randn(16, 32)
    owner = torch.repeat_interleave(torch.arange(4), COUNTS)
    for row, expert in enumerate(owner):
        gate = tokens[row] @ made.gate[expert] + made.gate_bias[expert]
        value = tokens[row] @ made.up[expert] + made.up_bias[expert]
        inner = functional.silu(gate.clamp(max=0.05)) * value.clamp(-0.05, 0.05)
        expected = inner @ made.down[expert] + made.down_bias[expert]
        assert torch.allclose(made(tokens, COUNTS)[row], expected, atol=1e-6)


def test_the_last_bias_in_float32_steps_gives_the_same_numbers_and_gradients() -> None:
    found = []
    for fused in (False, True):
        made = _experts(fused=fused)
        made.gated = made.gated_halves = lambda gate, up, act: act(gate) * up  # not compiled
        tokens = torch.linspace(-1, 1, 16 * 32).view(16, 32)
        made(tokens, COUNTS).square().sum().backward()
        found.append([p.grad for p in made.parameters()])
    assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))


def test_rows_are_spread_evenly_where_tensors_hold_no_values() -> None:
    assert rows_of_each(COUNTS, 16) == [5, 0, 8, 3]
    assert rows_of_each(torch.empty(4, device="meta"), 14) == [4, 4, 3, 3]


def _worked(software: Software, part: str) -> list[Op]:
    assert BIASED.experts is not None
    size = replace(BIASED, hidden=64, experts=replace(BIASED.experts, ffn=32))
    plan = ParallelOptions(world=1, microbatch=1, software=software)
    program = capture(size, options=WorkloadOptions(seq=16, parallel=plan))
    return [op for op in program.ops if op.module.endswith(f"experts.{part}") and not op.view]


def test_the_first_bias_is_part_of_its_product() -> None:
    together = {"fused_projections": True}
    assert _worked(Software(**together), "first_bias")
    assert not _worked(Software(**together, fused_steps=True), "first_bias")


def test_the_last_bias_moves_what_megatron_moves_for_it() -> None:
    """16 tokens x 2 experts of 64 features; a product in float32, a sum with bfloat16, all put
    together in float32, and the cast: 4 + (2 + 4 + 4) + (4 + 4) + (4 + 2) bytes a feature."""
    ops = _worked(Software(fused_projections=True, fused_steps=True), "last_bias")
    forward = [op for op in ops if op.phase == "forward"]
    wide = [s for op in forward for s in (*op.inputs, *op.outputs) if len(s.shape) == 2]
    rows = [s for s in wide if s.shape[-1] == 64]
    assert sum(s.numel * s.itemsize for s in rows) == BIASED.layers * 32 * 64 * 28


def test_a_fused_grouped_mlp_clamps_and_adds_by_itself() -> None:
    fused = Software(matmul="float8", fused_projections=True, fused_steps=True, fused_experts=True)
    for part in ("first_bias", "clamp", "last_bias"):
        assert not _worked(fused, part)
        assert part == "first_bias" or _worked(replace(fused, fused_experts=False), part)


def test_matrices_with_biases_are_not_cut_over_ranks() -> None:
    plan = ParallelOptions(world=2, microbatch=1, etp=2)
    with pytest.raises(InvalidValueError, match="biases"):
        capture(BIASED, options=WorkloadOptions(seq=16, parallel=plan))
