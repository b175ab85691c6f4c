"""Made-up programs in the manner of model libraries: much Python between few operators.

Configuration objects with properties, keyword arguments handed from layer to layer, tables of
attention functions, result objects, a key-value cache. See `host_program_models`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Forward = Callable[[nn.Module], torch.Tensor]


class Settings:
    """A configuration with aliases and properties, every attribute through a Python function."""

    aliases = {"width": "hidden", "n_head": "heads"}  # noqa: RUF012

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattribute__(self, key: str) -> Any:
        if key != "aliases" and key in super().__getattribute__("aliases"):
            key = super().__getattribute__("aliases")[key]
        return super().__getattribute__(key)

    @property
    def implementation(self) -> str:
        """Name of the attention function."""
        return getattr(self, "_implementation", None) or "fused"


@dataclass
class Result:
    """What a model returns: fields that may be absent."""

    logits: torch.Tensor | None = None
    cache: Any = None
    hidden: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None

    def __post_init__(self) -> None:
        known = fields(self)
        self.given = [f.name for f in known if getattr(self, f.name) is not None]


class LayerCache:
    """Keys and values of one layer; grows by concatenation, as a decoding step's does."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys, self.values = keys, values
        self.ready = True

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, options: dict[str, Any] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values, with the new ones; keeps what it had (a step is repeated)."""
        if not self.ready:
            self.keys, self.values = keys, values
        kwargs = dict(options or {})
        kwargs.setdefault("position", None)
        return torch.cat((self.keys, keys), dim=-2), torch.cat((self.values, values), dim=-2)


class StepCache:
    """One `LayerCache` a layer."""

    def __init__(self, layers: list[LayerCache]) -> None:
        self.layers = layers
        self.offloading = False

    def __len__(self) -> int:
        return len(self.layers)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, at: int, options: dict[str, Any] | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's."""
        while len(self.layers) <= at:
            self.layers.append(LayerCache(keys, values))
        if self.offloading:
            raise RuntimeError("never here")
        return self.layers[at].update(keys, values, options)

    def length(self, at: int = 0) -> int:
        """Tokens kept."""
        return 0 if at >= len(self) else int(self.layers[at].keys.shape[-2])


def _accepts_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hand options down and drop those that are None, as libraries' decorators do."""

    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.pop("as_result", None)
        if asked is None:
            asked = getattr(self.settings, "as_result", True)
        kept = {key: value for key, value in kwargs.items() if value is not None}
        out = function(self, *args, **kept)
        if not asked and isinstance(out, Result):
            return (out.logits, out.cache)
        return out

    return wrapper


def _fused_attention(
    module: nn.Module,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    if kwargs.get("output_attentions", False):
        raise RuntimeError("never here")
    options: dict[str, Any] = {}
    if hasattr(module, "groups") and module.groups != 1:
        options = {"enable_gqa": True}
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    causal = q.shape[2] > 1 and mask is None and causal
    y = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling, is_causal=causal, **options
    )
    return y.transpose(1, 2).contiguous(), None


class AttentionTable(dict[str, Callable[..., Any]]):
    """Attention functions by name."""

    def interface(self, name: str | None, default: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or the default where nobody asked for one."""
        if name is None or name == "eager":
            return default
        if name in self:
            return super().__getitem__(name)
        raise KeyError(name)


_TABLE = AttentionTable(fused=_fused_attention)


class FusedLinear(nn.Module):
    """A product with a bias, flattened and shaped back by hand."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.out = out
        self.weight = nn.Parameter(torch.randn(into, out) * 0.02)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        size = (*x.size()[:-1], self.out)
        y = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return y.view(size)


class DressedAttention(nn.Module):
    """Attention that looks its settings up, fills a cache and picks its function by name."""

    def __init__(self, settings: Settings, at: int) -> None:
        super().__init__()
        self.settings, self.at = settings, at
        self.head_size = settings.width // settings.n_head
        self.is_causal, self.groups = True, 1
        self.qkv = FusedLinear(settings.width, 3 * settings.width)
        self.out = FusedLinear(settings.width, settings.width)
        self.drop = nn.Dropout(0.0)

    def forward(
        self,
        x: torch.Tensor,
        cache: StepCache | None = None,
        mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attend to what the cache holds."""
        q, k, v = self.qkv(x).split(self.settings.width, dim=2)
        shape = (*k.shape[:-1], -1, self.head_size)
        q, k, v = (t.view(shape).transpose(1, 2) for t in (q, k, v))
        if cache is not None:
            k, v = cache.update(k, v, self.at, {"position": kwargs.get("positions")})
        attend = _TABLE.interface(self.settings.implementation, _fused_attention)
        dropout = self.settings.dropout if self.training else 0.0
        y, weights = attend(
            self, q, k, v, mask, dropout=dropout, scaling=self.head_size**-0.5, **kwargs
        )
        y = y.reshape(*y.shape[:-2], -1).contiguous()
        return self.drop(self.out(y)), weights


class DressedMLP(nn.Module):
    """Two products with an activation that is made of single operators."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.up = FusedLinear(settings.width, 4 * settings.width)
        self.down = FusedLinear(4 * settings.width, settings.width)
        self.act = nn.SiLU() if settings.single else nn.GELU(approximate="tanh")
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        done: torch.Tensor = self.drop(self.down(self.act(self.up(x))))
        return done


class DressedBlock(nn.Module):
    """Norm, attention, norm, MLP; options pass through; may be checkpointed (never is)."""

    checkpointing = False

    def __init__(self, settings: Settings, at: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(settings.width), nn.LayerNorm(settings.width)
        self.attention, self.mlp = DressedAttention(settings, at), DressedMLP(settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, recomputed or not."""
        if self.checkpointing and self.training:
            raise RuntimeError("never here")
        return super().__call__(*args, **kwargs)

    def forward(
        self,
        x: torch.Tensor,
        cache: StepCache | None = None,
        mask: torch.Tensor | None = None,
        use_cache: bool | None = False,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Run the block."""
        residual = x
        x, _ = self.attention(self.norm1(x), cache=cache, mask=mask, use_cache=use_cache, **kwargs)
        x = x + residual
        done: torch.Tensor = x + self.mlp(self.norm2(x))
        return done


class Dressed(nn.Module):
    """A decoder in the manner of model libraries."""

    def __init__(self, depth: int, *, single: bool = False, heads: int = 1) -> None:
        super().__init__()
        self.settings = Settings(
            hidden=64,
            heads=heads,
            as_result=True,
            dropout=0.0,
            depth=depth,
            single=single,
            **{f"option_{n}": n for n in range(60)},
        )
        self.embed = nn.Embedding(100, 64)
        self.positions = nn.Embedding(64, 64)
        self.blocks = nn.ModuleList(DressedBlock(self.settings, n) for n in range(depth))
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 100, bias=False)

    @_accepts_options
    def forward(
        self,
        tokens: torch.Tensor | None = None,
        cache: StepCache | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Result:
        """Logits of the tokens."""
        assert tokens is not None
        use_cache = use_cache if use_cache is not None else self.settings.as_result
        past = cache.length() if cache is not None else 0
        at = torch.arange(tokens.shape[1], device=tokens.device) + past
        x = self.embed(tokens) + self.positions(at.unsqueeze(0))
        hidden: tuple[torch.Tensor, ...] | None = () if kwargs.get("output_hidden") else None
        for block in self.blocks:
            if hidden is not None:
                hidden = (*hidden, x)
            x = block(x, cache, None, use_cache=use_cache, positions=at, **kwargs)
        return Result(self.head(self.norm(x)), cache, hidden)


def dressed_step(model: Dressed, tokens: torch.Tensor, past: int, dtype: torch.dtype) -> Forward:
    """A forward pass of a `Dressed` model: logits of the last token, with a cache or not."""
    device = tokens.device

    def forward(model: nn.Module) -> torch.Tensor:
        cache = None
        if past:
            cache = StepCache(layers)
        out = model(tokens=tokens, cache=cache, use_cache=bool(past), output_hidden=False)
        logits: torch.Tensor = out.logits
        return logits[:, -1].float().sum()

    heads = int(model.settings.heads)
    layers: list[LayerCache] = []
    if past:
        shape = (tokens.shape[0], heads, past, 64 // heads)
        for _ in model.blocks:
            layers.append(LayerCache(*(torch.randn(shape, device=device, dtype=dtype),) * 2))
    return forward
