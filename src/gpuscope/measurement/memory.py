"""What holds the device's memory at the peak of a step, from the allocator's own history.

The caching allocator writes down every allocation and release of one step; what was there before
is in its snapshot. Played again, this gives the peak to the block, and which blocks made it. What a
block is follows from who points at it: parameters, gradients, optimizer states and buffers are
found among the live tensors before and after the step. The rest of what was there before is input
or cached data; what the step made before its backward pass began, and still held at the peak, are
activations; everything else is temporary.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpuscope.document.text import Text
from gpuscope.measurement.accelerator import Accelerator

BLOCK_BYTES = 512
"""PyTorch's allocator rounds every request up to this (kMinBlockSize in CUDACachingAllocator)."""

Owners = Mapping[int, tuple[str, str]]
"""Address of a memory block -> (category, label)."""


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The blocks alive at the peak of one step.

    Attributes:
        peak_bytes: sum of all blocks at the peak, rounded as the allocator does.
        at_peak: bytes by category; sums to `peak_bytes`.
        holders: the largest groups of equal label: (label, bytes), largest first.
    """

    peak_bytes: int
    at_peak: Mapping[str, int]
    holders: tuple[tuple[str, int], ...]


def peak_memory(step: Callable[[], object], accelerator: Accelerator) -> PeakMemory | None:
    """Run one step with the allocator's history on, and say what held the memory at its peak.

    Returns:
        None where the allocator keeps no history (anything but CUDA and ROCm).
    """
    import torch

    if accelerator.kind != "cuda" or not hasattr(torch.cuda.memory, "_record_memory_history"):
        return None
    device = accelerator.index
    before = owners_of_live_tensors(accelerator)
    accelerator.synchronize()
    snapshot = torch.cuda.memory._snapshot(device)
    resident, known = resident_blocks(snapshot, device), len(_history(snapshot, device))
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", device=device)
    try:
        with backward_begin() as began_s:
            step()
            accelerator.synchronize()
            after = owners_of_live_tensors(accelerator)
            entries = _history(torch.cuda.memory._snapshot(device), device)[known:]
    finally:
        torch.cuda.memory._record_memory_history(None)
    began_us = began_s[0] * 1e6 if began_s else None
    return replay(resident, entries, {**after, **before}, after, began_us)


def _history(snapshot: Mapping[str, Any], device: int) -> Sequence[Mapping[str, Any]]:
    """The allocator's actions on a device, in order; the workload may have recorded some itself."""
    traces = snapshot["device_traces"]
    found: Sequence[Mapping[str, Any]] = traces[device] if device < len(traces) else ()
    return found


def resident_blocks(snapshot: Mapping[str, Any], device: int) -> dict[int, int]:
    """Return address -> bytes of the blocks in use, from a snapshot's segments."""
    found: dict[int, int] = {}
    for segment in snapshot["segments"]:
        if segment.get("device", device) != device:
            continue
        address = int(segment["address"])
        for block in segment["blocks"]:
            at = int(block.get("address", address))
            if str(block["state"]).startswith("active_allocated"):
                found[at] = int(block["size"])
            address = at + int(block["size"])
    return found


def replay(
    resident: Mapping[int, int],
    entries: Iterable[Mapping[str, Any]],
    before: Owners,
    after: Owners,
    backward_began_us: float | None,
) -> PeakMemory:
    """Play the allocator's history and describe its highest point.

    Args:
        resident: blocks that were there before: address -> bytes.
        entries: the allocator's actions in order, each with "action", "addr", "size", "time_us".
        before: owners of resident blocks.
        after: owners of blocks that outlive the step (gradients, new states).
        backward_began_us: when the backward pass began, on the entries' clock; None without one.
    """
    events = [e for e in entries if e["action"] in ("alloc", "free_requested")]
    peak_at = _highest(resident, events)
    blocks = dict(resident)
    born: dict[int, float | None] = {}
    for entry in events[:peak_at]:
        _play(blocks, entry)
        if entry["action"] == "alloc":
            born[int(entry["addr"])] = entry.get("time_us")
    kept = _kept_to_the_end(events, peak_at)
    return _described(
        blocks, born, before, {a: after[a] for a in kept if a in after}, backward_began_us
    )


def _highest(resident: Mapping[int, int], events: Sequence[Mapping[str, Any]]) -> int:
    """How many entries were played when the memory was highest for the first time."""
    blocks = dict(resident)
    total = highest = sum(blocks.values())
    at = 0
    for number, entry in enumerate(events, start=1):
        total += _play(blocks, entry)
        if total > highest:
            highest, at = total, number
    return at


def _play(blocks: dict[int, int], entry: Mapping[str, Any]) -> int:
    """Apply one entry; returns by how much the memory grew."""
    address = int(entry["addr"])
    if entry["action"] == "alloc":
        size = -(-max(1, int(entry["size"])) // BLOCK_BYTES) * BLOCK_BYTES
        freed = blocks.get(address, 0)
        blocks[address] = size
        return size - freed
    return -blocks.pop(address, 0)


def _kept_to_the_end(events: Sequence[Mapping[str, Any]], peak_at: int) -> set[int]:
    """Addresses allocated before the peak whose block is still the same one after the step."""
    fate: dict[int, bool] = {}
    for number, entry in enumerate(events):
        address = int(entry["addr"])
        if number < peak_at:
            fate[address] = entry["action"] == "alloc"
        else:
            fate[address] = False  # freed, or freed and taken again, after the peak
    return {address for address, alive in fate.items() if alive}


def _described(
    blocks: Mapping[int, int],
    born: Mapping[int, float | None],
    before: Owners,
    after: Owners,
    backward_began_us: float | None,
) -> PeakMemory:
    at_peak: dict[str, int] = {}
    labels: dict[str, int] = {}
    for address, size in blocks.items():
        if address not in born:
            category, label = before.get(address, ("input", Text("inputs and cached data")))
        elif address in after:
            category, label = after[address]
        else:
            early = _earlier(born[address], backward_began_us)
            category = "activation" if early else "temporary"
            label = Text("activations") if early else Text("temporaries")
        at_peak[category] = at_peak.get(category, 0) + size
        labels[label] = labels.get(label, 0) + size
    holders = sorted(labels.items(), key=lambda item: -item[1])
    ordered = dict(sorted(at_peak.items(), key=lambda item: -item[1]))
    return PeakMemory(sum(blocks.values()), ordered, tuple(holders[:12]))


def _earlier(born_us: float | None, began_us: float | None) -> bool:
    return began_us is None or born_us is None or born_us < began_us


def owners_of_live_tensors(accelerator: Accelerator) -> dict[int, tuple[str, str]]:
    """Return the owner of each memory block of the device that a known holder points at."""
    import torch

    found: dict[int, tuple[str, str]] = {}

    def note(value: Any, category: str, label: str) -> None:
        if isinstance(value, torch.Tensor) and value.device.type == accelerator.kind:
            try:
                address = value.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):  # no storage: sparse, fake, functional
                return
            if address:
                found.setdefault(address, (category, label))

    modules, optimizers = _live(torch.nn.Module), _live(torch.optim.Optimizer)
    for module in modules:
        kind = type(module).__name__
        for name, parameter in module._parameters.items():
            if parameter is not None:
                note(parameter, "parameter", f"{kind}.{name}")
                note(parameter.grad, "gradient", f"{kind}.{name} gradient")
        for name, buffer in module._buffers.items():
            note(buffer, "buffer", f"{kind}.{name}")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                note(parameter, "parameter", "parameters")
                note(parameter.grad, "gradient", "gradients")
        for state in optimizer.state.values():
            for name, value in state.items() if isinstance(state, dict) else ():
                note(value, "optimizer_state", f"{type(optimizer).__name__} {name}")
    return found


def _live(kind: type) -> list[Any]:
    """Live objects of a class; asks no object for attributes, which some compute."""
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


@contextmanager
def backward_begin() -> Iterator[list[float]]:
    """Note when the first backward pass inside the block begins (seconds, Unix time)."""
    import torch

    original = torch.autograd.backward
    began: list[float] = []

    def backward(*args: Any, **kwargs: Any) -> Any:
        if not began:
            began.append(time.time())
        return original(*args, **kwargs)

    torch.autograd.backward = backward
    try:
        yield began
    finally:
        torch.autograd.backward = original
