"""What one rank of an engine runs for a batch: a block's operators, fused as engines fuse them.

Per block: norm with the residual, one product for queries, keys and values, rotation and writing to
the cache, attention, output product, sum over ranks; norm, gate and up in one product, activation,
down product, sum over ranks. Attention and sums are priced apart (`gpuscope.serving.iteration`):
attention depends on lengths, the rest on the number of tokens alone. Sharding is Megatron's:
columns, then rows. Blocks of linear attention have no such part: their scan goes by tokens, too.

Where ranks attend to requests of their own (attention in data parallel), routed experts work on the
tokens of all of them, and are a program of their own (`routed`); shared experts and blocks without
experts stay with each group's own tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from gpuscope.program.models.parallel.size import Experts, LinearAttention, TransformerSize
from gpuscope.program.types import Op, TensorSpec, row_major
from gpuscope.serving.quantization import Quantization


def dense(*shape: int, dtype: str = "bfloat16", storage: int = -1) -> TensorSpec:
    """A row-major tensor on the device."""
    return TensorSpec(shape, row_major(shape), dtype, storage=storage)


class Block:
    """Operators of one rank.

    Args:
        size: the model.
        kept: how its weights are stored.
        tp: ranks that share the model.
        ep: ranks that share the experts; 1: each expert is cut among all.
        dp: groups of these that share all else, with tokens of their own.
    """

    def __init__(
        self, size: TransformerSize, kept: Quantization, tp: int = 1, ep: int = 1, dp: int = 1
    ) -> None:
        self.size, self.kept, self.tp, self.ep = size, kept, tp // dp, ep
        self.cut, self.apart = tp // ep, dp > 1
        self._made: list[Op] = []
        self._storage = 0

    def layer(self, tokens: int, experts: bool, linear: bool = False) -> tuple[Op, ...]:
        """A block for that many tokens, what goes by keys and sums over ranks left out.

        Routed experts are left out where they work on others' tokens, too.

        Args:
            tokens: worked on.
            experts: whether it has a mixture of experts.
            linear: whether it has linear attention.
        """
        self._made = []
        size = self.size
        whole = self.kept
        self.kept = whole.of_mixer() if size.experts is not None else whole
        self._pass("aten::_fused_rms_norm", tokens, size.hidden)
        if linear and size.linear is not None:
            self._linear(tokens, size.linear)
        elif size.latent is not None:
            self._latent(tokens)
        else:
            self._attention(tokens)
        self.kept = whole
        # Where results are normed too, the engine's norm with residual follows that one.
        for _ in range(3 if size.result_norm else 1):
            self._pass("aten::_fused_rms_norm", tokens, size.hidden)
        if experts and size.experts is not None:
            self._experts(tokens, size.experts)
        else:
            self._feed_forward(tokens, ceil(size.ffn / self.tp))
        return tuple(self._made)

    def routed(self, tokens: int) -> tuple[Op, ...]:
        """The experts that are hit, for so many tokens of all ranks together."""
        self._made = []
        if self.size.experts is not None:
            self._routed(tokens, self.size.experts)
        return tuple(self._made)

    def _attention(self, tokens: int) -> None:
        size = self.size
        heads, kv = ceil(size.heads / self.tp), ceil(size.kv_heads / self.tp)
        wide = (heads + 2 * kv) * size.head
        gate = heads * size.head if size.attention_gate else 0
        self._product(tokens, size.hidden, wide + gate)
        if size.head_norm:
            self._pass("aten::_fused_rms_norm", tokens, (heads + kv) * size.head)
        self._pass("aten::mul", tokens, wide)
        if gate:
            self._pass("aten::mul", tokens, gate, two=True)
        self._product(tokens, heads * size.head, size.hidden, fused=bool(gate))

    def _linear(self, tokens: int, linear: LinearAttention) -> None:
        """Projections, short convolution, norm of heads, gated norm; the scan is priced apart."""
        hidden, tp = self.size.hidden, self.tp
        values = ceil(linear.value_heads / tp) * linear.value_head
        channels = ceil(linear.channels / tp)
        self._product(tokens, hidden, channels + values)
        rates = 2 * ceil(linear.value_heads / tp)
        self._add(
            "aten::mm",
            (dense(tokens, hidden), self._weight(hidden, rates, "bfloat16")),
            (dense(tokens, rates),),
        )
        self._pass("aten::mul", tokens, channels)
        self._pass("aten::mul", tokens, channels - values)
        self._pass("aten::_fused_rms_norm", tokens, values)
        self._product(tokens, values, hidden)

    def _indexer(self, tokens: int, depth: int) -> None:
        """Queries, the one key, weights of heads: whole on every rank, as engines keep them."""
        sparse = self.size.sparse
        assert sparse is not None
        self._product(tokens, depth, sparse.heads * sparse.head)
        self._product(tokens, self.size.hidden, sparse.head)
        self._product(tokens, self.size.hidden, sparse.heads)
        self._pass("aten::mul", tokens, (sparse.heads + 1) * sparse.head)

    def head(self, rows: int) -> tuple[Op, ...]:
        """Last norm, and the output layer for the rows that are sampled."""
        self._made = []
        self._pass("aten::_fused_rms_norm", rows, self.size.hidden)
        wide = ceil(self.size.vocabulary / self.tp)
        a, out = dense(rows, self.size.hidden), dense(rows, wide)
        self._add("aten::mm", (a, self._weight(self.size.hidden, wide, "bfloat16")), (out,))
        self._pass("aten::mul", rows, wide)  # greedy choice or sampling reads the scores once more
        return tuple(self._made)

    def _latent(self, tokens: int) -> None:
        size, latent = self.size, self.size.latent
        assert latent is not None
        heads = ceil(size.heads / self.tp)
        key = latent.plain_head + latent.rope_head
        rank = latent.query_rank + latent.key_rank + latent.rope_head
        if latent.query_rank:
            self._product(tokens, size.hidden, rank)
            self._pass("aten::_fused_rms_norm", tokens, rank)
            self._product(tokens, latent.query_rank, heads * key)
        else:
            self._product(tokens, size.hidden, rank + heads * key)
        # Keys' projection goes into the queries and values' into the result, head by head.
        for depth, wide in (
            (latent.plain_head, latent.key_rank),
            (latent.key_rank, latent.value_head),
        ):
            a, b = dense(heads, tokens, depth), dense(heads, depth, wide)
            self._add("aten::bmm", (a, b), (dense(heads, tokens, wide),))
        self._pass("aten::mul", tokens, heads * key)
        if size.sparse is not None:
            self._indexer(tokens, latent.query_rank or size.hidden)
        self._product(tokens, heads * latent.value_head, size.hidden, fused=False)

    def _feed_forward(self, tokens: int, ffn: int) -> None:
        wide = 2 if self.size.gated else 1
        self._product(tokens, self.size.hidden, wide * ffn)
        self._pass("aten::mul", tokens, ffn, two=self.size.gated)
        self._product(tokens, ffn, self.size.hidden)

    def _experts(self, tokens: int, experts: Experts) -> None:
        """Router and choice, routed and shared experts."""
        hidden = self.size.hidden
        self._add(
            "aten::mm",
            (dense(tokens, hidden), self._weight(hidden, experts.count, "bfloat16")),
            (dense(tokens, experts.count),),
        )
        self._pass("aten::mul", tokens, experts.count)
        if not self.apart:
            self._routed(tokens, experts)
        if experts.shared_ffn:
            self._feed_forward(tokens, ceil(experts.shared_ffn / self.tp))

    def _routed(self, tokens: int, experts: Experts) -> None:
        """The products of the experts that are hit, the weighted sum."""
        hidden, wide = self.size.hidden, 2 if self.size.gated else 1
        own = ceil(experts.count / self.ep)
        ffn = ceil(experts.ffn / self.cut)
        pairs = ceil(tokens * experts.chosen / self.ep)
        hit = max(1, min(own, round(own * (1 - (1 - experts.chosen / experts.count) ** tokens))))
        self._pass("aten::mul", pairs, hidden)
        self._grouped(pairs, hit, hidden, wide * ffn)
        self._pass("aten::mul", pairs, ffn, two=self.size.gated)
        self._grouped(pairs, hit, ffn, hidden)
        self._pass("aten::mul", pairs, hidden)

    def _grouped(self, rows: int, groups: int, depth: int, wide: int) -> None:
        """One launch for all experts that are hit, as engines' own kernels do it: a batch of equal
        products (PyTorch's grouped product sets up each group, and is slower for few rows)."""
        each = ceil(rows / groups)
        a = dense(groups, each, depth, dtype=self.kept.activation)
        b = dense(groups, depth, wide, dtype=self.kept.weight, storage=self._next())
        args = {**self._rate(), "experts": True}
        self._add(self._name("aten::bmm"), (a, b), (dense(groups, each, wide),), args)

    def _name(self, other: str) -> str:
        """Of a product's operator: engines have kernels of their own for four bits."""
        return "gpuscope::streamed_mm" if self.kept.four_bits else other

    def _rate(self) -> dict[str, object]:
        return {"rate": self.kept.rate} if self.kept.rate else {}

    def _product(self, rows: int, depth: int, wide: int, fused: bool = True) -> None:
        """One product; `fused`: what comes before it can give its left side in 8 bits."""
        low = self.kept.activation.startswith("float8")
        if low and not (self.kept.fused and fused):
            self._pass("aten::mul", rows, depth)  # to 8 bits, with its scale
        a = dense(rows, depth, dtype=self.kept.activation)
        b = self._weight(depth, wide, self.kept.weight)
        name = self._name("aten::_scaled_mm" if low else "aten::mm")
        self._add(name, (a, b), (dense(rows, wide),), self._rate())

    def _weight(self, depth: int, wide: int, dtype: str) -> TensorSpec:
        """[wide, depth] turned, as linear layers keep it; never in the cache of the chip."""
        return TensorSpec((depth, wide), (1, depth), dtype, storage=self._next())

    def _pass(self, name: str, rows: int, wide: int, two: bool = False) -> None:
        """One pass over activations."""
        inputs = (dense(rows, wide), dense(rows, wide)) if two else (dense(rows, wide),)
        args: dict[str, object] = {"normalized_shape": (wide,)} if "norm" in name else {}
        self._add(name, inputs, (dense(rows, wide),), args)

    def _next(self) -> int:
        self._storage += 1
        return self._storage

    def _add(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        args: dict[str, object] | None = None,
    ) -> None:
        self._made.append(
            Op(len(self._made), name, inputs=inputs, outputs=outputs, args=args or {})
        )


def kinds_of(size: TransformerSize) -> Iterator[tuple[bool, bool]]:
    """Of each block, whether it has experts, and linear attention."""
    return ((size.has_experts(layer), size.is_linear(layer)) for layer in range(size.layers))
