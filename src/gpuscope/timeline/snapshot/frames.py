"""Who allocated: the line of the user's own code, and what sort of memory it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscope.document.plain import whole
from gpuscope.document.text import Text

UNKNOWN = "unknown"

_LONGEST = 4096
"""Letters of a file's name or a function's that are looked at."""

BACKWARD = Text("made in backward")
"""Gradients and what the backward pass needs on its way to them: their stacks are the same."""

_INTERNAL = re.compile(
    r"(site|dist)-packages[/\\](torch|triton|functorch|torchgen)[/\\]|^<|^\?\?$|"
    r"[/\\]torch[/\\](nn|optim|autograd|utils|distributed|cuda|fx|amp|_\w+)[/\\]|"
    r"[/\\]torch[/\\](_\w+|functional|__init__|serialization)\.py$"
)
_PACKAGE = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python\d")
_NATIVE = re.compile(r"\.(cpp|cc|h|cu|cuh|c)$|\.so(\.\d+)*$|^$")

_OPTIMIZER = re.compile(r"[/\\]torch[/\\]optim[/\\]|[/\\]optimizers?[/\\]")
_STATE = re.compile(r"_init_group|init_state|_initialize_state|load_state_dict")
_UPDATE = re.compile(r"^_?(multi|single)_tensor_|^_?fused_|foreach")
"""Functions that compute an update: what they allocate is temporary, also where the recording ends
within one (out of memory in the first `step`)."""
_BACKWARD = re.compile(
    r"_engine_run_backward|^backward$|AccumulateGrad|autograd::(python::)?(Python)?Engine|"
    r"evaluate_function"
)
_NODE = re.compile(r"torch::autograd::generated::(\w+Backward\d*)::")
_GRADIENT = re.compile(r"AccumulateGrad|clone_obey_contract|accumulateGrad")
_PARAMETER = re.compile(r"^(_apply|to|cuda|_load_from_state_dict|reset_parameters|half|bfloat16)$")
_MODULE_FILE = re.compile(r"[/\\]torch[/\\]nn[/\\](modules[/\\]|functional)")
_COMMUNICATION = re.compile(r"[/\\]torch[/\\]distributed[/\\]|ProcessGroup|nccl", re.IGNORECASE)


def user_frame(frames: Sequence[Mapping[str, Any]]) -> str:
    """Name the innermost line that is the user's own: "train.py:12 forward".

    Lines of installed packages count where there is no line of the user's; of PyTorch itself and
    of C++ only where there is nothing else: of a thread of the backward pass, the autograd node
    ("AddmmBackward0"). "" where no stack was recorded.

    Args:
        frames: innermost first, as PyTorch stores them.
    """
    package = other = node = ""
    for frame in frames:
        filename = word(frame.get("filename"))
        found = _NODE.search(word(frame.get("name")))
        node = node or (found[1] if found else "")
        if _NATIVE.search(filename) or _INTERNAL.search(filename):
            other = other or label(frame)
        elif _PACKAGE.search(filename):
            package = package or label(frame)
        else:
            return label(frame)
    return package or node or other


def category(frames: Sequence[Mapping[str, Any]], lasts: bool = False) -> str:
    """Say what sort of memory a stack allocated, where its frames tell it; else "unknown".

    States made by an optimizer (in a function made for it, or simply there until the end of the
    recording, as of optimizers that make them in `step`), gradients that autograd accumulates,
    parameters that a module is moved or loaded with, buffers of collectives, and what modules make
    in their forward pass (activations). What else is made in backward may be a gradient or a step
    towards one.

    Args:
        frames: innermost first.
        lasts: the block is still there at the end of the recording.
    """
    names = [(word(f.get("filename")), word(f.get("name"))) for f in frames]
    if any(_OPTIMIZER.search(filename) for filename, _ in names):
        made = any(_STATE.search(name) for _, name in names)
        made = made or (lasts and not any(_UPDATE.search(name) for _, name in names))
        return "optimizer_state" if made else "temporary"
    if any(_GRADIENT.search(name) for _, name in names):
        return "gradient"
    if any(_COMMUNICATION.search(filename) for filename, _ in names):
        return "communication"
    if any(_BACKWARD.search(name) for _, name in names):
        return BACKWARD
    modules = [name for filename, name in names if _MODULE_FILE.search(filename)]
    if any(_PARAMETER.match(name) for name in modules):
        return "parameter"
    if modules:
        return "activation"
    return UNKNOWN


def word(value: object) -> str:
    """A string of a pickle; "" for anything else, which may be without end."""
    return whole(value[:_LONGEST]) if isinstance(value, str) else ""


def stack_of(frames: Sequence[Mapping[str, Any]], most: int) -> tuple[str, ...]:
    """The lines of a stack, innermost first: Python's, or all where it has none of them."""
    names = [(frame, word(frame.get("filename"))) for frame in frames]
    python = [frame for frame, name in names if name != "??" and not _NATIVE.search(name)]
    return tuple(filter(None, (label(frame) for frame in (python or frames)[:most])))


def label(frame: Mapping[str, Any]) -> str:
    """A line of a stack: "train.py:12 forward"; "" for one that says nothing."""
    filename = word(frame.get("filename")).replace("\\", "/").rpartition("/")[2]
    line = frame.get("line")
    where = (
        f"{filename}:{line}"
        if filename and isinstance(line, int) and 0 < line < 2**31
        else filename
    )
    # A template of C++ may be thousands of characters long.
    return " ".join(part for part in (where, word(frame.get("name"))[:80]) if part)
