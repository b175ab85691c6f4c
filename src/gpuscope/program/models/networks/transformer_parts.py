"""Parts of a decoder: norms, rotary positions, feed-forward."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.fused_steps import one_kernel
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import TransformerSize

Rotation = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, (tokens, rotated features), in the dtype of what they turn."""


class RMSNormSteps(nn.Module):
    """Root-mean-square norm (Zhang and Sennrich 2019) as separate steps in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) -> the same."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * normed.to(x.dtype)


def make_norm(size: TransformerSize, software: Software, width: int = 0) -> nn.Module:
    """The model's norm over `width` features (a token's by default)."""
    if size.norm == "layer" and not width:
        return nn.LayerNorm(size.hidden, eps=1e-5, bias=size.norm_bias)
    if software.fused_norm:
        return nn.RMSNorm(width or size.hidden, eps=1e-5)
    return RMSNormSteps(width or size.hidden)


def rotation(size: TransformerSize, tokens: int) -> Rotation:
    """Cosines and sines of rotary positions (Su et al. 2021) for `tokens` positions, float32."""
    features = size.latent.rope_head if size.latent else int(size.head * size.rope_share)
    steps = torch.arange(0, features, 2, dtype=torch.float32) / features
    angles = torch.outer(torch.arange(tokens, dtype=torch.float32), size.rope_base**-steps)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos() * size.rope_factor, angles.sin() * size.rope_factor


def rotate(x: torch.Tensor, by: Rotation) -> torch.Tensor:
    """Turn the leading features of every head.

    Args:
        x: (sequences, heads, tokens, features).
        by: for the same tokens and of the same dtype, perhaps fewer features.
    """
    cos, sin = by
    rest = None
    if cos.shape[-1] < x.shape[-1]:
        x, rest = torch.split(x, [cos.shape[-1], x.shape[-1] - cos.shape[-1]], dim=-1)
    first, second = x.chunk(2, dim=-1)
    turned = x * cos + torch.cat((-second, first), dim=-1) * sin
    return turned if rest is None else torch.cat((turned, rest), dim=-1)


def _squared_relu(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x).square()


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATION: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "relu2": _squared_relu,
}


def activated(size: TransformerSize, software: Software) -> Callable[[torch.Tensor], torch.Tensor]:
    """The activation of a part without a gate, one kernel where the software fuses steps."""
    steps = software.fused_steps and not size.gated and size.activation == "relu2"
    return one_kernel(ACTIVATION[size.activation], steps)


def gated(
    gate: torch.Tensor, up: torch.Tensor, act: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The activation of the gate times what it lets through."""
    return act(gate) * up


def gated_halves(joined: torch.Tensor, act: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The same of a product that gives the gate, then what it lets through."""
    gate, up = joined.chunk(2, dim=-1)
    return gated(gate, up, act)


class FeedForward(nn.Module):
    """Two projections with an activation between, or three with a gate.

    Args:
        size: the model.
        software: whether gate and up are one product.
        ffn: width inside; the model's own by default.
    """

    def __init__(self, size: TransformerSize, software: Software, ffn: int = 0) -> None:
        super().__init__()
        ffn = ffn or size.ffn
        self.activation = size.activation
        self.fused = size.gated and software.fused_projections
        self.gated = one_kernel(gated, software.fused_steps and size.gated)
        self.gated_halves = one_kernel(gated_halves, software.fused_steps and self.fused)
        self.act = activated(size, software)
        wide = 2 * ffn if self.fused else ffn
        self.up = nn.Linear(size.hidden, wide, bias=size.mlp_bias)
        self.gate = None
        if size.gated and not self.fused:
            self.gate = nn.Linear(size.hidden, ffn, bias=size.mlp_bias)
        self.down = nn.Linear(ffn, size.hidden, bias=size.mlp_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> the same."""
        act = ACTIVATION[self.activation]
        if self.fused:
            inner = self.gated_halves(self.up(x), act)
        elif self.gate is not None:
            inner = self.gated(self.gate(x), self.up(x), act)
        else:
            inner = self.act(self.up(x))
        out: torch.Tensor = self.down(inner)
        return out
