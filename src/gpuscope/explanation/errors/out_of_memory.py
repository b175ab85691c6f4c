"""Device memory that ran out: whether it is fragmented, taken by others, or truly too little."""

from __future__ import annotations

from gpuscope.document.blocks import Bar, Bars, Block, Column, Fact, Part, Table
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, sentences
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.memory_message import (
    CONTEXT_BYTES,
    MemoryMessage,
    read_memory_message,
)
from gpuscope.explanation.errors.types import Certainty, Diagnosis
from gpuscope.hardware import devices

_PATTERN = (
    r"(CUDA|HIP|XPU|MPS|NPU) out of memory|OutOfMemoryError|CUDA error: out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|Cuda failure(?: \d+)? 'out of memory'"
)
_TELLING = 0.08
"""Share of the device that must lie unused for its fragments, not the lack of room, to be named."""

_SOURCES = (
    "PyTorch, CUDA semantics, memory management (docs.pytorch.org, notes/cuda).",
    "pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp.",
)
_FIRST = Text("Halve the batch (and double the steps over which gradients are accumulated).")
_MORE = (
    Text(
        "Recompute activations in the backward pass (torch.utils.checkpoint), train in bf16, and "
        "evaluate under torch.no_grad()."
    ),
    Text(
        "Look at who holds memory at the peak: torch.cuda.memory._record_memory_history() and "
        "_dump_snapshot(), then gpuscope analyze snapshot.pickle."
    ),
)
_SEGMENTS = Text(
    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the program starts (PyTorch 2.1 "
    "or later; PYTORCH_ALLOC_CONF in the newest versions)."
)
_OTHERS = Text(
    "See with nvidia-smi who else uses the device; end old processes, or choose another device "
    "with CUDA_VISIBLE_DEVICES."
)


def read_out_of_memory(log: Log) -> Diagnosis | None:
    """Read the message of an allocator, PyTorch's figures included where they are there."""
    found = log.search(_PATTERN) or log.search(r"Tried to allocate [\d.]+ ?[KMGT]?i?B")
    if found is None:
        return None
    message = read_memory_message(log.text)
    line = log.line_of(found)
    vendor = "AMD" if "HIP" in found[0].upper() else "NVIDIA"
    if message is None:
        return Diagnosis(
            "out_of_memory",
            Text("The device's memory ran out"),
            Text(
                "The device had no room for a request; this message does not tell how much was "
                "asked for."
            ),
            "certain",
            (_OTHERS, _FIRST, *_MORE),
            line,
            10,
            sources=_SOURCES,
        )
    cause, certainty, tries = _judged(message)
    return Diagnosis(
        "out_of_memory",
        Text("The device's memory ran out"),
        cause,
        certainty,
        tries,
        line,
        10,
        _facts(message),
        _blocks(message, vendor),
        ("gpuscope predict file.py:build --on h200   # the peak, and what holds it",),
        _SOURCES,
    )


def _judged(message: MemoryMessage) -> tuple[Text, Certainty, tuple[Text, ...]]:
    """The cause: a request larger than the device, others, fragments, a limit, or true need."""
    wanted, capacity, free = message.wanted, message.capacity, message.free
    unused, others = message.unused or 0, message.others
    if capacity is not None and wanted > capacity:
        return _too_large(message)
    if message.limit is not None and message.limit < (capacity or 0) * 0.98:
        return _limited()
    if capacity and others is not None and others > 0.1 * capacity and wanted < others:
        return _others_hold(others)
    if unused >= wanted and unused > _TELLING * (capacity or unused):
        return _fragmented(message, unused)
    if free is not None and free > 1.2 * wanted + CONTEXT_BYTES:
        return _free_but_refused()
    return _needed(message)


def _too_large(message: MemoryMessage) -> tuple[Text, Certainty, tuple[Text, ...]]:
    return (
        Text(
            "One tensor of {wanted} was asked for: more than the whole device has. Its shape is "
            "likely not what was meant (a broadcast, attention scores written out, one-hot "
            "labels).",
            wanted=Bytes(message.wanted),
        ),
        "certain",
        (
            Text(
                "Look at the line of the traceback and print the shapes there. Attention: use "
                "torch.nn.functional.scaled_dot_product_attention, which never writes the scores."
            ),
            _FIRST,
            *_MORE,
        ),
    )


def _limited() -> tuple[Text, Certainty, tuple[Text, ...]]:
    return (
        Text(
            "The process may use only a part of the device: a limit was set "
            "(torch.cuda.set_per_process_memory_fraction)."
        ),
        "certain",
        (Text("Raise or remove that limit."), _FIRST, *_MORE),
    )


def _others_hold(others: int) -> tuple[Text, Certainty, tuple[Text, ...]]:
    return (
        Text(
            "Other processes hold {others} of this device; without them the request would fit.",
            others=Bytes(others),
        ),
        "likely",
        (_OTHERS, _FIRST, *_MORE),
    )


def _fragmented(message: MemoryMessage, unused: int) -> tuple[Text, Certainty, tuple[Text, ...]]:
    return (
        Text(
            "Fragmentation: PyTorch holds {unused} that no tensor uses, and {wanted} were asked "
            "for, but no single piece is long enough.",
            unused=Bytes(unused),
            wanted=Bytes(message.wanted),
        ),
        "likely",
        (_SEGMENTS, _FIRST, *_MORE),
    )


def _free_but_refused() -> tuple[Text, Certainty, tuple[Text, ...]]:
    return (
        Text(
            "The message shows enough free memory, and still the request failed: something else "
            "refused it, such as another process that took the memory at the same moment, a limit "
            "of the container or of Windows, a MIG slice, or a damaged context after an earlier "
            "error."
        ),
        "possible",
        (_OTHERS, _SEGMENTS, _FIRST),
    )


def _needed(message: MemoryMessage) -> tuple[Text, Certainty, tuple[Text, ...]]:
    held = message.allocated
    given = None if held is None else Text("Tensors hold {held}.", held=Bytes(held))
    cause = Text("True need: the tensors alive at that moment leave no room for the next.")
    return (sentences(cause, given), "likely", (_FIRST, *_MORE))


def _facts(message: MemoryMessage) -> tuple[Fact, ...]:
    unused = message.unused
    least = None if message.allocated is None else message.allocated + message.wanted
    rows = (
        (Text("asked for"), message.wanted, None),
        (Text("the device has"), message.capacity, None),
        (Text("free at that moment"), message.free, None),
        (Text("held by tensors"), message.allocated, None),
        (Text("held by PyTorch"), message.reserved, None),
        (Text("held but unused"), unused, Text("fragments: reserved − allocated")),
        (Text("of other processes"), message.others, None),
        (Text("needed here at least"), least, Text("held by tensors + asked for")),
    )
    return tuple(
        Fact(label, float(value), "bytes", note=note)
        for label, value, note in rows
        if value is not None
    )


def _blocks(message: MemoryMessage, vendor: str) -> tuple[Block, ...]:
    found: list[Block] = []
    if message.capacity and message.free is not None and message.allocated is not None:
        found.append(_bars(message))
    fitting = _fitting(message, vendor)
    if fitting is not None:
        found.append(fitting)
    return tuple(found)


def _bars(message: MemoryMessage) -> Bars:
    """The device's memory as it was, and what was asked for, on one scale."""
    capacity, free, held = message.capacity or 0, message.free or 0, message.allocated or 0
    unused = message.unused or 0
    rest = max(0, capacity - free - held - unused)
    parts = (
        Part(Text("tensors"), float(held), "memory"),
        Part(Text("held but unused"), float(unused), "waste"),
        Part(Text("context and other processes"), float(rest), "other"),
        Part(Text("free"), float(free), "idle"),
    )
    wanted = (Part(Text("asked for"), float(message.wanted), "bad"),)
    return Bars(
        Text("The device's memory at that moment"),
        "bytes",
        (
            Bar(Text("device"), tuple(part for part in parts if part.value > 0)),
            Bar(Text("asked for"), wanted),
        ),
        limit=float(capacity),
        limit_label=Text("capacity"),
    )


def _fitting(message: MemoryMessage, vendor: str) -> Table | None:
    """The smallest devices on which this step would have gone on; none where this one would do."""
    if message.allocated is None or message.capacity is None:
        return None
    needed = message.allocated + message.wanted + CONTEXT_BYTES
    if needed < 0.97 * message.capacity:
        return None  # here the trouble is fragments, a limit or others
    needed = max(needed, round(1.02 * message.capacity))  # one like this was too small
    large = sorted(
        (d for d in devices() if d.vendor == vendor and d.memory_usable_bytes >= needed),
        key=lambda d: d.memory_usable_bytes,
    )
    if not large:
        return None
    return Table(
        Text("Smallest devices with room for this much"),
        (Column(Text("device")), Column(Text("usable memory"), "bytes")),
        tuple((d.name, float(d.memory_usable_bytes)) for d in large[:5]),
        note=Text(
            "Room for what was alive plus this request and about 0.6 GiB of context; a later "
            "moment of the step may need more."
        ),
    )
