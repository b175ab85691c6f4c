"""Operator calls as a dispatch mode sees them: what their schema says, their plain arguments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpuscope.program.capture import dynamic
from gpuscope.program.types import TensorSpec

_SKIPPED_NAMESPACES = frozenset({"prim", "profiler"})
_SKIPPED = frozenset(
    {
        "aten::detach",
        "aten::alias",
        "aten::lift_fresh",
        "aten::is_pinned",
        "aten::sym_size",
        "aten::sym_stride",
        "aten::sym_numel",
        "aten::sym_storage_offset",
        "aten::lift",
        "aten::_has_compatible_shallow_copy_type",
        "aten::is_same_size",
        "aten::record_stream",
        "aten::set_",
        "aten::is_coalesced",
        "aten::_nnz",
        "aten::sparse_dim",
        "aten::dense_dim",
        "aten::_has_same_storage_numel",
        "aten::_efficientzerotensor",
    }
)
"""Bookkeeping that a real run does not dispatch, or that does nothing on the device."""

_DTYPES = {
    getattr(torch, name): name
    for name in dir(torch)
    if isinstance(getattr(torch, name), torch.dtype)
}
_DTYPES.update({dtype: str(dtype).removeprefix("torch.") for dtype in _DTYPES})

_STAGED_BYTES = 2**20
"""A copy from pageable memory that nobody waits for is staged by the driver up to about this size;
a larger one holds up the host all the same (benchmarks/micro/synchronisation.py: 1 MiB returns
at once, 16 MiB waits)."""

COMMUNICATION = ("c10d::", "_c10d_functional::", "symm_mem::", "_dtensor::")

COPIES = ("aten::_to_copy", "aten::copy_")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is looked up once per operator overload.

    Attributes:
        name: "aten::mm", without overload.
        overload: "default", "Tensor", ...
        skip: bookkeeping, not recorded.
        composite: made of other operators, without a kernel of its own.
        writes: positions of the arguments that it writes to.
        argument_names: by position.
        viewing: returns a view of an argument, or changes one's shape alone (`transpose_`).
        communicates: one of torch's collectives.
        in_place: writes to its first argument, and returns it.
    """

    name: str
    overload: str
    skip: bool
    composite: bool
    writes: tuple[int, ...]
    argument_names: tuple[str, ...]
    viewing: bool
    communicates: bool = False
    in_place: bool = False


def facts_of(func: Any) -> Facts:
    """Read an operator overload's schema and kernels."""
    namespace, _, rest = func.name().partition("::")
    name = f"{namespace}::{rest.split('.')[0]}"
    skip = namespace in _SKIPPED_NAMESPACES or name in _SKIPPED
    arguments = func._schema.arguments
    writes = tuple(
        i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write
    )
    viewing = torch.Tag.inplace_view in func.tags or (
        not writes
        and any(
            r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns
        )
    )
    # Some composites (silu_backward) have kernels of their own on every backend: not taken apart.
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    composite = (
        not skip
        and has_kernel(func.name(), "CompositeImplicitAutograd")
        and not has_kernel(func.name(), "CPU")
    )
    return Facts(
        name,
        func._overloadname or "default",
        skip,
        composite,
        writes,
        tuple(a.name for a in arguments),
        viewing,
        f"{namespace}::" in COMMUNICATION,
        writes[:1] == (0,) and name.endswith("_"),
    )


def made_of_others(func: Any) -> Any:
    """How PyTorch itself runs a composite operator: its C++, not the decomposition in Python that
    `func.decompose` prefers (which takes recurrent layers apart)."""
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def dtype_name(dtype: torch.dtype) -> str:
    """torch's name without the prefix."""
    return _DTYPES[dtype]


def flat(value: Any) -> list[Any]:
    """Values of nested lists and tuples, in order."""
    out: list[Any] = []
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, (list, tuple)):
            stack.extend(reversed(top))
        else:
            out.append(top)
    return out


def wants_grad(args: Any) -> bool:
    """Whether any tensor argument requires grad."""
    return any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat(args))


def plain_arguments(facts: Facts, args: Any, kwargs: Any) -> dict[str, object]:
    """Non-tensor arguments as plain data by schema name."""
    out: dict[str, object] = {}
    for name, value in (*zip(facts.argument_names, args, strict=False), *kwargs.items()):
        if isinstance(value, torch.Tensor):
            continue
        if isinstance(value, (list, tuple)):
            if any(isinstance(v, torch.Tensor) for v in value):
                out[name] = tuple(_slot(v) for v in value)
                continue
            out[name] = tuple(value)
        elif isinstance(value, torch.dtype):
            out[name] = _DTYPES[value]
        elif value is None or isinstance(value, (bool, int, float, str)):
            out[name] = value
        elif isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            out[name] = str(value).removeprefix("torch.")
    return out


def _slot(value: Any) -> object:
    return "tensor" if isinstance(value, torch.Tensor) else value


def sync_of(
    facts: Facts,
    args: Any,
    kwargs: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> str:
    """Why the host waits for the device in this call, "" if it does not."""
    if facts.name in dynamic.SYNCING and any(s.device == "device" for s in inputs):
        waits = facts.name != "aten::repeat_interleave" or kwargs.get("output_size") is None
        return "nonzero" if waits else ""
    if facts.name in dynamic.READING and any(s.device == "device" for s in inputs):
        return "item"
    if facts.name not in COPIES:
        return ""
    source, target = inputs[-1], outputs[0]
    if source.device == target.device:
        return ""
    given = dict(zip(facts.argument_names, args, strict=False)) | kwargs
    if not given.get("non_blocking"):
        return "blocking_copy"
    host = source if source.device == "host" else target
    staged = source.device == "host" and source.nbytes <= _STAGED_BYTES
    return "" if host.pinned or staged else "blocking_copy"
