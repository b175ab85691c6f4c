"""NCCL's and RCCL's device kernels: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.

NVIDIA/nccl, src/device/generate.py makes them: one kernel serves several algorithms, so that its
name does not tell which one ran.
"""

from __future__ import annotations

import re

from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.tokens import Rule, read_tokens
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_NAME = re.compile(r"(?:void )?(?P<head>(?:nccl|rccl)(?:DevKernel|Kernel|DevFunc)?)_(?P<rest>\w+)")
_OPERATIONS = {
    "AllReduce": Words("all-reduce: everyone gets the sum", "全规约：每个 rank 得到总和"),
    "AllGather": Words("all-gather: everyone gets all parts", "全收集：每个 rank 得到所有部分"),
    "ReduceScatter": Words(
        "reduce-scatter: everyone gets its part of the sum", "规约散射：每个 rank 得到总和的一部分"
    ),
    "Broadcast": Words("broadcast from one rank", "由一个 rank 广播"),
    "Reduce": Words("reduce to one rank", "规约到一个 rank"),
    "SendRecv": Words("send and receive (also all-to-all)", "点对点收发（也用于 all-to-all）"),
    "Generic": Words("any operation", "任意操作"),
}

_RULES = (
    Rule(
        r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|Generic)",
        "operation",
        lambda m: _OPERATIONS[m[1]],
    ),
    Rule(
        r"(Sum|Prod|Max|Min|MinMax|PreMulSum|SumPostDiv|Avg)",
        "variant",
        lambda m: Words(f"combines by {m[1].lower()}", f"合并方式：{m[1]}"),
    ),
    Rule(r"u?int8_t", "dtype", lambda m: same(words.dtype(m[0]))),
    Rule(
        r"(f32|f16|bf16|f64|i32|u32|i64|u64|i8|u8|float|half|double)",
        "dtype",
        lambda m: same(words.dtype(m[0]) or m[0]),
    ),
    Rule(
        r"(RING|TREE|COLLNET|NVLS|PAT)",
        "algorithm",
        lambda m: Words(
            f"{m[0]} in the name; not necessarily the one that ran",
            f"名称中为 {m[0]}，实际算法未必如此",
        ),
    ),
    Rule(
        r"(LL128|LL|SIMPLE)",
        "protocol",
        lambda m: Words(
            f"{m[0]} in the name; not necessarily the one that ran",
            f"名称中为 {m[0]}，实际协议未必如此",
        ),
    ),
    Rule(r"\d+", "number", lambda m: same(m[0])),
)


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
    pieces, unread = read_tokens(found["rest"], _RULES)
    operation = next((p.value for p in pieces if p.field == "operation"), None)
    library = "RCCL (AMD)" if found["head"].startswith("rccl") else "NCCL (NVIDIA; RCCL on AMD)"
    said = operation or Words("a collective", "集合通信")
    head = Piece(found["head"], "library", same(library))
    return KernelName(
        symbol,
        same(library),
        Words(f"Communication between devices: {said.en}.", f"设备间通信：{said.zh}。"),
        (head, *pieces),
        unread,
        note=Words(
            "Its time holds waiting for the last rank, not only the transfer; compare the ranks.",
            "其时间包含等待最慢 rank 的时间，而不仅是传输；应对比各 rank。",
        ),
        source="NVIDIA/nccl, src/device/generate.py.",
    )
