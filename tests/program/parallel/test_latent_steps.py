"""Latent attention's queries, keys and values as one kernel each: what they are, and what moves."""

from __future__ import annotations

from dataclasses import replace

import torch
from tiny_decoders import LATENT

from gpuscope.api import capture
from gpuscope.program.models.networks.latent_steps import latent_key, latent_query
from gpuscope.program.models.networks.transformer_attention import LatentAttentionBlock
from gpuscope.program.models.networks.transformer_parts import rotation
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.settings import WorkloadOptions


def test_they_are_those_of_the_steps() -> None:
    torch.manual_seed(0)
    latent = LATENT.latent
    assert latent is not None
    by = rotation(LATENT, 16)
    block = LatentAttentionBlock(LATENT, Software(), latent)
    query, expanded = torch.randn(2, 16, 4 * 12), torch.randn(2, 16, 4 * 16)
    shared = torch.randn(2, 16, 4)
    steps = block._heads(query, expanded, shared, by)
    ours = (
        latent_query(query.unflatten(-1, (4, 12)), by, 4),
        *latent_key(expanded.unflatten(-1, (4, 16)), shared, by, 8),
    )
    for one, other in zip(ours, steps, strict=True):
        assert torch.allclose(one.transpose(1, 2), other)


def test_computed_again_gives_the_same_gradients() -> None:
    latent = LATENT.latent
    assert latent is not None
    x = torch.randn(2, 16, 32)
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        block = LatentAttentionBlock(LATENT, Software(latent_again=again), latent)
        block(x, rotation(LATENT, 16)).square().sum().backward()
        found.append([p.grad for p in block.parameters()])
    assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))


def test_nothing_is_copied_around_attention() -> None:
    """But the gradients of the latent part and of the shared key, which one product reads."""

    def copies(software: Software) -> int:
        size = replace(LATENT, hidden=64)
        options = WorkloadOptions(
            seq=16, parallel=ParallelOptions(world=1, microbatch=1, software=software)
        )
        return sum(
            op.name in ("aten::cat", "aten::clone")
            and not op.region
            and not op.view
            and op.module.endswith("attention")
            for op in capture(size, options=options).ops
        )

    assert copies(Software()) > LATENT.layers
    assert copies(Software(fused_steps=True)) == LATENT.layers
