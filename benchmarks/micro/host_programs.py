"""Host time of small made-up programs: what operators cost when they follow each other.

One operator in a loop keeps the CPU's caches warm; in a model a different one comes each time.
These programs (none of them a real model) show the difference, forward and backward. The device
always has less to do than the host. Prints JSON lines: name, mode, seconds (median of 25).

    python benchmarks/micro/host_programs.py > host_programs.jsonl
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

D = "cuda"


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + x)


class Gated(nn.Module):
    """A decoder block in plain PyTorch: rotary-like products, grouped heads, gated MLP."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, width, bias=False)
        self.up, self.gate = nn.Linear(width, 128, bias=False), nn.Linear(width, 128, bias=False)
        self.down = nn.Linear(128, width, bias=False)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        h = self.norm1(x)
        shape = (b, s, self.heads, w // self.heads)
        q = self.q(h).view(shape).transpose(1, 2)
        k = self.k(h).view(shape).transpose(1, 2)
        v = self.v(h).view(shape).transpose(1, 2)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, w))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(Gated() for _ in range(depth))
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        cos = torch.ones(tokens.shape[1], 16, device=tokens.device, dtype=x.dtype)
        sin = torch.zeros_like(cos)
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


class Mixed(nn.Module):
    """Thirty different operators, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)
        self.group = nn.GroupNorm(4, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.linear(x))
        y = F.gelu(y) + torch.tanh(y) * torch.sigmoid(y)
        y = torch.softmax(y, dim=-1) - y.mean(dim=-1, keepdim=True)
        y = torch.cat((y[:, :16], y[:, 16:].neg()), dim=1)
        y = torch.where(y > 0, y.exp(), y.abs().sqrt())
        y = self.group(y.unsqueeze(-1)).squeeze(-1)
        y = F.dropout(y, 0.1, training=True).clamp(-3, 3)
        y = torch.bmm(y.view(4, 4, 32), y.view(4, 32, 4)).flatten(1)
        y = torch.stack((y, y.square()), dim=0).amax(dim=0)
        y = y.pow(2).mean(-1).rsqrt().log1p()
        return y.cumsum(0).sum()


def programs() -> dict[str, tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]]:
    x4 = torch.randn(2, 16, 8, 8, device=D)
    tokens = torch.randint(0, 100, (2, 8), device=D)
    flat = torch.randn(16, 32, device=D)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True), 4
    ).to(D)
    x3 = torch.randn(2, 8, 64, device=D)
    wide = [m for _ in range(8) for m in (nn.Linear(32, 32), nn.ReLU())]
    normed = [
        m for _ in range(8)
        for m in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1))
    ]  # fmt: skip
    return {
        "residual8": (
            nn.Sequential(*[Residual(16) for _ in range(8)]).to(D), lambda m: m(x4).mean()
        ),
        "decoder6": (Decoder(6).to(D), lambda m: m(tokens)),
        "decoder6_bf16": (Decoder(6).to(D, torch.bfloat16), lambda m: m(tokens)),
        "encoder4": (encoder, lambda m: m(x3).sum()),
        "mlp8": (nn.Sequential(*wide).to(D), lambda m: m(flat).sum()),
        "normed8": (nn.Sequential(*normed).to(D), lambda m: m(flat).sum()),
        "mixed": (Mixed().to(D), lambda m: m(flat)),
    }  # fmt: skip


def main() -> None:
    results = []
    for name, (model, forward) in programs().items():
        model.train()
        optimizer = torch.optim.AdamW(model.parameters())
        times: dict[str, list[float]] = {
            k: [] for k in ("no_grad", "grad", "backward", "autocast", "step", "zero", "whole")
        }

        def timed(key: str, call: Callable[[], object], times: dict = times) -> object:
            torch.cuda.synchronize()
            started = time.perf_counter()
            out = call()
            times[key].append(time.perf_counter() - started)
            return out

        def plain(model: nn.Module = model, forward: Callable = forward) -> None:
            with torch.no_grad():
                forward(model)

        def cast(model: nn.Module = model, forward: Callable = forward) -> None:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                forward(model)

        def whole(
            model: nn.Module = model, forward: Callable = forward, optimizer: object = optimizer
        ) -> None:
            optimizer.zero_grad(set_to_none=True)
            forward(model).backward()
            optimizer.step()

        for _ in range(30):
            timed("no_grad", plain)
            timed("autocast", cast)
            loss = timed("grad", lambda: forward(model))
            timed("backward", loss.backward)
            timed("step", optimizer.step)
            timed("zero", lambda: optimizer.zero_grad(set_to_none=True))
        for _ in range(40):
            timed("whole", whole)
        for key, values in times.items():
            results.append({"program": name, "mode": key, "seconds": statistics.median(values[5:])})
    for row in results:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
