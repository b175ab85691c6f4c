"""Transformers of other sizes than the built-in ones: ViT-H/14, DiT-S/2."""

import torch
from torch.nn import functional as F  # noqa: N812

from gpuscope.program.models.networks.dit import DiffusionTransformer
from gpuscope.program.models.networks.vit import VisionTransformer


def _step(model, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of()
        loss.backward()
        optimizer.step()

    return step


def vit_h():
    torch.manual_seed(0)
    model = VisionTransformer(patch=14, width=1280, layers=32, heads=16, image=224).cuda().train()
    images = torch.randn(24, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (24,), device="cuda")
    return _step(model, lambda: F.cross_entropy(model(images), labels))


def dit_s():
    torch.manual_seed(0)
    model = DiffusionTransformer(width=384, layers=12, heads=6, patch=2, image=256).cuda().train()
    latents = torch.randn(96, 4, 32, 32, device="cuda")
    noise = torch.randn_like(latents)
    levels = torch.randint(0, 1000, (96,), device="cuda")
    labels = torch.randint(0, 1000, (96,), device="cuda")
    return _step(model, lambda: F.mse_loss(model(latents, levels, labels)[:, :4], noise))
