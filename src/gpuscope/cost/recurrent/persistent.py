"""Small recurrent layers: one kernel walks the whole sequence, its weights kept in registers.

cuDNN gives each sequence of the batch a block, which holds all recurrent weights of a layer and
walks the steps alone: no launch, and no other block, is waited for (`RNN_blockPersist_*`). It does
so for float32 and float16 where the weights nearly fit a multiprocessor's registers: those limits,
and the clocks, are read off 140 recorded calls
(`validation/recordings/h200/micro/wide.jsonl.gz`). What does not fit is read again in each step.
Packed sequences and projected states are always walked step by step
(`validation/recordings/h200/functions.jsonl.gz`, "nn.LSTM").
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text

_WIDEST = {
    (4, False): 128,
    (4, True): 128,
    (3, False): 192,
    (3, True): 128,
    (1, False): 320,
    (1, True): 160,
}
"""Largest hidden size by gates and backward."""

_REGISTERS = 50_000
"""Weights that the registers of a multiprocessor hold beside everything else."""


def state_size(work: Work, hidden: int) -> int:
    """Columns of the hidden state: the layer's, or of what each step projects it to."""
    states = work.op.inputs[1:2] if work.op.name.startswith("gpuscope::") else ()
    return states[0].shape[-1] if states and states[0].shape else hidden


def is_persistent(work: Work, gates: int, hidden: int, backward: bool) -> bool:
    """Whether one kernel walks the sequence."""
    if work.device.vendor != "NVIDIA" or work.op.inputs[0].dtype not in ("float32", "float16"):
        return False
    if work.op.args.get("steps") or state_size(work, hidden) != hidden:
        return False
    return hidden <= _WIDEST.get((gates, backward), 0)


def persistent(work: Work, seq: int, batch: int, gates: int, hidden: int, name: str) -> Kernel:
    """The kernel that walks a layer's whole sequence.

    Args:
        work: the recurrent operator.
        seq, batch: steps and sequences.
        gates, hidden: of the layer.
        name: of the kernel.
    """
    get = work.constants.value
    item = work.op.inputs[0].itemsize
    padded = ceil(hidden / 32) * 32
    weights = padded * padded * gates
    threads = padded * gates
    spilled = max(weights - _REGISTERS, 0) / threads
    step_s = get("recurrent.persistent.step_s")
    step_s += weights * get("recurrent.persistent.weight_s")
    step_s += spilled * get("recurrent.persistent.spilled_s")
    base_s = get("recurrent.persistent.base_s")
    base_s += weights * get("recurrent.persistent.load_s")
    most = (machine(work).threads_per_unit or 2048) // threads
    resident = max(1, min(_REGISTERS // weights, most))
    moved = float(seq * batch * hidden * item)
    return kernel(
        work,
        Launch(
            name,
            "recurrent",
            0.0,
            moved * gates + weights * item,
            moved,
            grid=batch,
            block=min(threads, 1024),
            resident=resident,
            chain_s=base_s + seq * step_s,
            dtype=work.op.inputs[0].dtype,
            family="recurrent",
            note=Text("one kernel for all {steps} steps, weights in registers", steps=seq),
        ),
    )
