"""Copies and fills as profilers name them: `Memcpy HtoD (Pageable -> Device)`."""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.types import KernelName, Piece
from gpuscope.explain.types import Words

_COPY = re.compile(r"Memcpy (?P<way>[HDPA]to[HDPA]) \((?P<a>\w+) -> (?P<b>\w+)\)")
_WAYS = {
    "HtoD": Words("host to device", "主机到设备"),
    "DtoH": Words("device to host", "设备到主机"),
    "DtoD": Words("within a device", "设备内部"),
    "PtoP": Words("device to device", "设备到设备"),
    "HtoH": Words("within the host", "主机内部"),
}
_PAGEABLE = Words(
    "Pageable host memory: the driver copies through its own buffer and the host waits. Pinned "
    "memory (DataLoader(pin_memory=True), tensor.pin_memory()) is faster and can overlap.",
    "可分页主机内存：驱动要经过自己的缓冲区，主机会等待。锁页内存（DataLoader(pin_memory=True)、"
    "tensor.pin_memory()）更快，且可与计算重叠。",
)


_NODES = {
    "memcpy128": (Words("copy", "拷贝"), Words("16 bytes at a time", "每次 16 字节")),
    "memset32": (Words("fill", "填充"), Words("4 bytes at a time", "每次 4 字节")),
}
"""Kernels of the driver that copy or fill inside of a replayed CUDA graph, seen on an H200."""


def _node(symbol: str) -> KernelName:
    what, width = _NODES[symbol]
    return KernelName(
        symbol,
        Words("CUDA driver", "CUDA 驱动"),
        Words(
            f"A {what.en} as a node of a replayed CUDA graph.", f"重放的 CUDA 图中的{what.zh}节点。"
        ),
        (Piece(symbol[:6], "operation", what), Piece(symbol[6:], "other", width)),
        source="Recorded runs of CUDA graphs.",
    )


@reader("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)", "Memset (Device)")
def read_copy(symbol: str) -> KernelName | None:
    """Read copies and fills."""
    found = _COPY.fullmatch(symbol)
    if found:
        way = _WAYS.get(found["way"], Words(found["way"], found["way"]))
        pieces = (
            Piece("Memcpy", "operation", Words("copy", "拷贝")),
            Piece(found["way"], "route", way),
            Piece(
                f"{found['a']} -> {found['b']}",
                "other",
                Words(
                    f"from {found['a'].lower()} to {found['b'].lower()} memory",
                    f"从 {found['a']} 内存到 {found['b']} 内存",
                ),
            ),
        )
        pageable = "Pageable" in (found["a"], found["b"])
        return KernelName(
            symbol,
            Words("CUDA driver", "CUDA 驱动"),
            Words(f"A copy, {way.en}; no kernel.", f"拷贝：{way.zh}；不是内核。"),
            pieces,
            note=_PAGEABLE if pageable else None,
            source="PyTorch's profiler (Kineto, CUPTI).",
        )
    if symbol in _NODES:
        return _node(symbol)
    if not re.fullmatch(r"Memset \(\w+\)", symbol):
        return None
    return KernelName(
        symbol,
        Words("CUDA driver", "CUDA 驱动"),
        Words("Fills memory with one value; no kernel.", "用同一个值填充内存；不是内核。"),
        (
            Piece("Memset", "operation", Words("fill", "填充")),
            Piece(symbol[8:-1], "other", Words("where", "位置")),
        ),
        source="PyTorch's profiler (Kineto, CUPTI).",
    )
