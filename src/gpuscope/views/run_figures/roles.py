"""What a time class, a kernel family or a kind of memory stands for, and its name in words."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.analysis.breakdown import IDLE_PREFIX
from gpuscope.document.blocks import Role

_CLASSES: Mapping[str, Role] = {
    "compute-bound": "compute",
    "bandwidth-bound": "memory",
    "instruction-bound": "l2",
    "launch-bound": "launch",
    "transfers": "copy",
    "communication": "communication",
    "communication: transfer": "communication",
    "communication: waiting for another rank": "waste",
}

_KINDS: Mapping[str, Role] = {
    "matmul": "compute",
    "attention": "tensor",
    "convolution": "compute",
    "recurrent": "tensor",
    "normalization": "memory",
    "reduction": "memory",
    "pointwise": "good",
    "fused": "good",
    "gather": "shared",
    "sort": "shared",
    "optimizer": "launch",
    "copy": "copy",
    "transfer": "copy",
    "memset": "other",
    "random": "l2",
    "collective": "communication",
    "idle": "idle",
}

_MEMORY: Mapping[str, Role] = {
    "parameter": "compute",
    "gradient": "memory",
    "optimizer_state": "launch",
    "activation": "good",
    "temporary": "l2",
    "cache": "shared",
    "input": "copy",
    "communication": "communication",
}


def class_role(label: str) -> Role:
    """Return the role of a time class; causes of idle time are all idle."""
    return "idle" if label.startswith(IDLE_PREFIX) else _CLASSES.get(label, "other")


def kind_role(kind: str) -> Role:
    """Return the role of a kernel family."""
    return _KINDS.get(kind, "other")


def memory_role(category: str) -> Role:
    """Return the role of a category of memory."""
    return _MEMORY.get(category, "other")
