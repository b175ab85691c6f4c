"""ViT-B/16 training, tuned by hand with PyTorch alone."""

import sys
from pathlib import Path

import torch
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive import vit_b16 as naive


def forward(self, x):
    n, length, width = x.shape
    qkv = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
    return self.proj(out)


def build(batch=64):
    torch.set_float32_matmul_precision("high")
    naive.Attention.forward = forward
    model = naive.ViT().cuda()
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=True)
    images = torch.randn(batch, 3, 224, 224).pin_memory()
    labels = torch.randint(0, 1000, (batch,)).pin_memory()

    def step():
        x = images.cuda(non_blocking=True)
        y = labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
