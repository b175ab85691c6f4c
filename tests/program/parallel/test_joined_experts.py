"""Experts whose gate and up are one product: the same numbers, one product and one cast fewer."""

from __future__ import annotations

from dataclasses import replace

import torch
from tiny_decoders import MIXTURE

from gpuscope.api import capture
from gpuscope.program.models.networks.expert_matrices import ExpertMatrices
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program


def test_one_product_gives_what_two_give() -> None:
    experts = MIXTURE.experts
    assert experts is not None
    torch.manual_seed(0)
    apart = ExpertMatrices(MIXTURE, experts, grouped=True).bfloat16()
    joined = ExpertMatrices(MIXTURE, experts, grouped=True, joined=True).bfloat16()
    assert apart.gate is not None
    assert joined.gate is None
    with torch.no_grad():
        joined.up.copy_(torch.cat((apart.gate, apart.up), dim=-1))
        joined.down.copy_(apart.down)
    tokens, counts = torch.randn(16, 32).bfloat16(), torch.tensor([5, 0, 8, 3])
    assert torch.allclose(joined(tokens, counts), apart(tokens, counts))


def test_a_step_has_fewer_products_and_no_copy_around_the_gate() -> None:
    def step(software: Software) -> Program:
        size = replace(MIXTURE, hidden=64, ffn=64)
        plan = ParallelOptions(world=1, microbatch=1, software=software)
        return capture(size, options=WorkloadOptions(seq=16, parallel=plan))

    def count(program: Program, name: str) -> int:
        return sum(
            op.name == name and not op.view and not op.region and "feed" in op.module
            for op in program.ops
        )

    apart, joined = (step(Software(fused_steps=True, fused_projections=on)) for on in (False, True))
    # One block has experts: gate, up, down forward, each twice backward.
    assert [count(p, "aten::_grouped_mm") for p in (apart, joined)] == [9, 6]
    assert count(joined, "aten::cat") == 0
