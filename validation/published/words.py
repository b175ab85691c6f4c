"""What a row's words for precision and sharding mean; words that nobody has read are refused."""

from __future__ import annotations

import re
from typing import Any, Literal

__all__ = ["multiplied", "plain", "sharded"]

_EIGHT = re.compile(r"fp8|float8|e4m3|e5m2")
_SIXTEEN = re.compile(r"bf16|bfloat16|fp16|float16|half|16[- ]bit|mixed")
_FOUR = re.compile(r"nv[- ]?fp4")
_NEITHER = re.compile(r"fp4|fp6|mxfp6|int8|int4|float4")

_SHARDING = {
    "fullshard": "full",
    "zero3": "full",
    "fsdpyes": "full",
    "fsdp2": "full",
    "shardgradop": "zero2",
    "zero2": "zero2",
    "zero1": "zero1",
    "distributedoptimizer": "zero1",
    "noshard": "none",
    "ddp": "none",
    "hsdp": "hybrid",
    "hybridshard": "hybrid",
}
"""By its letters alone; "none", "FSDP" and "FSDP=0" leave it to the software."""


def plain(text: str) -> str:
    """A text's letters, digits and signs in lower case, without spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]+", "", text.lower())


def multiplied(precision: str | None) -> Literal["compute", "float8", "float4"]:
    """What the linear layers of the blocks are multiplied in, as `Software.matmul` has it.

    Raises:
        ValueError: in something else than NVFP4, or 8 or 16 bits of a float.
    """
    if precision is None:
        return "compute"
    said = precision.lower()
    if _FOUR.fullmatch(said.strip()):
        return "float4"
    if not _NEITHER.search(said):
        if _EIGHT.search(said):
            return "float8"
        if _SIXTEEN.search(said):
            return "compute"
    raise ValueError(f"training in {precision} is not there")


def sharded(said: str | None, replicas: int) -> dict[str, Any]:
    """The plan's fields that a word for sharding sets: `fsdp`, and `node` of a hybrid group.

    Args:
        said: as printed; "FSDP64" shards over 64 devices.
        replicas: data parallel ranks.

    Raises:
        ValueError: a word that means nothing here.
    """
    word = plain(said or "none")
    if word in ("none", "no", "fsdp"):
        return {}
    counted = re.fullmatch(r"fsdp=?(\d+)(?:\(.*\))?", word)
    if counted is None:
        if word not in _SHARDING:
            raise ValueError(f"sharding {said} means nothing here")
        return {"fsdp": _SHARDING[word]}
    over = int(counted[1])
    if over == 0:
        return {}
    return {"fsdp": "hybrid", "node": over} if 1 < over < replicas else {"fsdp": "full"}
