"""A Mamba-2 mixer (Dao & Gu 2024, arXiv:2405.21060): a state a head in place of keys and values.

What lies between its two projections is one operator, as it is one function of mamba_ssm
(`mamba_split_conv1d_scan_combined`): a short convolution, the scan, a gated norm. Really run, it is
plain PyTorch, chunk by chunk; predicted are mamba_ssm's kernels
(`gpuscope.cost.recurrent.state_space`). Kept for the backward pass are its input and what the scan
gives, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import StateSpace, TransformerSize

_EPS = 1e-5


def _scan(
    x: torch.Tensor, steps: torch.Tensor, read: torch.Tensor, write: torch.Tensor,
    decay: torch.Tensor, chunk: int,
) -> torch.Tensor:  # fmt: skip
    """The recurrence s <- exp(dt A) s + dt x B, y = s C, a chunk at a time (the paper's listing 1).

    Args:
        x: (sequences, tokens, heads, head).
        steps: dt, (sequences, tokens, heads).
        read, write: C and B for every head, (sequences, tokens, heads, state).
        decay: A, (heads,).
        chunk: tokens.
    """
    state = x.new_zeros((x.shape[0], *x.shape[2:], read.shape[-1]))
    out = []
    for v, dt, c, b in zip(
        *(torch.split(t, chunk, 1) for t in (x, steps, read, write)), strict=True
    ):
        passed = (dt * decay).cumsum(1)
        since = passed.unsqueeze(2) - passed.unsqueeze(1)
        later = torch.ones(since.shape[1:3], dtype=torch.bool, device=x.device).triu(1)
        weights = since.masked_fill(later[None, :, :, None], float("-inf")).exp()
        v = v * dt.unsqueeze(-1)
        near = torch.einsum("bihn,bjhn,bijh,bjhp->bihp", c, b, weights, v)
        far = torch.einsum("bihn,bih,bhpn->bihp", c, passed.exp(), state)
        out.append(near + far)
        left = (passed[:, -1:] - passed).exp()
        state = state * passed[:, -1, :, None, None].exp()
        state = state + torch.einsum("bjhp,bjh,bjhn->bhpn", v, left, b)
    return torch.cat(out, dim=1)


def _mixed(
    given: Sequence[torch.Tensor], head: int, state: int, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator gives, in float32; see `state_space`."""
    projected, conv_weight, conv_bias, dt_bias, a_log, d, norm_weight = (t.float() for t in given)
    heads, channels = a_log.numel(), conv_weight.shape[0]
    groups = (channels - heads * head) // (2 * state)
    each = heads // groups
    # Group after group, so that a rank that holds a part of the groups runs the same code.
    parts = torch.unflatten(projected, -1, (groups, -1))
    gate, mixed, dt = torch.split(parts, [each * head, each * head + 2 * state, each], dim=-1)
    mixed = F.pad(mixed.flatten(2).transpose(1, 2), (conv_weight.shape[1] - 1, 0))
    mixed = F.silu(F.conv1d(mixed, conv_weight.unsqueeze(1), conv_bias, groups=channels))
    mixed = torch.unflatten(mixed.transpose(1, 2), -1, (groups, -1))
    x, write, read = torch.split(mixed, [each * head, state, state], dim=-1)
    x = torch.unflatten(x, -1, (each, head)).flatten(2, 3)
    write, read = (t.repeat_interleave(each, dim=2) for t in (write, read))
    steps = F.softplus(dt.flatten(2) + dt_bias)
    scanned = _scan(x, steps, read, write, -a_log.exp(), chunk) + x * d[:, None]
    gated = torch.unflatten(scanned.flatten(2), -1, (groups, -1)) * F.silu(gate)
    out = F.rms_norm(gated, gated.shape[-1:], eps=_EPS).flatten(2) * norm_weight
    return out, scanned.flatten(2)


@torch.library.custom_op("gpuscope_networks::state_space", mutates_args=())
def state_space(
    projected: torch.Tensor, conv_weight: torch.Tensor, conv_bias: torch.Tensor,
    dt_bias: torch.Tensor, a_log: torch.Tensor, d: torch.Tensor, norm_weight: torch.Tensor,
    head: int, state: int, chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Convolution, scan and gated norm.

    Args:
        projected: (sequences, tokens, features), group after group: of its heads the gates and
            values, what writes the state, what reads it, and the heads' steps.
        conv_weight, conv_bias: (channels, taps) and (channels,).
        dt_bias, a_log, d: (heads,).
        norm_weight: (heads x head,).
        head, state: widths.
        chunk: tokens of a chunk.

    Returns:
        (sequences, tokens, heads x head), and the same before gate and norm.
    """
    given = (projected, conv_weight, conv_bias, dt_bias, a_log, d, norm_weight)
    out, scanned = _mixed(given, head, state, chunk)
    return out.to(projected.dtype), scanned.to(projected.dtype)


@state_space.register_fake
def _(
    projected: torch.Tensor, conv_weight: torch.Tensor, conv_bias: torch.Tensor,
    dt_bias: torch.Tensor, a_log: torch.Tensor, d: torch.Tensor, norm_weight: torch.Tensor,
    head: int, state: int, chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    shape = (*projected.shape[:2], a_log.shape[0] * head)
    return projected.new_empty(shape), projected.new_empty(shape)


@torch.library.custom_op("gpuscope_networks::state_space_backward", mutates_args=())
def state_space_backward(
    grad: torch.Tensor, projected: torch.Tensor, scanned: torch.Tensor, conv_weight: torch.Tensor,
    conv_bias: torch.Tensor, dt_bias: torch.Tensor, a_log: torch.Tensor, d: torch.Tensor,
    norm_weight: torch.Tensor, head: int, state: int, chunk: int,
) -> list[torch.Tensor]:  # fmt: skip
    """Gradients of what `state_space` takes: tensors as there, `scanned` as it gave it."""
    kept = (projected, conv_weight, conv_bias, dt_bias, a_log, d, norm_weight)
    with torch.enable_grad(), _seen_by_autograd():
        given = [t.detach().requires_grad_() for t in kept]
        out, _ = _mixed(given, head, state, chunk)
        return list(torch.autograd.grad(out, given, grad.to(out.dtype)))


@contextmanager
def _seen_by_autograd() -> Iterator[None]:
    """Inside of an operator nothing is noted for gradients, unless this says so."""
    key = torch._C.DispatchKey.AutogradFunctionality
    before = torch._C._dispatch_tls_is_dispatch_key_excluded(key)
    torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, before)


@state_space_backward.register_fake
def _(
    grad: torch.Tensor, projected: torch.Tensor, scanned: torch.Tensor, conv_weight: torch.Tensor,
    conv_bias: torch.Tensor, dt_bias: torch.Tensor, a_log: torch.Tensor, d: torch.Tensor,
    norm_weight: torch.Tensor, head: int, state: int, chunk: int,
) -> list[torch.Tensor]:  # fmt: skip
    kept = (projected, conv_weight, conv_bias, dt_bias, a_log, d, norm_weight)
    return [torch.empty_like(t) for t in kept]


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, head, state, chunk = inputs
    ctx.save_for_backward(tensors[0], output[1], *tensors[1:])
    ctx.sizes = head, state, chunk


def _gradients(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
    made = state_space_backward(grad.contiguous(), *ctx.saved_tensors, *ctx.sizes)
    return (*made, None, None, None)


state_space.register_autograd(_gradients, setup_context=_keep)


class _Turned(torch.autograd.Function):
    """A copy, and its gradient copied back: what lies tokens first is put sequences first, as
    Megatron-LM does around the scan (megatron/core/ssm/mamba_mixer.py, `_ssm_training`)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The same."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """The same."""
        return grad.clone()


class StateSpaceMixer(nn.Module):
    """A projection to everything, `state_space`, and a projection back.

    Args:
        size: the model.
        software: whether tokens come first between the operators.
        parts: sizes of the mixer.
    """

    def __init__(self, size: TransformerSize, software: Software, parts: StateSpace) -> None:
        super().__init__()
        self.sizes = parts.head, parts.state, parts.chunk
        self.tokens_first = software.tokens_first
        self.into = nn.Linear(size.hidden, parts.projected, bias=False)
        self.conv_weight = nn.Parameter(0.1 * torch.randn(parts.channels, parts.convolution))
        self.conv_bias = nn.Parameter(torch.zeros(parts.channels))
        self.dt_bias = nn.Parameter(torch.zeros(parts.heads))
        self.a_log = nn.Parameter(torch.zeros(parts.heads))
        self.d = nn.Parameter(torch.ones(parts.heads))
        self.norm_weight = nn.Parameter(torch.ones(parts.inner))
        self.out = nn.Linear(parts.inner, size.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        own = (self.conv_weight, self.conv_bias, self.dt_bias, self.a_log, self.d, self.norm_weight)
        projected = self._turned(self.into(x))
        mixed, _ = state_space(projected, *map(_local, own), *self.sizes)
        out: torch.Tensor = self.out(self._turned(mixed))
        return out

    def _turned(self, x: torch.Tensor) -> torch.Tensor:
        """Sequences first; with one sequence both orders are the same."""
        turned: torch.Tensor = x
        if self.tokens_first and x.shape[0] > 1:
            turned = _Turned.apply(x)  # type: ignore[no-untyped-call]
        return turned


def _local(parameter: torch.Tensor) -> torch.Tensor:
    """This rank's heads, where they are spread over ranks."""
    local: torch.Tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return local
