"""A small mixture of experts, tuned by hand: grouped products, fused attention, bf16, compiled."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive import experts as naive
from naive.experts import CHOSEN, EXPERTS, HEADS, VOCABULARY, WIDTH


def attention(self, x):
    n, length, _ = x.shape
    q, k, v = (
        part.view(n, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        for part in self.qkv(x).split(WIDTH, dim=2)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.out(y.transpose(1, 2).reshape(n, length, WIDTH))


class Experts(nn.Module):
    """Tokens sorted by expert, then one grouped product for all experts."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 3072) * 0.02)
        self.up_bias = nn.Parameter(torch.zeros(EXPERTS, 3072))
        self.down = nn.Parameter(torch.randn(EXPERTS, 3072, WIDTH) * 0.02)
        self.down_bias = nn.Parameter(torch.zeros(EXPERTS, WIDTH))

    def forward(self, x):
        flat = x.reshape(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), CHOSEN, dim=-1)
        order = chosen.reshape(-1).argsort(stable=True)
        expert = chosen.reshape(-1)[order]
        token = order // CHOSEN
        ends = torch.bincount(expert, minlength=EXPERTS).cumsum(0).to(torch.int32)
        sorted_ = flat[token].to(torch.bfloat16)
        hidden = torch._grouped_mm(sorted_, self.up.to(torch.bfloat16), offs=ends)
        hidden = F.gelu(hidden + self.up_bias[expert])
        out = torch._grouped_mm(
            hidden.to(torch.bfloat16), self.down.to(torch.bfloat16), offs=ends
        )
        out = (out + self.down_bias[expert]) * weights.reshape(-1)[order][:, None]
        return torch.zeros_like(flat).index_add(0, token, out.to(flat.dtype)).view_as(x)


def build(batch=8, seq=1024):
    torch.set_float32_matmul_precision("high")
    naive.Attention.forward = attention
    naive.Experts = Experts
    model = naive.Mixture().cuda()
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, seq + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = compiled(tokens[:, :-1])
            loss = F.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
