"""NCCL's and RCCL's device kernels: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.

NVIDIA/nccl, src/device/generate.py makes them: one kernel serves several algorithms, so that its
name does not tell which one ran.
"""

from __future__ import annotations

import re

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(r"(?:void )?(?P<head>(?:nccl|rccl)(?:DevKernel|Kernel|DevFunc)?)_(?P<rest>\w+)")


@reader(
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_SendRecv",
)
def read_nccl(symbol: str) -> KernelName | None:
    """Read NCCL's and RCCL's kernels."""
    found = _NAME.match(symbol)
    if found is None:
        return None
    pieces, unread = read_tokens(found["rest"], table("nccl").rules)
    operation = next((p.value for p in pieces if p.field == "operation"), None)
    library = "RCCL (AMD)" if found["head"].startswith("rccl") else "NCCL (NVIDIA; RCCL on AMD)"
    said = operation or Text("a collective")
    head = Piece(found["head"], "library", verbatim(library))
    return KernelName(
        symbol,
        verbatim(library),
        Text("Communication between devices: {said}.", said=said),
        (head, *pieces),
        unread,
        note=Text(
            "Its time holds waiting for the last rank, not only the transfer; compare the ranks."
        ),
        source="NVIDIA/nccl, src/device/generate.py.",
    )
