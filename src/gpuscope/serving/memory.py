"""Blocks of keys and values, as an engine itself finds them.

    utilisation x total - weights - activation peak of a whole token budget - graphs - context

Engines differ in what the share is of (`Engine.share_of`): vLLM's is of all memory; SGLang's holds
weights and keys, and all else lives in the rest (`mem_fraction_static`); TensorRT-LLM's is of what
weights, activations and graphs leave (`KvCacheConfig.free_gpu_memory_fraction`). Graphs are
captured after the blocks were counted, and take what the share leaves, unless the engine reckons
with them before (`Engine.counts_graphs`): vLLM does since 0.21.

vLLM measures the peak by running a batch of `max_num_batched_tokens` (v1/worker/gpu_worker.py,
`determine_available_memory`) and takes what is left of `gpu_memory_utilization` x total. The peak
is taken as the widest activations of a block beside the residual and the scores of the sampled
rows; graphs and the context of the driver are constants.

Blocks that look back a window, and blocks with a state in place of keys, have groups of their own:

- vLLM (v1/core/kv_cache_utils.py, `_get_kv_cache_groups_uniform_page_size`): layers fall into
  groups of one size, that of the smallest kind, or of the largest where this is less than half as
  much again. All groups draw from one pool, a block of it is that of one group. A group of windows
  keeps what covers the window and the block being filled (`SlidingWindowManager`); a group of
  states keeps one. TensorRT-LLM's pools by window size are taken to come to the same.
- SGLang (model_runner, `swa_full_tokens_ratio`, `mamba_full_memory_ratio`): windows have a pool of
  their own, with 0.8 as many tokens; states have one of 0.9/1.9 of the room, of which a request
  takes three with a cache of prefixes; without one, as many as there may be requests.

A model all of whose blocks have windows is taken to keep everything: more than it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError
from gpuscope.hardware import Device
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.prices import STATE_BYTES
from gpuscope.serving.quantization import Quantization
from gpuscope.serving.schedulers import Beside

CONTEXT_BYTES = 0.9 * 2**30
"""Of the driver, the libraries and communication buffers (an estimate: 0.5 to 1.5 GiB)."""

GRAPHS_BYTES = 0.6 * 2**30
"""Of captured graphs (an estimate: vLLM logs 0.3 to 1 GiB for 8-billion models)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """How an engine shares the room among kinds of blocks; fields are an `Engine`'s.

    Attributes:
        share_of: "all", "static" or "rest": what the engine's share is of.
        window_share: tokens of the windows' own pool, for each of the others'; 0: one pool.
        state_share: of the room, for states; 0: one pool.
        prefix_cache: whether equal beginnings are kept.
        counts_graphs: whether room is left for captured graphs before blocks are counted.
    """

    share_of: str = "all"
    window_share: float = 0.0
    state_share: float = 0.0
    prefix_cache: bool = True
    counts_graphs: bool = True


@dataclass(frozen=True, slots=True)
class KvMemory:
    """Room for keys and values on one rank.

    Attributes:
        blocks: of `block_tokens` each.
        block_tokens: tokens of a block.
        token_bytes: of one token, on one rank, that grows with a request.
        weights_bytes, activations_bytes, room_bytes: on one rank.
        beside: what a request has beside these; None for nothing.
        max_sequences: that have a state; None where that is no limit.
    """

    blocks: int
    block_tokens: int
    token_bytes: float
    weights_bytes: float
    activations_bytes: float
    room_bytes: float
    beside: Beside | None = None
    max_sequences: int | None = None

    @property
    def tokens(self) -> int:
        """That fit in all blocks."""
        return self.blocks * self.block_tokens

    def requests(self, prompt: float, answer: float) -> float:
        """Of that size that fit, half through their answers."""
        beside = self.beside.of(ceil(prompt + answer), self.block_tokens) if self.beside else 0
        return self.tokens / (prompt + answer / 2 + beside * self.block_tokens)


def layer_bytes(size: TransformerSize, tp: int, item_bytes: float) -> float:
    """Keys and values of one token in one block, on one rank: a latent is whole on every rank.

    The key of an indexer has 8 bits, and a scale of 4 bytes.
    """
    if size.latent is not None:
        index = size.sparse.head + 4.0 if size.sparse is not None else 0.0
        return (size.latent.key_rank + size.latent.rope_head) * item_bytes + index
    return 2.0 * ceil(size.kv_heads / tp) * size.head * item_bytes


def state_bytes(size: TransformerSize, tp: int) -> float:
    """Of one sequence, in all blocks of linear attention, on one rank."""
    if size.linear is None:
        return 0.0
    linear = size.linear
    state = ceil(linear.value_heads / tp) * linear.key_head * linear.value_head * STATE_BYTES
    window = ceil(linear.channels / tp) * (linear.convolution - 1) * 2.0
    return sum(map(size.is_linear, range(size.layers))) * (state + window)


def weights_bytes(size: TransformerSize, kept: Quantization, tp: int, dp: int = 1) -> float:
    """Of one rank: embedding and output layer in 2 bytes, all else as kept.

    Of `dp` groups of ranks that attend apart, each has all but the routed experts.
    """
    ends = size.vocabulary * size.hidden * (1 if size.tied else 2)
    mixers = sum(map(size.mixer_parameters, range(size.layers))) if size.experts else 0
    rest = size.parameters - ends - mixers
    kinds = 2.0 * ends + kept.of_mixer().weight_bytes * mixers + kept.weight_bytes * rest
    if dp == 1:
        return kinds / tp
    routed = kept.weight_bytes * size.routed_parameters
    return (kinds - routed) / (tp / dp) + routed / tp


def _groups(size: TransformerSize) -> tuple[int, int]:
    """Layers of a group, and how many groups have windows."""
    near = sum(map(size.is_near, range(size.layers)))
    full = size.layers - near - sum(map(size.is_linear, range(size.layers)))
    if not near or not full:
        return near + full, 0
    least, most = sorted((near, full))
    each = most if most < 1.5 * least else least
    return each * ceil(full / each), ceil(near / each)


def kv_memory(
    size: TransformerSize,
    kept: Quantization,
    device: Device,
    *,
    tp: int = 1,
    dp: int = 1,
    utilization: float = 0.9,
    max_tokens: int = 8192,
    max_sequences: int = 256,
    block_tokens: int = 16,
    cache_bytes: float = 2.0,
    blocks: int | None = None,
    pools: Pools | None = None,
) -> KvMemory:
    """Blocks that an engine finds room for.

    Args:
        size, kept, device, tp: what is served, on how many devices.
        dp: groups of these that attend to requests of their own.
        utilization: share of the memory that the engine takes.
        max_tokens, max_sequences: of one iteration.
        block_tokens: tokens of a block.
        cache_bytes: of one number of keys and values (2; 1 in fp8).
        blocks: the number where the user knows it.
        pools: how it shares the room; vLLM's way by default.

    Raises:
        DoesNotFitError: weights and activations leave nothing; says by how much.
    """
    pools = pools or Pools()
    weights = weights_bytes(size, kept, tp, dp)
    ranks, tp = tp, tp // dp
    one = layer_bytes(size, tp, cache_bytes)
    grow, windows = _groups(size)
    near = sum(map(size.is_near, range(size.layers)))
    each = one * (grow + pools.window_share * near if windows and pools.window_share else grow)
    wide = max((2 if size.gated else 1) * ceil(size.ffn / tp), 3 * size.hidden)
    if size.experts is not None:
        wide = max(wide, size.experts.chosen * size.hidden)
    scores = 4.0 * max_sequences * ceil(size.vocabulary / tp)
    activations = 2.0 * max_tokens * (2 * size.hidden + 1.5 * wide) + scores
    if dp > 1:  # tokens of all ranks, before and after the experts
        activations += 2.0 * 2 * max_tokens * ranks * size.hidden
    used = weights + activations + CONTEXT_BYTES + GRAPHS_BYTES * pools.counts_graphs
    total = device.memory_usable_bytes
    room = {
        "all": utilization * total - used,
        "static": utilization * (total - CONTEXT_BYTES) - weights,
        "rest": utilization * (total - used),
    }[pools.share_of]
    room, sequences = _without_states(size, tp, room, max_sequences, pools)
    if blocks is None and room < each * block_tokens:
        lacking = each * block_tokens - room
        raise DoesNotFitError(
            Text(
                "The model does not fit on {device} by {lacking} a device.",
                device=device.name,
                lacking=Bytes(lacking),
            ),
            Text(
                "Weights take {weights} of {memory} a device.",
                weights=Bytes(weights),
                memory=Bytes(device.memory_usable_bytes),
            ),
        )
    found = blocks if blocks is not None else int(room // (each * block_tokens))
    beside = Beside(
        groups=0 if pools.window_share else windows,
        most=ceil((size.window.tokens - 1) / block_tokens) + 1 if size.window else 0,
        state=0 if pools.state_share else ceil(state_bytes(size, tp) / (each * block_tokens)),
    )
    return KvMemory(
        found, block_tokens, each, weights, activations, room,
        beside if beside.groups or beside.state else None, sequences,
    )  # fmt: skip


def _without_states(
    size: TransformerSize, tp: int, room: float, max_sequences: int, pools: Pools
) -> tuple[float, int | None]:
    """What a pool of states leaves, and how many requests find one; all, where there is none."""
    each = state_bytes(size, tp)
    if not each or not pools.state_share:
        return room, None
    if pools.prefix_cache:
        return room * (1 - pools.state_share), int(room * pools.state_share / (3 * each))
    return room - each * max_sequences, None
