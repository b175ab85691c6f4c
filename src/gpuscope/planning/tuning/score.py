"""A quick estimate of a fine-tuning step: what each rank holds, and how long it takes.

It orders what is simulated, and scales what is not: no figure of a recommended plan comes from it.
Bytes are counted as the code keeps them: docs/plan.md has the account of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.planning.score import LAUNCH_S, LINKED, REACHED
from gpuscope.planning.tuning.types import Tuned
from gpuscope.program.models.parallel.size import TransformerSize

__all__ = ["Estimate", "adapter_elements", "estimate"]

EIGHT_BIT = 1 + 4 / 256
"""Bytes of a moment of `adamw-8bit`: one, and a float32 scale for each 256."""

NF4 = 0.5
"""Bytes of a weight in 4 bits."""

NF4_SCALES = 1 / 64 + 4 / (64 * 256)
"""Bytes a weight of its absolute maxima (one byte for each 64) and their scales: kept whole by each
rank, since FSDP shares parameters alone."""

LOSS_BYTES = 14.0
"""Bytes a token and word at the loss: scores in bfloat16 and float32, their logarithms, and the
gradient in float32 (`transformers.loss.ForCausalLMLoss`)."""

BLOCK_OPS = 300
"""Operators of a block's two passes, without adapters."""

ADAPTER_OPS = 16
"""More for each product with an adapter."""


UPDATED = {"adamw": 42.0, "adamw-8bit": 10.0, "paged-adamw-8bit": 10.0}
"""Bytes that an update moves for each parameter: torch's foreach AdamW passes over its tensors one
operator at a time, the other is one kernel."""

TOUCHED = {"full": 12.0, "lora": 23.0, "qlora": 23.0}
"""How often what a block keeps is moved by pointwise work, casts and norms of both passes: from
simulated steps of Llama 3.1 8B."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of the fullest rank: bytes by what holds them, and seconds of a step.

    Attributes:
        parameters: weights and adapters.
        states: of the optimizer.
        passes: the most that is there beside these in the two passes: activations, what is
            gathered, gradients of earlier micro-batches.
        update: the same in the update: gradients, and what it makes for a moment.
        step_s: time.
    """

    parameters: float
    states: float
    passes: float
    update: float
    step_s: float

    @property
    def peak_bytes(self) -> float:
        """The fuller of the two moments."""
        return self.parameters + self.states + max(self.passes, self.update)


def estimate(size: TransformerSize, seq: int, each: Tuned) -> Estimate:
    """Estimate one candidate.

    Args:
        size: the model's.
        seq: tokens of a sequence.
        each: the candidate.
    """
    tuning, ranks = each.tuning, each.devices if each.tuning.sharding == "full" else 1
    ends = size.vocabulary * size.hidden * (1 if size.tied else 2)
    blocks = size.parameters - ends
    full, packed = tuning.method == "full", tuning.method == "qlora"
    adapters = adapter_elements(size, tuning.rank, tuning.targets)
    trained = (size.parameters if full else adapters) / ranks
    width = 2.0 if full or ranks > 1 else 4.0
    parameters = size.parameters * 2 / ranks
    if packed:
        parameters = blocks * (NF4 / ranks + NF4_SCALES) + ends * (2 / ranks if ranks > 1 else 4)
    parameters += 0 if full else trained * width
    gathered = 0.0
    if ranks > 1:  # what is outside of blocks is gathered all the while, of blocks two at a time
        gathered = 2 * ends + 2 * blocks / size.layers * (NF4 if packed else 2)
    states = {"adamw": 2 * width, "adamw-8bit": 2 * EIGHT_BIT, "paged-adamw-8bit": 8 / 256}
    gradients = trained * width
    kept = _activations(size, each) * each.microbatch * each.row(seq, usual=False)
    early = gradients if tuning.microbatches > 1 else 0.0
    return Estimate(
        parameters=parameters,
        states=trained * states[tuning.optimizer],
        passes=gathered + kept + early,
        update=gradients * (2 if tuning.optimizer == "adamw" else 1),
        step_s=_step_s(size, each.row(seq, usual=True), each, adapters, trained),
    )


def adapter_elements(size: TransformerSize, rank: int, targets: tuple[str, ...]) -> int:
    """Elements of all adapters: rank x (inputs + outputs) of each product."""
    return size.layers * rank * sum(sum(_shapes(size).get(name, (0, 0))) for name in targets)


def _shapes(size: TransformerSize) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of a block's products."""
    queries, keys = size.heads * size.head, size.kv_heads * size.head
    return {
        "q": (size.hidden, queries),
        "k": (size.hidden, keys),
        "v": (size.hidden, keys),
        "o": (queries, size.hidden),
        "gate": (size.hidden, size.ffn if size.gated else 0),
        "up": (size.hidden, size.ffn),
        "down": (size.ffn, size.hidden),
    }


def _activations(size: TransformerSize, each: Tuned) -> float:
    """Bytes a token that a rank holds at the loss, the fullest moment of the passes."""
    block = _block(size, each)
    if not each.recompute:
        return block * size.layers + LOSS_BYTES * size.vocabulary
    kept = (4 if _wide(each) else 2) * size.hidden * size.layers
    return kept + max(block, LOSS_BYTES * size.vocabulary)


def _block(size: TransformerSize, each: Tuned) -> float:
    """Bytes a token that a block keeps for its backward pass.

    Two norms keep their input in float32, and where their weight is trained also its cast and the
    result (8 or 4 bytes a feature each). Queries, keys, values and the attention's result are in
    bfloat16, as are the gate, its activation, the other projection, and where the weight after
    it is trained their product. Each adapter keeps a bfloat16 copy of its input and its narrow
    result. Beside float32 norms (QLoRA on a whole copy) what flows between layers is in float32.
    """
    queries, keys = size.heads * size.head, size.kv_heads * size.head
    full = each.tuning.method == "full"
    parts = (3 if size.gated else 2) + full
    block = (16 if full else 8) * size.hidden + 4 * queries + 4 * keys
    block += (4 if _wide(each) else 2) * parts * _feed(size)
    if not full:
        shapes = _shapes(size)
        inputs = sum(shapes[name][0] for name in each.tuning.targets if name in shapes)
        block += 2 * inputs + 2 * len(each.tuning.targets) * each.tuning.rank
    return block


def _wide(each: Tuned) -> bool:
    """Whether activations between layers are in float32."""
    return each.tuning.method == "qlora" and each.tuning.sharding == "none"


def _feed(size: TransformerSize) -> int:
    """Width of the feed-forward part that works on a token."""
    experts = size.experts
    return size.ffn if experts is None else experts.chosen * experts.ffn + experts.shared_ffn


def _step_s(size: TransformerSize, seq: int, each: Tuned, adapters: int, trained: float) -> float:
    """Arithmetic, traffic, gathers, update and host time of a step."""
    device, tuning = each.cluster.device, each.tuning
    tokens = each.microbatch * seq * each.passes
    worked = size.active_parameters - (0 if size.tied else size.vocabulary * size.hidden)
    scores: float = 2 * size.layers * size.heads * size.head * seq  # causal
    if each.packing == "flash" and each.rows is not None:
        scores /= each.rows.sequences
    if each.masked:
        scores *= 2  # a mask's upper triangle is computed
    passes = (3 if tuning.method == "full" else 2) + each.recompute
    flops = 2 * passes * worked + (3 + each.recompute) * scores
    if tuning.method != "full":
        flops += 6 * adapters
    compute_s = flops * tokens / device.peak_flops_per_s("bfloat16") / REACHED
    blocks = size.parameters - size.vocabulary * size.hidden
    touched = TOUCHED[tuning.method] * _block(size, each) * size.layers * tokens
    compute_s += touched / device.memory_bandwidth_bytes_per_s
    compute_s += UPDATED[tuning.optimizer] * trained / device.memory_bandwidth_bytes_per_s
    if tuning.method == "qlora":  # every weight is read in 4 bits and written in 16, each pass
        rewritten = blocks * (NF4 + 2 + 2) * (2 + each.recompute) * each.passes
        compute_s += rewritten / device.memory_bandwidth_bytes_per_s
    link = (
        each.cluster.device.scale_up_bandwidth_bytes_per_s
        or device.host_link_bandwidth_bytes_per_s
        or 32e9
    ) * LINKED
    moved_s = 0.0
    if tuning.sharding == "full":
        moved_s = 2 * 2 * blocks * each.passes / link
    elif each.devices > 1:
        moved_s = 2 * 2 * (blocks if tuning.method == "full" else adapters) / link
    ops = BLOCK_OPS + ADAPTER_OPS * (len(tuning.targets) if tuning.method != "full" else 0)
    host_s = size.layers * ops * (1 + each.recompute / 2) * each.passes * LAUNCH_S
    return max(compute_s + 0.2 * moved_s, moved_s, host_s)
