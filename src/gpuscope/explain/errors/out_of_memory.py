"""Device memory that ran out: whether it is fragmented, taken by others, or truly too little."""

from __future__ import annotations

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.memory_message import (
    CONTEXT_BYTES,
    MemoryMessage,
    read_memory_message,
)
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Bar, Bars, Block, Column, Fact, Part, Table, Words
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
_FIRST = Words(
    "Halve the batch (and double the steps over which gradients are accumulated).",
    "将 batch 减半（同时把梯度累积步数加倍）。",
)
_MORE = (
    Words(
        "Recompute activations in the backward pass (torch.utils.checkpoint), train in bf16, and "
        "evaluate under torch.no_grad().",
        "反向时重算激活（torch.utils.checkpoint），用 bf16 训练，并确认评估时使用了 "
        "torch.no_grad()。",
    ),
    Words(
        "Look at who holds memory at the peak: torch.cuda.memory._record_memory_history() and "
        "_dump_snapshot(), then gpuscope analyze snapshot.pickle.",
        "查看峰值时谁占用显存：用 torch.cuda.memory._record_memory_history() 和 _dump_snapshot() "
        "记录，再运行 gpuscope analyze snapshot.pickle。",
    ),
)  # fmt: skip
_SEGMENTS = Words(
    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the program starts (PyTorch 2.1 "
    "or later; PYTORCH_ALLOC_CONF in the newest versions).",
    "在程序启动前设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True（需 PyTorch 2.1 以上；"
    "最新版本中为 PYTORCH_ALLOC_CONF）。",
)
_OTHERS = Words(
    "See with nvidia-smi who else uses the device; end old processes, or choose another device "
    "with CUDA_VISIBLE_DEVICES.",
    "用 nvidia-smi 查看谁在使用该设备；结束遗留进程，或用 CUDA_VISIBLE_DEVICES 换一块设备。",
)


@error_reader
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
            "out_of_memory", Words("The device's memory ran out", "设备显存耗尽"),
            Words(
                "The device had no room for a request; this message does not tell how much was "
                "asked for.",
                "设备没有空间满足一次申请；该消息没有说明申请了多少。",
            ),
            "certain", (_OTHERS, _FIRST, *_MORE), line, 10, sources=_SOURCES,
        )  # fmt: skip
    cause, certainty, tries = _judged(message)
    return Diagnosis(
        "out_of_memory", Words("The device's memory ran out", "设备显存耗尽"), cause, certainty,
        tries, line, 10, _facts(message), _blocks(message, vendor),
        ("gpuscope predict file.py:build --on h200   # the peak, and what holds it",), _SOURCES,
    )  # fmt: skip


def _judged(message: MemoryMessage) -> tuple[Words, Certainty, tuple[Words, ...]]:
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


def _too_large(message: MemoryMessage) -> tuple[Words, Certainty, tuple[Words, ...]]:
    gib = message.wanted / 2**30
    return (
        Words(
            f"One tensor of {gib:.1f} GiB was asked for: more than the whole device has. Its "
            "shape is likely not what was meant (a broadcast, attention scores written out, "
            "one-hot labels).",
            f"一次申请了 {gib:.1f} GiB 的张量，超过整块设备的显存。其形状很可能并非本意（广播、"
            "写出的注意力分数、one-hot 标签）。",
        ),
        "certain",
        (
            Words(
                "Look at the line of the traceback and print the shapes there. Attention: use "
                "torch.nn.functional.scaled_dot_product_attention, which never writes the scores.",
                "查看回溯所指的那一行并打印形状。注意力请使用 "
                "torch.nn.functional.scaled_dot_product_attention，它不会写出分数矩阵。",
            ),
            _FIRST, *_MORE,
        ),
    )  # fmt: skip


def _limited() -> tuple[Words, Certainty, tuple[Words, ...]]:
    return (
        Words(
            "The process may use only a part of the device: a limit was set "
            "(torch.cuda.set_per_process_memory_fraction).",
            "进程只被允许使用设备的一部分：设置了上限（torch.cuda.set_per_process_memory_fraction）。",
        ),
        "certain", (Words("Raise or remove that limit.", "提高或取消该上限。"), _FIRST, *_MORE),
    )  # fmt: skip


def _others_hold(others: int) -> tuple[Words, Certainty, tuple[Words, ...]]:
    gib = others / 2**30
    return (
        Words(
            f"Other processes hold {gib:.1f} GiB of this device; without them the request would "
            "fit.",
            f"其他进程占用了该设备 {gib:.1f} GiB；没有它们，这次申请可以满足。",
        ),
        "likely", (_OTHERS, _FIRST, *_MORE),
    )  # fmt: skip


def _fragmented(message: MemoryMessage, unused: int) -> tuple[Words, Certainty, tuple[Words, ...]]:
    return (
        Words(
            f"Fragmentation: PyTorch holds {unused / 2**30:.2f} GiB that no tensor uses, and "
            f"{message.wanted / 2**30:.2f} GiB were asked for, but no single piece is long enough.",
            f"显存碎片：PyTorch 持有 {unused / 2**30:.2f} GiB 未被张量使用的显存，申请的是 "
            f"{message.wanted / 2**30:.2f} GiB，但没有一段连续空间足够大。",
        ),
        "likely", (_SEGMENTS, _FIRST, *_MORE),
    )  # fmt: skip


def _free_but_refused() -> tuple[Words, Certainty, tuple[Words, ...]]:
    return (
        Words(
            "The message shows enough free memory, and still the request failed: something else "
            "refused it, such as another process that took the memory at the same moment, a limit "
            "of the container or of Windows, a MIG slice, or a damaged context after an earlier "
            "error.",
            "消息显示空闲显存足够，但申请仍然失败：原因在别处，例如另一个进程同时占用了显存、"
            "容器或 Windows 的限制、MIG 切片，或此前错误造成的上下文损坏。",
        ),
        "possible", (_OTHERS, _SEGMENTS, _FIRST),
    )  # fmt: skip


def _needed(message: MemoryMessage) -> tuple[Words, Certainty, tuple[Words, ...]]:
    held = message.allocated
    told = f" Tensors hold {held / 2**30:.2f} GiB." if held is not None else ""
    told_zh = f"张量占用 {held / 2**30:.2f} GiB。" if held is not None else ""
    return (
        Words(
            f"True need: the tensors alive at that moment leave no room for the next.{told}",
            f"确实不够：当时存活的张量没有给下一个留出空间。{told_zh}",
        ),
        "likely", (_FIRST, *_MORE),
    )  # fmt: skip


def _facts(message: MemoryMessage) -> tuple[Fact, ...]:
    unused = message.unused
    least = None if message.allocated is None else message.allocated + message.wanted
    rows = (
        (Words("asked for", "申请"), message.wanted, None),
        (Words("the device has", "设备容量"), message.capacity, None),
        (Words("free at that moment", "当时空闲"), message.free, None),
        (Words("held by tensors", "张量占用"), message.allocated, None),
        (Words("held by PyTorch", "PyTorch 持有"), message.reserved, None),
        (
            Words("held but unused", "持有但未使用"), unused,
            Words("fragments: reserved − allocated", "碎片：reserved − allocated"),
        ),
        (Words("of other processes", "其他进程"), message.others, None),
        (
            Words("needed here at least", "此处至少需要"), least,
            Words("held by tensors + asked for", "张量占用 + 申请"),
        ),
    )  # fmt: skip
    return tuple(
        Fact(label, float(value), "bytes", note=note) for label, value, note in rows
        if value is not None
    )  # fmt: skip


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
        Part(Words("tensors", "张量"), float(held), "memory"),
        Part(Words("held but unused", "持有但未使用"), float(unused), "waste"),
        Part(Words("context and other processes", "上下文与其他进程"), float(rest), "other"),
        Part(Words("free", "空闲"), float(free), "idle"),
    )
    wanted = (Part(Words("asked for", "申请"), float(message.wanted), "bad"),)
    return Bars(
        Words("The device's memory at that moment", "当时的设备显存"), "bytes",
        (Bar(Words("device", "设备"), tuple(part for part in parts if part.value > 0)),
         Bar(Words("asked for", "申请"), wanted)),
        limit=float(capacity), limit_label=Words("capacity", "容量"),
    )  # fmt: skip


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
        Words("Smallest devices with room for this much", "容得下这么多的最小设备"),
        (Column(Words("device", "设备")), Column(Words("usable memory", "可用显存"), "bytes")),
        tuple((d.name, float(d.memory_usable_bytes)) for d in large[:5]),
        note=Words(
            "Room for what was alive plus this request and about 0.6 GiB of context; a later "
            "moment of the step may need more.",
            "足够容纳当时存活的张量、这次申请以及约 0.6 GiB 的上下文；该步之后可能还需要更多。",
        ),
    )  # fmt: skip
