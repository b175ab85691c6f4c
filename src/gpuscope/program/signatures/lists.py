"""Operations on lists of tensors: `_foreach_*` and the fused optimizers.

The profiler leaves out the sizes of long lists (more than 30 tensors); such a call gets no answer.
"""

from __future__ import annotations

from gpuscope.program.signatures.call import Call, Made
from gpuscope.program.types import TensorSpec

_BINARY = frozenset(
    {"add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow"}
)
_LISTS = {"addcmul": 3, "addcdiv": 3, "lerp": 2, "copy": 2}


def foreach(call: Call) -> Made | None:
    """An elementwise operation on each tensor of a list.

    The overload decides how many lists there are: it is read from the values, so that without
    them a binary operation gets no answer.
    """
    short = call.name.removeprefix("_foreach_")
    in_place = short.endswith("_")
    short = short.rstrip("_")
    tensors = call.tensors
    if not tensors:
        return None
    overload, lists = "default", _LISTS.get(short, 1)
    if short in _BINARY | {"lerp"}:
        if call.texts is None:
            return None
        at = 2 if short == "lerp" else 1
        second = call.value(at)
        if isinstance(second, list):
            overload = "ScalarList"
        elif second is not None and not (short in ("add", "sub") and len(call.texts) > 2):
            overload = "Scalar"
        elif len(tensors) % (at + 1) == 0 and _alike(tensors, at + 1):
            overload, lists = "List", at + 1
        else:
            overload, tensors = "Tensor", tensors[:-1]
    elif short in ("addcmul", "addcdiv"):
        third = call.value(3)
        overload = "ScalarList" if isinstance(third, list) else "Scalar"
    count, rest = divmod(len(tensors), lists)
    if rest or not count or not _alike(tensors, lists):
        return None
    outputs = tensors[:count]
    if short in ("norm", "max"):
        outputs = tuple(TensorSpec((), (), t.dtype) for t in tensors)
    name = f"aten::_foreach_{short}{'_' if in_place else ''}"
    return Made(name, tensors, outputs, {"overload": overload})


def _alike(tensors: tuple[TensorSpec, ...], lists: int) -> bool:
    """Whether the tensors are `lists` lists of equal shapes."""
    count = len(tensors) // lists
    shapes = [t.shape for t in tensors]
    return len(tensors) == count * lists and all(
        shapes[i * count : (i + 1) * count] == shapes[:count] for i in range(1, lists)
    )


FUSED = {"_fused_adamw_": 4, "_fused_adam_": 4, "_fused_adagrad_": 3, "_fused_sgd_": 2}
"""Lists that the kernel reads, without amsgrad's maxima and sgd's momentum."""


def fused_optimizer(call: Call) -> Made | None:
    """Parameters, gradients, moments, step counters."""
    tensors = call.tensors
    lists = FUSED[call.name]
    if not tensors:
        return None
    if call.name == "_fused_sgd_":
        for lists in (3, 2):
            if len(tensors) % lists == 0 and _alike(tensors, lists):
                count = len(tensors) // lists
                momentum = {"momentum": 0.9} if lists == 3 else {}
                return Made(f"aten::{call.name}", tensors, tensors[:count], momentum)
        return None
    # Extra gradient scales (two 0-dim tensors) may follow; counters are one a parameter.
    for extra in (0, 1, 2):
        for maxima in (0, 1):
            each = lists + maxima + 1
            count, rest = divmod(len(tensors) - extra, each)
            body = tensors[: count * (lists + maxima)]
            if not rest and count and _alike(body, lists + maxima):
                counters = tensors[count * (lists + maxima) : count * each]
                if all(t.numel == 1 for t in counters):
                    used = (*body[: count * lists], *counters)
                    args = {"amsgrad": True} if maxima else {}
                    inputs = (*body, *counters) if maxima else used
                    return Made(f"aten::{call.name}", inputs, tensors[:count], args)
    return None
