"""A plain decoder-only transformer: whole, or the part of it that one pipeline stage holds.

Pre-norm blocks as in GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023), or a hybrid's of
one part each; every size and choice is in `TransformerSize`.
"""

from __future__ import annotations

import torch
from torch import nn

from gpuscope.program.models.networks.state_space import StateSpaceMixer
from gpuscope.program.models.networks.transformer_attention import make_attention
from gpuscope.program.models.networks.transformer_experts import MixtureOfExperts
from gpuscope.program.models.networks.transformer_loss import next_token_loss
from gpuscope.program.models.networks.transformer_parts import (
    FeedForward,
    Rotation,
    make_norm,
    rotation,
)
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import TransformerSize


class Block(nn.Module):
    """Attention and feed-forward (or experts), each normed before (and, where the model says so,
    after) and added to its input."""

    def __init__(self, size: TransformerSize, software: Software, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(size, software)
        self.attention = make_attention(size, software, layer)
        self.attention_end = make_norm(size, software) if size.result_norm else None
        self.feed_norm = make_norm(size, software)
        self.feed: nn.Module
        if size.experts is not None and size.has_experts(layer):
            self.feed = MixtureOfExperts(size, software, size.experts)
        else:
            self.feed = FeedForward(size, software)
        self.feed_end = make_norm(size, software) if size.result_norm else None

    def forward(self, x: torch.Tensor, by: Rotation | None) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        mixed = self.attention(self.attention_norm(x), by)
        x = x + (mixed if self.attention_end is None else self.attention_end(mixed))
        fed = self.feed(self.feed_norm(x))
        out: torch.Tensor = x + (fed if self.feed_end is None else self.feed_end(fed))
        return out


class HybridBlock(nn.Module):
    """One part, normed before and added to its input (Nemotron-H, arXiv:2504.03624)."""

    def __init__(self, size: TransformerSize, software: Software, layer: int) -> None:
        super().__init__()
        letter = size.pattern[layer]
        self.norm = make_norm(size, software)
        self.attention = make_attention(size, software, layer) if letter == "*" else None
        self.mixer = None
        if letter == "M" and size.states is not None:
            self.mixer = StateSpaceMixer(size, software, size.states)
        self.feed: nn.Module | None = None
        if letter == "E" and size.experts is not None:
            self.feed = MixtureOfExperts(size, software, size.experts)
        elif letter == "-":
            self.feed = FeedForward(size, software)

    def forward(self, x: torch.Tensor, by: Rotation | None) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        normed = self.norm(x)
        if self.attention is not None:
            part: torch.Tensor = self.attention(normed, by)
        else:
            only = self.mixer if self.mixer is not None else self.feed
            assert only is not None
            part = only(normed)
        return x + part


class Transformer(nn.Module):
    """A decoder, or a contiguous part of it.

    Args:
        size: the whole model.
        software: kernels and habits.
        tokens: tokens of a sequence.
        layers: which blocks; all by default.
        first: has the embedding.
        last: has the last norm and the output layer.

    Attributes:
        layers: the blocks.
        cos, sin: rotary positions, (tokens, features), float32.
        places: learned positions' numbers, (tokens,).
    """

    cos: torch.Tensor
    sin: torch.Tensor
    places: torch.Tensor

    def __init__(
        self,
        size: TransformerSize,
        software: Software,
        tokens: int,
        *,
        layers: range | None = None,
        first: bool = True,
        last: bool = True,
    ) -> None:
        super().__init__()
        which = layers if layers is not None else range(size.layers)
        self.embedding = nn.Embedding(size.vocabulary, size.hidden) if first else None
        self.positions = None
        if first and size.positions == "learned":
            self.positions = nn.Embedding(size.context, size.hidden)
        block = HybridBlock if size.pattern else Block
        self.layers = nn.ModuleList(block(size, software, layer) for layer in which)
        self.norm = make_norm(size, software) if last else None
        self.output = nn.Linear(size.hidden, size.vocabulary, bias=False) if last else None
        if size.tied and self.embedding is not None and self.output is not None:
            self.output.weight = self.embedding.weight
        self.loss_chunks = software.loss_chunks
        self.rotates = size.positions == "rope"
        if self.rotates:
            cos, sin = rotation(size, tokens)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)
        if self.positions is not None:
            self.register_buffer("places", torch.arange(tokens), persistent=False)

    @property
    def along(self) -> list[torch.Tensor]:
        """Buffers with one entry a token."""
        found = [self.cos, self.sin] if self.rotates else []
        return [*found, self.places] if self.positions is not None else found

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Run the part.

        Args:
            x: token numbers (sequences, tokens) for the first part, else what the part before
                gave, (sequences, tokens, hidden).
            labels: the token that comes after each, (sequences, tokens).

        Returns:
            The last part: the mean loss (a scalar), or without labels scores (sequences, tokens,
            vocabulary). Others: (sequences, tokens, hidden).
        """
        if self.embedding is not None:
            x = self.embedding(x)
            if self.positions is not None:
                x = x + self.positions(self.places)
        by = (self.cos.to(x.dtype), self.sin.to(x.dtype)) if self.rotates else None
        for block in self.layers:
            x = block(x, by)
        if self.norm is None or self.output is None:
            return x
        x = self.norm(x)
        if labels is None:
            scores: torch.Tensor = self.output(x)
            return scores
        return next_token_loss(self.output, x, labels, self.loss_chunks)
