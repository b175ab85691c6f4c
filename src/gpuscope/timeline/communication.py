"""Which device kernels communicate, by name, and which library they come from.

A kernel's name is all that most recordings say of it. `communication.toml` holds the families: NCCL
and its like, DeepEP, NVSHMEM, MSCCL++, symmetric memory, the all-reduces of serving engines.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files


@cache
def _pattern() -> re.Pattern[str]:
    """All families in one, of the table beside this file; within a name, the case says nothing."""
    text = files("gpuscope.timeline").joinpath("communication.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["family"]
    return re.compile("|".join(f"(?P<{row['name']}>{row['pattern']})" for row in table), re.I)


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
    found = _pattern().search(head)
    return str(found.lastgroup) if found and found.lastgroup else ""


def is_communication(name: str) -> bool:
    """Return whether a device kernel moves data between devices, by its name."""
    return communication_family(name) != ""
