"""Small made-up programs whose pace is the host's: what calls cost when they follow each other.

One operator in a loop keeps the CPU's caches warm; in a model a different one comes each time, and
Python runs between them. None of these programs is a real model; together they span how many
operators, modules, Python functions and library calls a step is made of. The first family is bare
PyTorch; the second (`host_program_dressed`) is written in the manner of model libraries. Tensors
are tiny, so that any device has less to do than the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpuscope.measurement.bench.host_program_dressed import Dressed, Forward, dressed_step


class Residual(nn.Module):
    """Two convolutions with batch norm beside a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.relu(self.bn1(self.conv1(x)))
        done: torch.Tensor = self.relu(self.bn2(self.conv2(out)) + x)
        return done


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
        """Turn pairs of features."""
        a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        b, s, w = x.shape
        h = self.norm1(x)
        shape = (b, s, self.heads, w // self.heads)
        q = self.q(h).view(shape).transpose(1, 2)
        k = self.k(h).view(shape).transpose(1, 2)
        v = self.v(h).view(shape).transpose(1, 2)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, w))
        h = self.norm2(x)
        done: torch.Tensor = x + self.down(functional.silu(self.gate(h)) * self.up(h))
        return done


class Decoder(nn.Module):
    """A stack of `Gated` blocks with a loss."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(Gated() for _ in range(depth))
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Loss of the tokens."""
        x = self.embed(tokens)
        cos = torch.ones(tokens.shape[1], 16, device=tokens.device, dtype=x.dtype)
        sin = torch.zeros_like(cos)
        for block in self.blocks:
            x = block(x, cos, sin)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


class Mixed(nn.Module):
    """Thirty different operators, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)
        self.group = nn.GroupNorm(4, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run them all."""
        y = self.norm(self.linear(x))
        y = functional.gelu(y) + torch.tanh(y) * torch.sigmoid(y)
        y = torch.softmax(y, dim=-1) - y.mean(dim=-1, keepdim=True)
        y = torch.cat((y[:, :16], y[:, 16:].neg()), dim=1)
        y = torch.where(y > 0, y.exp(), y.abs().sqrt())
        y = self.group(y.unsqueeze(-1)).squeeze(-1)
        y = functional.dropout(y, 0.1, training=True).clamp(-3, 3)
        y = torch.bmm(y.view(4, 4, 32), y.view(4, 32, 4)).flatten(1)
        y = torch.stack((y, y.square()), dim=0).amax(dim=0)
        y = y.pow(2).mean(-1).rsqrt().log1p()
        return y.cumsum(0).sum()


class Scaled(nn.Module):
    """A norm of single operators in float32, as root-mean-square norms are often written."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


class Nested(nn.Module):
    """Modules within modules, little work in each."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.norm = Scaled(64)
        self.inner: nn.Module | None = Nested(depth - 1) if depth else None
        self.scale = nn.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Run it."""
        inner = self.norm(x)
        if self.inner is not None and kwargs.get("go", True):
            inner = self.inner(inner, **kwargs)
        done: torch.Tensor = x + self.scale(inner)
        return done


def _inputs(device: str) -> dict[str, torch.Tensor]:
    return {
        "x4": torch.randn(2, 16, 8, 8, device=device),
        "tokens": torch.randint(0, 100, (2, 8), device=device),
        "one": torch.randint(0, 100, (1, 1), device=device),
        "flat": torch.randn(16, 32, device=device),
        "x3": torch.randn(2, 8, 64, device=device),
        "few": torch.randn(1, 4, 64, device=device, dtype=torch.bfloat16),
    }


def _bare(device: str) -> dict[str, Callable[[], tuple[nn.Module, Forward]]]:
    """Programs in bare PyTorch."""
    t, half = _inputs(device), torch.bfloat16

    def encoder() -> nn.Module:
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(device)

    def wide() -> nn.Module:
        return nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(32, 32), nn.ReLU())])

    def normed() -> nn.Module:
        return nn.Sequential(
            *[
                m
                for _ in range(8)
                for m in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1))
            ]
        )

    def residual() -> nn.Module:
        return nn.Sequential(*[Residual(16) for _ in range(8)])

    return {
        "residual8": lambda: (residual().to(device), lambda m: m(t["x4"]).mean()),
        "decoder6": lambda: (Decoder(6).to(device), lambda m: m(t["tokens"])),
        "decoder6_bf16": lambda: (Decoder(6).to(device, half), lambda m: m(t["tokens"])),
        "encoder4": lambda: (encoder(), lambda m: m(t["x3"]).sum()),
        "mlp8": lambda: (wide().to(device), lambda m: m(t["flat"]).sum()),
        "normed8": lambda: (normed().to(device), lambda m: m(t["flat"]).sum()),
        "mixed": lambda: (Mixed().to(device), lambda m: m(t["flat"])),
        "nested10": lambda: (Nested(10).to(device, half), lambda m: m(t["few"], go=True).sum()),
    }


def _dressed(device: str) -> dict[str, Callable[[], tuple[nn.Module, Forward]]]:
    """Programs in the manner of model libraries: (depth, one operator, tokens, past, dtype)."""
    t, half, single = _inputs(device), torch.bfloat16, torch.float32

    def made(
        depth: int, one_act: bool, tokens: str, past: int, dtype: torch.dtype
    ) -> tuple[nn.Module, Forward]:
        model = Dressed(depth, single=one_act).to(device, dtype)
        return model, dressed_step(model, t[tokens], past, dtype)

    return {
        "dressed8_decode": lambda: made(8, False, "one", 32, half),
        "dressed5_decode": lambda: made(5, True, "one", 16, single),
        "dressed6": lambda: made(6, False, "tokens", 0, single),
    }


def programs(device: str, names: tuple[str, ...] = ()) -> dict[str, tuple[nn.Module, Forward]]:
    """Name -> model and what a forward pass is; the loss or a sum, one number.

    Args:
        device: where the tensors live; under a capture "cuda" needs no GPU.
        names: which to build; all by default.
    """
    known = {**_bare(device), **_dressed(device)}
    return {name: make() for name, make in known.items() if not names or name in names}


NAMES = (
    "residual8",
    "decoder6",
    "decoder6_bf16",
    "encoder4",
    "mlp8",
    "normed8",
    "mixed",
    "nested10",
    "dressed8_decode",
    "dressed5_decode",
    "dressed6",
)
"""All programs."""
