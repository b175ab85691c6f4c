"""DistributedDataParallel as users write it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from setup import init, tokens
from torch.nn.parallel import DistributedDataParallel as DDP


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).cuda()


def gpt2():
    """GPT-2 small, bf16 autocast, DDP with its defaults."""
    init()
    model = DDP(_gpt2())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = tokens(8, 1024, 50257)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()

    return step


def gpt2_accumulate():
    """Four microbatches a step; gradients are reduced with the last."""
    init()
    model = DDP(_gpt2(), gradient_as_bucket_view=True, bucket_cap_mb=50)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = tokens(4, 512, 50257)

    def micro():
        with torch.autocast("cuda", torch.bfloat16):
            model(input_ids=ids, labels=ids).loss.backward()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with model.no_sync():
            for _ in range(3):
                micro()
        micro()
        optimizer.step()

    return step


def resnet50():
    """ResNet-50 from gpuscope's own networks, channels last, bf16 autocast, SGD."""
    from gpuscope.program.models.networks.resnet import ResNet

    init()
    model = ResNet((3, 4, 6, 3), bottleneck=True).cuda().to(memory_format=torch.channels_last)
    model = DDP(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def zero1():
    """GPT-2 medium with its optimizer's states spread over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from transformers import GPT2Config, GPT2LMHeadModel

    init()
    config = GPT2Config(
        n_embd=1024, n_layer=24, n_head=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    model = DDP(GPT2LMHeadModel(config).cuda(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4, fused=True
    )
    ids = tokens(4, 1024, 50257)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()

    return step
