"""What was measured, as tokens per second of the whole job.

Most sources print tokens, sequences or a step's time. A few print floating-point operations alone;
these are turned back into time with the formula of the software (`[flops]` in its file). MFU is
never used.
"""

from __future__ import annotations

from gpuscope.program.models.parallel.size import TransformerSize
from published.rows import Row
from published.stacks import Stack


def tokens_per_s(
    row: Row, stack: Stack, size: TransformerSize, seq: int, devices: int, tokens: int
) -> float:
    """Tokens of the whole job in a second.

    Args:
        row: as published.
        stack: its software.
        size: the model.
        seq: tokens of a sequence.
        devices: of the job.
        tokens: of a step of the whole job.

    Raises:
        ValueError: a quantity that says nothing of time.
    """
    value = row.value
    if row.quantity == "tokens_per_s_per_device":
        return value * devices
    if row.quantity == "samples_per_s" and "whole job" in row.unit:
        return value * seq
    if row.quantity in ("iteration_time", "step_time", "step_time_median"):
        seconds = value / 1e3 if row.unit == "ms" else value
        return tokens / seconds
    if row.quantity == "achieved_TFLOPs_per_device":
        return value * 1e12 * devices / _hardware_flops(size, seq)
    if row.quantity in ("model_TFLOPs_per_device", "TFLOPs_per_device"):
        return value * 1e12 * devices / _model_flops(stack, size, seq)
    raise ValueError(f"{row.quantity} in {row.unit} is no time")


def _hardware_flops(size: TransformerSize, seq: int) -> float:
    """FLOPs of a token with recomputation, attention counted whole (Narayanan et al. 2021).

    96 B s l h^2 (1 + s / 6h + V / 16 l h) for a step of B sequences.
    """
    layers, hidden = size.layers, size.hidden
    inner = 96 * layers * hidden**2 * (1 + seq / (6 * hidden))
    return inner + 6 * hidden * size.vocabulary


def _model_flops(stack: Stack, size: TransformerSize, seq: int) -> float:
    """FLOPs of a token without recomputation, as the software counts them.

    Megatron-Core: 72 s l h^2 (1 + s / 6h + V / 12 l h), attention counted whole. Others six a
    parameter, and attention's causal half where nothing says that it is counted whole.
    """
    if stack.flops.get("formula") == "megatron-model":
        head = 6 * size.hidden * size.vocabulary
        return 72 * size.layers * size.hidden**2 * (1 + seq / (6 * size.hidden)) + head
    embedding = size.vocabulary * size.hidden
    matrices = size.active_parameters - (0 if size.tied else embedding)
    seen = size.layers * seq if stack.flops.get("attention") == "whole" else size.attended(seq)
    return 6.0 * matrices + 12.0 * size.heads * size.head * seen
