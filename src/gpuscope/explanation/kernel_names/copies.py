"""Copies and fills as profilers name them: `Memcpy HtoD (Pageable -> Device)`."""

from __future__ import annotations

import re

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_COPY = re.compile(r"Memcpy (?P<way>[HDPA]to[HDPA]) \((?P<a>\w+) -> (?P<b>\w+)\)")
_PAGEABLE = Text(
    "Pageable host memory: the driver copies through its own buffer and the host waits. Pinned "
    "memory (DataLoader(pin_memory=True), tensor.pin_memory()) is faster and can overlap."
)


_NODES = {
    "memcpy128": (Text("copy"), Text("16 bytes at a time")),
    "memset32": (Text("fill"), Text("4 bytes at a time")),
}
"""Kernels of the driver that copy or fill inside of a replayed CUDA graph, seen on an H200."""


def _node(symbol: str) -> KernelName:
    what, width = _NODES[symbol]
    return KernelName(
        symbol,
        Text("CUDA driver"),
        Text("A {what} as a node of a replayed CUDA graph.", what=what),
        (Piece(symbol[:6], "operation", what), Piece(symbol[6:], "other", width)),
        source=Text("Recorded runs of CUDA graphs."),
    )


@reader("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)", "Memset (Device)")
def read_copy(symbol: str) -> KernelName | None:
    """Read copies and fills."""
    found = _COPY.fullmatch(symbol)
    if found:
        way = table("copies").words["way"].get(found["way"]) or verbatim(found["way"])
        pieces = (
            Piece("Memcpy", "operation", Text("copy")),
            Piece(found["way"], "route", way),
            Piece(
                f"{found['a']} -> {found['b']}",
                "other",
                Text(
                    "from {source} to {target} memory",
                    source=found["a"].lower(),
                    target=found["b"].lower(),
                ),
            ),
        )
        pageable = "Pageable" in (found["a"], found["b"])
        return KernelName(
            symbol,
            Text("CUDA driver"),
            Text("A copy, {way}; no kernel.", way=way),
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
        Text("CUDA driver"),
        Text("Fills memory with one value; no kernel."),
        (Piece("Memset", "operation", Text("fill")), Piece(symbol[8:-1], "other", Text("where"))),
        source="PyTorch's profiler (Kineto, CUPTI).",
    )
