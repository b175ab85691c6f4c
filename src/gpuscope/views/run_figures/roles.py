"""What a time class, a kernel family or a kind of memory stands for, and its name in words."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.analysis.breakdown import IDLE_PREFIX
from gpuscope.explain.types import Role, Words
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import class_label, word

_CLASSES: Mapping[str, Role] = {
    "compute-bound": "compute", "bandwidth-bound": "memory", "instruction-bound": "l2",
    "launch-bound": "launch", "transfers": "copy", "communication": "communication",
    "communication: transfer": "communication",
    "communication: waiting for another rank": "waste",
}  # fmt: skip

_KINDS: Mapping[str, Role] = {
    "matmul": "compute", "attention": "tensor", "convolution": "compute", "recurrent": "tensor",
    "normalization": "memory", "reduction": "memory", "pointwise": "good", "fused": "good",
    "gather": "shared", "sort": "shared", "optimizer": "launch", "copy": "copy",
    "transfer": "copy", "memset": "other", "random": "l2", "collective": "communication",
    "idle": "idle",
}  # fmt: skip

_MEMORY: Mapping[str, Role] = {
    "parameter": "compute", "gradient": "memory", "optimizer_state": "launch",
    "activation": "good", "temporary": "l2", "cache": "shared", "input": "copy",
    "communication": "communication",
}  # fmt: skip


def class_role(label: str) -> Role:
    """Return the role of a time class; causes of idle time are all idle."""
    return "idle" if label.startswith(IDLE_PREFIX) else _CLASSES.get(label, "other")


def kind_role(kind: str) -> Role:
    """Return the role of a kernel family."""
    return _KINDS.get(kind, "other")


def memory_role(category: str) -> Role:
    """Return the role of a category of memory."""
    return _MEMORY.get(category, "other")


def class_words(label: str) -> Words:
    """Return a time class in both languages."""
    return Words(class_label(label, "en"), class_label(label, "zh"))


def data_words(name: str) -> Words:
    """Return a stable word of the data ("tensor_core") in both languages."""
    return Words(word(name, "en"), word(name, "zh"))


def origin_words(origin: str) -> Words:
    """Return "predicted" or "measured" in both languages."""
    return Words(tr(origin, "en"), tr(origin, "zh"))
