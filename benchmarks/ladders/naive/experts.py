"""A small mixture of experts as first written: a loop over experts, float32, attention by hand."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

WIDTH, HEADS, EXPERTS, CHOSEN, LAYERS, VOCABULARY = 768, 12, 8, 2, 8, 32000


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        q = q.view(n, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        k = k.view(n, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        v = v.view(n, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        mask = torch.tril(torch.ones(length, length, device=x.device)).view(1, 1, length, length)
        att = att.masked_fill(mask == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        return self.out(y.transpose(1, 2).contiguous().view(n, length, WIDTH))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(WIDTH, 3072), nn.GELU(), nn.Linear(3072, WIDTH))
                for _ in range(EXPERTS)
            ]
        )

    def forward(self, x):
        flat = x.reshape(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), CHOSEN, dim=-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out.index_add_(0, token, expert(flat[token]) * weights[token, place, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.experts = Experts()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.experts(self.norm2(x))


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build(batch=8, seq=1024):
    model = Mixture().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, VOCABULARY, (batch, seq + 1), device="cuda")

    def step():
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
