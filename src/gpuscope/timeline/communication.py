"""Which device kernels communicate, by name, and which library they come from.

A kernel's name is all that most recordings say of it. The families follow the names that the
libraries give their kernels in their sources: NCCL and RCCL (`ncclDevKernel_*`, `mscclKernel_*`),
NVSHMEM, rocSHMEM, DeepEP (`deep_ep::`), MSCCL++ (`mscclpp`), PyTorch's symmetric memory
(`multimem_*`, `one_shot_all_reduce_kernel`), the custom and quick all-reduce of vLLM, SGLang and
AITER (`cross_device_reduce_*`, `allreduce_prototype*`), TensorRT-LLM and FlashInfer
(`*AllReduceKernel`, `*lamport*`, `moeAllToAll*`), Transformer Engine's user buffers, oneCCL, HCCL.
"""

from __future__ import annotations

import re

_FAMILIES: tuple[tuple[str, str], ...] = (
    ("deepep", r"deep_?ep(?:::(?!layout)|\d+(?!layout))|deep_?ep_(?:dispatch|combine)"),
    ("nvshmem", r"(?:^|[^a-z])(?:nvshmem|rocshmem|ishmem|roc_shmem)"),
    ("mscclpp", r"mscclpp"),
    ("quick_reduce", r"quick_?reduce|allreduce_prototype"),
    ("custom_all_reduce",
     r"cross_device_reduce|reduce_scatter_cross_device|allgather_(?:lamport|naive|vec)"
     r"|custom_?all_?reduce|fast_?all_?reduce"),
    ("symmetric_memory",
     r"symm_mem|symmetric_memory|symmetricmemory|multimem_(?:all|one|two|reduce)"
     r"|(?:one|two)_shot_(?:all_reduce|reduce_scatter|all_to_all)"
     r"|(?:put|wait)_signal_kernel"),
    ("trtllm",
     r"tensorrt_llm::.*(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)|lamport"
     r"|(?:one|two)_?shot_?all_?reduce|moe_?(?:a2a|all_?to_?all|comm)|trtllm_(?:mnnvl_)?all_?reduce"
     r"|allreduce_fusion|userbuffers"),
    ("hccl", r"(?:^|[^a-z])hccl|(?:^|[^a-z])hcom_"),
    ("nccl", r"(?:^|[^a-z])(?:nccl|rccl|msccl)(?=dev|sym|kern|[^a-z]|all|broad|reduce|send)"),
    ("oneccl", r"oneccl|(?:^|[^a-z])ccl(?:::|_kernel|_?all|_?reduce|_?broadcast)"),
    ("other",
     r"(?<!block)(?<!warp)(?<!block_)(?<!warp_)(?<!cta_)(?<!wave_)"
     r"(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all(?!ow))"
     r"(?!.*(?:elementwise_kernel|reduce_kernel<|cub::))"),
)  # fmt: skip
"""Families in the order in which they are tried; within a name, the case says nothing."""

_PATTERN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _FAMILIES), re.I)

_COMPUTE = re.compile(
    r"^(?:triton_(?:poi|per|red|tem|for|fus|mix|split)|at::native::|void at::native::"
    r"|void cub::|void thrust::|Mem(?:cpy|set)\b)"
)
"""Kernels that only carry a collective's name: Inductor names a fused kernel after all operators
that it took in, also the copies around a functional collective."""


_LOOKED_AT = 2048
"""Characters of a name that are looked at; what a kernel is stands at its begin."""


def communication_family(name: str) -> str:
    """Return the library that a communication kernel belongs to; "" for any other kernel.

    Args:
        name: a device kernel's name, mangled or not.

    Returns:
        "nccl" (also RCCL), "deepep", "nvshmem", "mscclpp", "quick_reduce", "custom_all_reduce",
        "symmetric_memory", "trtllm", "hccl", "oneccl", "other" or "".
    """
    if _COMPUTE.match(name):
        return ""
    # What is in angle or round brackets are a kernel's types and arguments, not what it is.
    head = (
        name[:_LOOKED_AT].replace("(anonymous namespace)::", "").split("(", 1)[0].split("<", 1)[0]
    )
    found = _PATTERN.search(head)
    return str(found.lastgroup) if found and found.lastgroup else ""


def is_communication(name: str) -> bool:
    """Return whether a device kernel moves data between devices, by its name."""
    return communication_family(name) != ""
