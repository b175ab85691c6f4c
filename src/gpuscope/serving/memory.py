"""Blocks of keys and values, as an engine itself finds them.

    utilisation x total - weights - activation peak of a whole token budget - graphs - context

vLLM measures the peak by running a batch of `max_num_batched_tokens` (v1/worker/gpu_worker.py,
`determine_available_memory`) and takes what is left of `gpu_memory_utilization` x total. The peak
is taken as the widest activations of a block beside the residual and the scores of the sampled
rows; graphs and the context of the driver are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError
from gpuscope.hardware import Device
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.quantization import Quantization

CONTEXT_BYTES = 0.9 * 2**30
"""Of the driver, the libraries and communication buffers (an estimate: 0.5 to 1.5 GiB)."""

GRAPHS_BYTES = 0.6 * 2**30
"""Of captured graphs (an estimate: vLLM logs 0.3 to 1 GiB for 8-billion models)."""


@dataclass(frozen=True, slots=True)
class KvMemory:
    """Room for keys and values on one rank.

    Attributes:
        blocks: of `block_tokens` each.
        block_tokens: tokens of a block.
        token_bytes: of one token, on one rank.
        weights_bytes, activations_bytes, room_bytes: on one rank.
    """

    blocks: int
    block_tokens: int
    token_bytes: float
    weights_bytes: float
    activations_bytes: float
    room_bytes: float

    @property
    def tokens(self) -> int:
        """That fit in all blocks."""
        return self.blocks * self.block_tokens


def token_bytes(size: TransformerSize, tp: int, item_bytes: float) -> float:
    """Keys and values of one token on one rank: a latent is whole on every rank."""
    if size.latent is not None:
        return size.layers * (size.latent.key_rank + size.latent.rope_head) * item_bytes
    return 2.0 * size.layers * ceil(size.kv_heads / tp) * size.head * item_bytes


def weights_bytes(size: TransformerSize, kept: Quantization, tp: int) -> float:
    """Of one rank: embedding and output layer in 2 bytes, all else as kept."""
    ends = size.vocabulary * size.hidden * (1 if size.tied else 2)
    return (2.0 * ends + kept.weight_bytes * (size.parameters - ends)) / tp


def kv_memory(
    size: TransformerSize,
    kept: Quantization,
    device: Device,
    *,
    tp: int = 1,
    utilization: float = 0.9,
    max_tokens: int = 8192,
    max_sequences: int = 256,
    block_tokens: int = 16,
    cache_bytes: float = 2.0,
    blocks: int | None = None,
) -> KvMemory:
    """Blocks that an engine finds room for.

    Args:
        size, kept, device, tp: what is served, on how many devices.
        utilization: share of the memory that the engine takes.
        max_tokens, max_sequences: of one iteration.
        block_tokens: tokens of a block.
        cache_bytes: of one number of keys and values (2; 1 in fp8).
        blocks: the number where the user knows it.

    Raises:
        DoesNotFitError: weights and activations leave nothing; says by how much.
    """
    each = token_bytes(size, tp, cache_bytes)
    weights = weights_bytes(size, kept, tp)
    wide = max((2 if size.gated else 1) * ceil(size.ffn / tp), 3 * size.hidden)
    if size.experts is not None:
        wide = max(wide, size.experts.chosen * size.hidden)
    scores = 4.0 * max_sequences * ceil(size.vocabulary / tp)
    activations = 2.0 * max_tokens * (2 * size.hidden + 1.5 * wide) + scores
    used = weights + activations + CONTEXT_BYTES + GRAPHS_BYTES
    room = utilization * device.memory_usable_bytes - used
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
    return KvMemory(found, block_tokens, each, weights, activations, room)
