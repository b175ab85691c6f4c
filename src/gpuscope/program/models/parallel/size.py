"""What a decoder transformer is, in numbers. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

__all__ = [
    "Experts", "LatentAttention", "LinearAttention", "SparseAttention", "StateSpace",
    "TransformerSize", "Window",
]  # fmt: skip

NORMS = ("rms", "layer")
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2")
POSITIONS = ("rope", "learned", "none")
PARTS = ("M", "*", "-", "E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of a block's feed-forward part.

    Attributes:
        count: routed experts of a block.
        chosen: experts that work on each token.
        ffn: width of one expert.
        shared_ffn: width of the experts that work on every token, together; 0 for none.
        dense_layers: leading blocks that keep an ordinary feed-forward part.
        shared_gate: the shared expert's result is weighted by a gate of its own.
        limit: what an expert's gate and what it lets through are clamped to; 0: they are not.
    """

    count: int
    chosen: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0
    shared_gate: bool = False
    limit: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values from a latent.

    Attributes:
        query_rank: width of the queries' latent; 0 projects queries directly.
        key_rank: width of the latent of keys and values.
        plain_head: part of a query's and key's head without positions.
        rope_head: part with rotary positions; the keys' is shared by all heads.
        value_head: width of a value head.
    """

    query_rank: int
    key_rank: int
    plain_head: int
    rope_head: int
    value_head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Blocks whose attention looks back a number of tokens only.

    Attributes:
        tokens: that a query sees, its own included.
        every: of so many blocks one sees everything; 0: none does.
    """

    tokens: int
    every: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Gated delta rule in most blocks (arXiv:2412.06464): a state a sequence, of one size always.

    Attributes:
        key_heads, value_heads: heads of queries and keys, and of values; a state for each of these.
        key_head, value_head: their widths; a state is one by the other.
        convolution: tokens that the short convolution in front of it sees.
        every: of so many blocks one has ordinary attention.
    """

    key_heads: int
    value_heads: int
    key_head: int = 128
    value_head: int = 128
    convolution: int = 4
    every: int = 4

    @property
    def channels(self) -> int:
        """Queries, keys and values side by side, as the convolution sees them."""
        return 2 * self.key_heads * self.key_head + self.value_heads * self.value_head


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace:
    """Mamba-2 mixers (arXiv:2405.21060): a state a head, of one size always.

    Attributes:
        heads: of values; a state each.
        head, state: a state is one by the other.
        groups: of heads, which share what writes and what reads their states.
        convolution: tokens that the short convolution in front of it sees.
        chunk: tokens of a piece of the scan.
    """

    heads: int
    head: int = 64
    state: int = 128
    groups: int = 8
    convolution: int = 4
    chunk: int = 128

    @property
    def inner(self) -> int:
        """Features of all heads."""
        return self.heads * self.head

    @property
    def channels(self) -> int:
        """Values, and what writes and reads the states, as the convolution sees them."""
        return self.inner + 2 * self.groups * self.state

    @property
    def projected(self) -> int:
        """Gates, channels and steps."""
        return self.inner + self.channels + self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAttention:
    """An indexer that scores all keys, and attention to the best of them (arXiv:2512.02556).

    Attributes:
        heads: of the indexer, whose key is one for all of them.
        head: width of its heads.
        chosen: keys that a query attends to.
    """

    heads: int
    head: int = 128
    chosen: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSize:
    """A decoder-only language model.

    Attributes:
        layers: blocks.
        hidden: width of a token.
        heads: query heads.
        kv_heads: key-value heads; fewer than `heads` is grouped-query attention.
        head: width of a head.
        ffn: width of the (dense) feed-forward part.
        vocabulary: rows of the embedding.
        context: longest sequence; the number of learned positions.
        norm: "rms" or "layer".
        gated: the feed-forward part has a gate beside its first projection (SwiGLU, GeGLU).
        activation: one of `ACTIVATIONS`; "relu2" is the squared ReLU.
        positions: "rope", "learned" or "none" (also stands for ALiBi, which adds nothing to the
            matrix work).
        rope_base: base of the rotary frequencies.
        rope_share: share of a head's features that are rotated.
        rope_factor: by which cosines and sines are multiplied (YaRN, arXiv:2309.00071).
        tied: the output layer is the embedding.
        qkv_bias, out_bias, mlp_bias, norm_bias: which parts have biases, experts as feed-forward
            parts (`norm_bias` has a meaning for "layer" only).
        head_norm: queries and keys are normed per head (Qwen3).
        result_norm: what attention and the feed-forward part give is normed too (Gemma 2 and 3).
        experts: a mixture of experts, or None.
        latent: latent attention, or None.
        window: blocks that look back so far only, or None.
        linear: blocks with a state in place of keys and values, or None.
        sparse: a choice of keys in front of latent attention, or None.
        attention_gate: the result of attention is gated, by as many features (Qwen3-Next).
        states: the state-space mixers of a hybrid's blocks, or None.
        pattern: of a hybrid, whose blocks have one part each, a letter a block: "M" a state-space
            mixer, "*" attention, "-" a feed-forward part, "E" experts; "": none is.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    context: int = 2048
    norm: str = "rms"
    gated: bool = True
    activation: str = "silu"
    positions: str = "rope"
    rope_base: float = 10000.0
    rope_share: float = 1.0
    rope_factor: float = 1.0
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = True
    head_norm: bool = False
    result_norm: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: Window | None = None
    linear: LinearAttention | None = None
    sparse: SparseAttention | None = None
    attention_gate: bool = False
    states: StateSpace | None = None
    pattern: str = ""

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be.

        Raises:
            InvalidValueError: a size below 1, heads that do not share keys evenly, more experts
                chosen than there are, or an unknown word.
        """
        for name in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head",
            "ffn",
            "vocabulary",
            "context",
        ):
            if getattr(self, name) < 1:
                raise InvalidValueError(
                    Text(
                        "A transformer with {name} = {given} cannot be.",
                        name=name,
                        given=getattr(self, name),
                    ),
                    Text("{name} counts something.", name=name),
                    Text("Give {name} a positive number.", name=name),
                )
        if self.heads % self.kv_heads:
            raise InvalidValueError(
                Text(
                    "{heads} query heads cannot share {kv_heads} key-value heads.",
                    heads=self.heads,
                    kv_heads=self.kv_heads,
                ),
                Text("Every key-value head serves the same number of query heads."),
                Text("Choose a number of key-value heads that divides {heads}.", heads=self.heads),
            )
        if self.pattern and (len(self.pattern) != self.layers or set(self.pattern) - set(PARTS)):
            raise InvalidValueError(
                Text("'{word}' is no pattern of {layers} blocks.", word=self.pattern,
                     layers=self.layers),
                Text("It has a letter for each, of these: {names}", names=" ".join(PARTS)),
                Text("Give as many letters as layers."),
            )  # fmt: skip
        if self.experts and not 1 <= self.experts.chosen <= self.experts.count:
            raise InvalidValueError(
                Text(
                    "{chosen} of {count} experts cannot be chosen.",
                    chosen=self.experts.chosen,
                    count=self.experts.count,
                ),
                "",
                Text("Choose at least one expert and at most all."),
            )
        for word, allowed in (
            (self.norm, NORMS),
            (self.activation, ACTIVATIONS),
            (self.positions, POSITIONS),
        ):
            if word not in allowed:
                raise InvalidValueError(
                    Text("A transformer has no '{word}'.", word=word),
                    "",
                    Text("Known: {names}.", names=", ".join(allowed)),
                )

    def deep(self, layers: int) -> TransformerSize:
        """The same model with another number of blocks."""
        rounds = -(-layers // max(1, len(self.pattern)))
        return replace(self, layers=layers, pattern=(self.pattern * rounds)[:layers])

    def has_experts(self, layer: int) -> bool:
        """Whether that block has a mixture of experts."""
        if self.pattern:
            return self.pattern[layer] == "E"
        return self.experts is not None and layer >= self.experts.dense_layers

    def has_attention(self, layer: int) -> bool:
        """Whether that block has attention, of whichever kind."""
        return not self.pattern or self.pattern[layer] == "*"

    def is_linear(self, layer: int) -> bool:
        """Whether that block has a state in place of keys and values."""
        return self.linear is not None and (layer + 1) % self.linear.every != 0

    def is_near(self, layer: int) -> bool:
        """Whether that block looks back no further than the window."""
        every = self.window.every if self.window else 1
        return (layer + 1) % every != 0 if every else True

    @property
    def period(self) -> int:
        """Blocks after which their kinds repeat, the leading ones without experts left aside."""
        if self.pattern:
            return self.layers
        return max(1, self.window.every) if self.window else 1

    def kind(self, layer: int) -> tuple[object, ...]:
        """What tells a block from others: equal kinds are equal blocks."""
        near = self.window is not None and self.is_near(layer)
        return self.has_experts(layer), near, self.pattern[layer : layer + 1]

    def attended(self, tokens: int) -> float:
        """Keys that a query sees in all blocks together, in the mean over a causal sequence.

        Half of the sequence; of a window w all but the half of w / tokens that its first queries
        lack.
        """
        near = min(self.window.tokens, tokens) if self.window else 0
        which = [layer for layer in range(self.layers) if self.has_attention(layer)]
        few = sum(map(self.is_near, which)) if near else 0
        return (len(which) - few) * tokens / 2 + few * near * (1 - near / (2 * tokens))

    @property
    def parameters(self) -> int:
        """Parameters of the whole model, the tied embedding once."""
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2) + self._norm_parameters
        if self.positions == "learned":
            ends += self.context * self.hidden
        return ends + sum(self.layer_parameters(i) for i in range(self.layers))

    @property
    def active_parameters(self) -> int:
        """Parameters that work on one token: of the routed experts only the chosen ones."""
        if self.experts is None:
            return self.parameters
        idle = (self.experts.count - self.experts.chosen) * self._mlp(self.experts.ffn)
        return self.parameters - idle * sum(self.has_experts(i) for i in range(self.layers))

    def layer_parameters(self, layer: int) -> int:
        """Parameters of one block."""
        if self.pattern:
            return self._norm_parameters + self._part_parameters(self.pattern[layer])
        norms = 4 if self.result_norm else 2
        beside = self.mixer_parameters(layer) + norms * self._norm_parameters
        if self.has_experts(layer):
            return beside + self.expert_parameters
        return beside + self._mlp(self.ffn)

    def _part_parameters(self, letter: str) -> int:
        """Parameters of the one part of a hybrid's block."""
        if letter == "M" and self.states is not None:
            return self._state_parameters(self.states)
        if letter == "E":
            return self.expert_parameters
        return self._attention_parameters if letter == "*" else self._mlp(self.ffn)

    def _state_parameters(self, states: StateSpace) -> int:
        own = states.channels * (states.convolution + 1) + 3 * states.heads + states.inner
        return self.hidden * (states.projected + states.inner) + own

    def mixer_parameters(self, layer: int) -> int:
        """Parameters of one block's attention, of whichever kind."""
        if self.linear is not None and self.is_linear(layer):
            return self._linear_parameters(self.linear)
        return self._attention_parameters

    @property
    def expert_parameters(self) -> int:
        """Parameters of one block's router, routed and shared experts; 0 without experts."""
        if self.experts is None:
            return 0
        routed = self.experts.count * (self._mlp(self.experts.ffn) + self.hidden)
        shared = self._mlp(self.experts.shared_ffn) if self.experts.shared_ffn else 0
        return routed + shared + (self.hidden if self.experts.shared_gate else 0)

    @property
    def routed_parameters(self) -> int:
        """Parameters of all routed experts of all blocks."""
        if self.experts is None:
            return 0
        blocks = sum(map(self.has_experts, range(self.layers)))
        return blocks * self.experts.count * self._mlp(self.experts.ffn)

    def _mlp(self, ffn: int) -> int:
        wide = 2 if self.gated else 1
        bias = (wide * ffn + self.hidden) if self.mlp_bias else 0
        return (wide + 1) * self.hidden * ffn + bias

    @property
    def _norm_parameters(self) -> int:
        return self.hidden * (2 if self.norm == "layer" and self.norm_bias else 1)

    @property
    def _attention_parameters(self) -> int:
        if self.latent is not None:
            return self._latent_parameters(self.latent) + self._indexer_parameters(self.latent)
        wide = (self.heads + 2 * self.kv_heads) * self.head
        gates = self.heads * self.head if self.attention_gate else 0
        total = self.hidden * (wide + gates + self.heads * self.head)
        total += wide if self.qkv_bias else 0
        total += self.hidden if self.out_bias else 0
        return total + (2 * self.head if self.head_norm else 0)

    def _latent_parameters(self, latent: LatentAttention) -> int:
        key = latent.plain_head + latent.rope_head
        if latent.query_rank:
            queries = latent.query_rank * (self.hidden + 1 + self.heads * key)
        else:
            queries = self.hidden * self.heads * key
        keys = self.hidden * (latent.key_rank + latent.rope_head) + latent.key_rank
        keys += latent.key_rank * self.heads * (latent.plain_head + latent.value_head)
        return queries + keys + self.heads * latent.value_head * self.hidden

    def _linear_parameters(self, linear: LinearAttention) -> int:
        values = linear.value_heads * linear.value_head
        inner = self.hidden * (linear.channels + values + 2 * linear.value_heads)
        beside = linear.channels * linear.convolution + 2 * linear.value_heads + linear.value_head
        return inner + beside + values * self.hidden

    def _indexer_parameters(self, latent: LatentAttention) -> int:
        if self.sparse is None:
            return 0
        wide = self.sparse.heads * self.sparse.head
        key = self.sparse.head * (self.hidden + 2)  # its norm has a bias
        return (latent.query_rank or self.hidden) * wide + key + self.hidden * self.sparse.heads
