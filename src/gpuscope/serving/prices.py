"""Prices of one rank's kernels, by the kernel models: what `IterationCost` interpolates.

What goes by tokens is a program of a block (`gpuscope.serving.operators`); attention goes by
queries and keys. Blocks that look back a window, or choose keys, see no more than so many; a state
in place of keys is read and written once a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import ceil, inf, sqrt

from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Cluster, calibration_for
from gpuscope.program.models.parallel.size import LinearAttention, TransformerSize
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec
from gpuscope.serving.operators import Block, dense, kinds_of
from gpuscope.serving.quantization import Quantization

SUMS = (
    "_c10d_functional::all_reduce",
    "symm_mem::one_shot_all_reduce",
    "symm_mem::two_shot_all_reduce_",
)
"""Ways to sum over ranks; engines have kernels of their own for short ones, as PyTorch does."""

GATHER = "_c10d_functional::all_gather_into_tensor"
SCATTER = "_c10d_functional::reduce_scatter_tensor"
"""Tokens of ranks that attend apart, to the experts and back."""

EAGER_TOKENS = 1024
"""Of the prompt whose launches are counted."""

STATE_BYTES = 4
"""Of a number of a linear block's state: engines keep it in float32."""


class Priced:
    """One rank's kernels, through the kernel models."""

    def __init__(
        self,
        size: TransformerSize,
        kept: Quantization,
        cluster: Cluster,
        tp: int,
        ep: int,
        cache_bytes: float,
        calibration: Calibration | None,
        dp: int = 1,
    ) -> None:
        self.size, self.cluster, self.cache_bytes = size, cluster, cache_bytes
        self.ranks, self.tp, self.dp = tp, tp // dp, dp
        self.device = cluster.device
        self.calibration = calibration or calibration_for(self.device)
        self.constants = Constants(self.calibration)
        self.pace, self.scaling = kept.pace, kept.scaling_pace(self.device)
        self.block = Block(size, kept, tp, ep, dp)
        self.kinds = Counter(kinds_of(size))
        self.linear = sum(map(size.is_linear, range(size.layers)))
        self.near = sum(map(size.is_near, range(size.layers)))
        self.full = size.layers - self.linear - self.near
        self.spread = 0.0

    @property
    def reach(self) -> int:
        """Keys that a query of a prompt has at most where it has not all; 0: it has all."""
        size = self.size
        if size.sparse is not None:
            return size.sparse.chosen
        if size.window is not None and self.near:
            return size.window.tokens
        return 1 if self.linear else 0

    def blocks_s(self, tokens: int) -> float:
        """All blocks, attention and communication left out."""
        return sum(
            count * self._run(self.block.layer(tokens, *kind)) for kind, count in self.kinds.items()
        )

    def launches(self) -> int:
        """Kernels of all blocks, attention and communication counted as one each."""
        beside = 3 if self.tp > 1 else 1
        return sum(
            count * (beside + len(self._kernels(self.block.layer(EAGER_TOKENS, *kind))[0]))
            for kind, count in self.kinds.items()
        )

    def head_s(self, rows: int) -> float:
        """Output layer and choice of tokens."""
        return self._run(self.block.head(rows))

    def _run(self, ops: tuple[Op, ...]) -> float:
        kernels, gap_s = self._kernels(ops)
        return sum(kernel.duration_s for kernel in kernels) + len(kernels) * gap_s

    def _kernels(self, ops: tuple[Op, ...]) -> tuple[list[Kernel], float]:
        """Kernels of a program, and the time between two of them."""
        costed = cost_program(
            Program("iteration", ops), self.device, self.calibration, cluster=self.cluster
        )
        spread = sqrt(costed.device_spread**2 + costed.common_spread**2)
        self.spread = max(self.spread, spread)
        both = zip(ops, costed.ops, strict=True)
        return [self._paced(op, each) for op, made in both for each in made.kernels], (
            costed.kernel_gap_s
        )

    def _paced(self, op: Op, kernel: Kernel) -> Kernel:
        """Products are no quicker than their arithmetic at the pace of their kernels."""
        experts = op.args.get("experts")
        pace = self.pace if experts and self.pace != 1.0 else 1.0
        if op.name == "aten::_scaled_mm" or experts:
            pace = min(pace, self.scaling)
        return replace(kernel, duration_s=max(kernel.duration_s, kernel.compute_s / pace))

    def link_s(self, tokens: int) -> float:
        """Two sums over ranks a block, by the quickest way that engines have.

        Where routed experts work on the tokens of all ranks, theirs is part of `joint_s`.
        """
        if self.tp == 1:
            return 0.0
        x = dense(tokens, self.size.hidden)
        ways = (
            name
            for name in SUMS
            if not name.startswith("symm") or self.cluster.scale_up_domain_devices >= self.tp
        )
        quickest = min(self._moved_s(name, x, x, range(self.tp)) for name in ways)
        sums = 2.0 * self.size.layers - (self.mixtures if self.dp > 1 else 0)
        return sums * quickest

    def joint_s(self, tokens: int) -> float:
        """Routed experts of all blocks, for the tokens of all ranks together.

        These are gathered before, and scattered with their sums after, as engines do it unless told
        otherwise (vLLM's all2all_backend is "allgather_reducescatter").
        """
        whole = dense(tokens, self.size.hidden)
        part = dense(ceil(tokens / self.ranks), self.size.hidden)
        moved = self._moved_s(GATHER, part, whole, range(self.ranks))
        moved += self._moved_s(SCATTER, whole, part, range(self.ranks))
        return self.mixtures * (self._run(self.block.routed(tokens)) + moved)

    def hop_s(self, tokens: int) -> float:
        """From a stage to the next: hidden states and residual (vllm/sequence.py,
        IntermediateTensors), a part from each rank, which the next stage gathers."""
        part = dense(ceil(2 * tokens / self.tp), self.size.hidden)
        sent = self._moved_s("c10d::send", part, part, (0, self.tp))
        if self.tp == 1:
            return sent
        whole = dense(2 * tokens, self.size.hidden)
        return sent + self._moved_s(GATHER, part, whole, range(self.tp))

    @property
    def mixtures(self) -> int:
        """Blocks with experts."""
        return sum(count for (experts, _), count in self.kinds.items() if experts)

    def _moved_s(self, name: str, sent: TensorSpec, got: TensorSpec, ranks: Iterable[int]) -> float:
        """A collective operation; infinite where it has no model."""
        model = model_for(name)
        if model is None:
            return inf
        group = ProcessGroup("tp", "tp", tuple(ranks))
        op = Op(0, name, inputs=(sent,), outputs=(got,), group=0)
        work = Work(
            op, self.device, self.constants, cluster=self.cluster, group=group, rank=0
        )  # fmt: skip
        return sum(kernel.duration_s for kernel in model(work))

    def prefill_s(self, length: int) -> float:
        """What goes by all pairs of a whole prompt's queries and keys, all blocks."""
        if self.size.sparse is not None:
            return self.size.layers * self._scores_s(length * (length + 1) / 2, length)
        return self.full * self._prompt_s(length)

    def near_s(self, length: int) -> float:
        """What goes by no more than `reach` keys a query, of a whole prompt, all blocks."""
        size = self.size
        if size.sparse is not None:
            return size.layers * self._latent_s(pairs(length, self.reach), read=0.0)
        if self.linear and size.linear is not None:
            return self.linear * self._scan_s(length, size.linear)
        # As many pairs as a shorter prompt has that sees everything.
        alike = round(sqrt(2.0 * pairs(length, self.reach)))
        return self.near * self._prompt_s(max(alike, 1))

    def _prompt_s(self, length: int) -> float:
        size = self.size
        heads = ceil(size.heads / self.tp)
        if size.latent is not None:
            wide, kv = size.latent.plain_head + size.latent.rope_head, heads
        else:
            wide, kv = size.head, ceil(size.kv_heads / self.tp)
        q, k = dense(1, heads, length, wide), dense(1, kv, length, wide)
        op = Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,), args={"causal": True})
        return self._kernels_s(op)

    def decode_s(self, sequences: int, keys: int) -> float:
        """Attention of a decode step, all blocks."""
        size = self.size
        if size.sparse is not None:
            scores = self._scores_s(sequences * keys, sequences)
            return size.layers * (scores + self._latent_s(sequences * min(keys, self.reach)))
        if size.latent is not None:
            return size.layers * self._latent_s(sequences * keys)
        seconds = self.full * self._decoded_s(sequences, keys) if self.full else 0.0
        if self.near:
            seconds += self.near * self._decoded_s(sequences, min(keys, self.reach))
        if self.linear and size.linear is not None:
            seconds += self.linear * self._state_s(sequences, size.linear)
        return seconds

    def _decoded_s(self, sequences: int, keys: int) -> float:
        size = self.size
        heads, kv = ceil(size.heads / self.tp), ceil(size.kv_heads / self.tp)
        eight = self.cache_bytes == 1 and not self._is_hopper
        dtype = "float8_e4m3fn" if eight else "bfloat16"
        q = dense(sequences, heads, 1, size.head)
        k = dense(sequences, kv, keys, size.head, dtype=dtype)
        return self._kernels_s(Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,)))

    @property
    def _is_hopper(self) -> bool:
        """Whose kernels read keys of 8 bits no quicker than of 16: values are turned, or all is
        unpacked, on the way to the tensor cores."""
        return (self.device.compute_capability or (0, 0))[0] == 9

    @property
    def _bytes_per_s(self) -> float:
        get = self.constants.value
        share = get("attention.decode.d128.bandwidth_efficiency") * get("bandwidth.reach")
        return self.device.memory_bandwidth_bytes_per_s * share

    def _latent_s(self, keys: float, read: float = 1.0) -> float:
        """One latent a token, read once for all heads (FlashMLA): the slower of bytes and FLOPs.

        Args:
            keys: of all queries. read: share of them that comes from memory, not from L2.
        """
        latent, get = self.size.latent, self.constants.value
        assert latent is not None
        wide = latent.key_rank + latent.rope_head
        item = 2.0 if self._is_hopper else self.cache_bytes
        memory = read * keys * wide * item / self._bytes_per_s
        flops = 2.0 * keys * ceil(self.size.heads / self.tp) * (wide + latent.key_rank)
        compute = flops / (0.6 * self.device.peak_flops_per_s("bfloat16"))
        return max(memory, compute) + get("attention.decode.start_s") + get("attention.combine_s")

    def _scores_s(self, keys: float, queries: int) -> float:
        """The indexer: every query with every key in 8 bits, and the choice of the best.

        Keys of 8 bits with a scale of 4 bytes are read once a block of 64 queries; scores of 4
        bytes are written, and read twice by the choice. No rank has a share of it: each does all.
        """
        sparse, get = self.size.sparse, self.constants.value
        assert sparse is not None
        flops = 2.0 * keys * sparse.heads * sparse.head
        rate = "fp8" if self.device.supports("fp8") else "bfloat16"
        compute = flops / (0.6 * self.device.peak_flops_per_s(rate))
        shared = min(64.0, max(1.0, queries * queries / max(keys, 1.0)))
        memory = keys * ((sparse.head + 4.0) / shared + 12.0) / self._bytes_per_s
        return max(compute, memory) + 2.0 * get("attention.decode.start_s")

    def _state_s(self, sequences: int, linear: LinearAttention) -> float:
        """A step of the gated delta rule: states and the convolution's inputs, read and written."""
        heads = ceil(linear.value_heads / self.tp)
        state = heads * linear.key_head * linear.value_head * STATE_BYTES
        window = ceil(linear.channels / self.tp) * (linear.convolution - 1) * 2.0
        start = 2.0 * self.constants.value("attention.decode.start_s")
        return 2.0 * sequences * (state + window) / self._bytes_per_s + start

    def _scan_s(self, tokens: int, linear: LinearAttention) -> float:
        """The gated delta rule in chunks of 64 tokens (arXiv:2412.06464, section 3.3).

        Within a chunk five products of 64 by 64 scores with keys or values, between chunks three
        with the state; queries, keys, values and what is made of them go through memory between
        six kernels, once out and once in.
        """
        chunk, key, value = 64, linear.key_head, linear.value_head
        heads = ceil(linear.value_heads / self.tp) * tokens
        flops = heads * (2.0 * chunk * (3 * key + 2 * value) + 6.0 * key * value)
        moved = heads * 2.0 * (2.0 * (3 * key + 4 * value) + key * value / chunk)
        compute = flops / (0.3 * self.device.peak_flops_per_s("bfloat16"))
        start = 6.0 * self.constants.value("attention.decode.start_s")
        return max(compute, moved / self._bytes_per_s) + start

    def _kernels_s(self, op: Op) -> float:
        model = model_for(op.name)
        assert model is not None
        return sum(kernel.duration_s for kernel in model(Work(op, self.device, self.constants)))


def pairs(length: int, reach: int) -> float:
    """Pairs of a prompt's queries and keys, where a query sees no more than `reach` of them."""
    below = min(length, reach)
    return below * (below + 1) / 2 + (length - below) * reach
