"""Optimizer steps and other operators on lists of tensors (`_foreach_*`, `_fused_*`, `_amp_*`).

ATen packs chunks of 65,536 elements of many tensors into one launch of at most 320 blocks; a launch
also ends when its table of addresses is full: 110, 64, 48, 36 or 30 tensors for 1 to 5 lists
(aten/src/ATen/native/cuda/MultiTensorApply.cuh: kChunkSize, depth_to_max_blocks,
depth_to_max_tensors). So a model's update is many launches of some 45-105 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from gpuscope.cost.bandwidth import Launch, is_hot, kernel
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_CHUNK = 65536
_BLOCKS = 320
_TENSORS = (110, 64, 48, 36, 30)
"""Tensors of one launch by number of lists."""
_TENSORS_WITH_SCALARS = (96, 64, 48, 36, 30)
"""The same where each tensor brings a number of its own."""
_THREADS = 512

_FITTING = 0.65
"""Of the L2, what lists that are walked again and again may fill: 33 MB stay, 39 MB do not."""


@dataclass(frozen=True, slots=True)
class ListLaunch:
    """One launch over part of a list of tensors.

    Attributes:
        elements: in one list.
        blocks: chunks.
        largest: elements of the largest chunk.
    """

    elements: int
    blocks: int
    largest: int


@lru_cache(maxsize=512)
def list_launches(sizes: tuple[int, ...], most_tensors: int) -> tuple[ListLaunch, ...]:
    """Cut a list of tensors (their element counts) into launches as `multi_tensor_apply` does."""
    done: list[ListLaunch] = []
    elements = blocks = largest = tensors = 0

    def close() -> None:
        nonlocal elements, blocks, largest, tensors
        if blocks:
            done.append(ListLaunch(elements, blocks, largest))
        elements = blocks = largest = tensors = 0

    for size in sizes:
        left = size
        if not left:
            continue
        tensors += 1
        while left:
            # As many whole chunks as the launch still has room for.
            chunks = min(ceil(left / _CHUNK), _BLOCKS - blocks)
            taken = min(left, chunks * _CHUNK)
            elements, blocks = elements + taken, blocks + chunks
            largest = max(largest, min(taken, _CHUNK))
            left -= taken
            if blocks == _BLOCKS:
                close()
                # A tensor that goes on into the next launch takes a place there again.
                tensors = 1 if left else 0
        if tensors == most_tensors:
            close()
    close()
    return tuple(done)


def _list_kernels(
    work: Work,
    name: str,
    lists: Sequence[TensorSpec],
    depth: int,
    read: float,
    written: float,
    cycles: float,
    steps: float,
    scalars: bool = False,
    step_s: float | None = None,
) -> tuple[Kernel, ...]:
    """Kernels over equally long lists.

    A block walks its chunk in steps of 4 elements a thread, each a load (from the L2 where an
    earlier launch left the lists there) and then its arithmetic.

    Args:
        work: what is costed.
        name: of the operation.
        lists: the tensors of the first list, which the others are shaped like.
        depth: lists that the launch knows the addresses of.
        read: bytes read for each element.
        written: bytes written for each element.
        cycles: clocks an element.
        steps: dependent loads of a thread relative to a plain multiplication.
        scalars: each tensor brings its own number.
        step_s: dependent arithmetic of one step.
    """
    device = [t for t in lists if t.device == "device"]
    if not device:
        return ()
    limits = _TENSORS_WITH_SCALARS if scalars else _TENSORS
    most = limits[min(depth, len(limits)) - 1]
    get = work.constants.value
    slower, longer = _element_by_element(work, device)
    load, cycles = get("optimizer.load") * steps * slower, cycles * longer
    hot = _hot_share(work)
    slow = get("optimizer.step_s") if step_s is None else step_s
    kernels = []
    made: dict[ListLaunch, Kernel] = {}
    for launch in list_launches(tuple(t.numel for t in device), most):
        if launch not in made:
            made[launch] = kernel(
                work,
                Launch(
                    f"multi_tensor_{name}",
                    "optimizer",
                    launch.elements * read * (1 - hot),
                    launch.elements * read * hot,
                    launch.elements * written,
                    items=launch.elements,
                    cycles=cycles,
                    grid=launch.blocks,
                    block=_THREADS,
                    resident=4,
                    chain_s=get("optimizer.base_s") + ceil(launch.largest / (_THREADS * 4)) * slow,
                    loads=ceil(launch.largest / (_THREADS * 4)) * load * (read > 0),
                    dtype=device[0].dtype,
                    family="optimizer",
                    note=Text("{chunks} chunks of up to 65,536 elements", chunks=launch.blocks),
                ),
            )
        kernels.append(made[launch])
    return tuple(kernels)


def _element_by_element(work: Work, lists: Sequence[TensorSpec]) -> tuple[float, float]:
    """Factors on loads and on arithmetic: tensors that are no whole number of four elements
    (`kILP`) are walked element by element."""
    get = work.constants.value
    odd = [t.numel for t in lists if t.numel % 4]
    slowest = max(odd, default=0) >= min(max(t.numel for t in lists), _CHUNK)
    share = (get("optimizer.odd_cycles") - 1.0) * sum(odd) / max(sum(t.numel for t in lists), 1)
    return get("optimizer.odd") if slowest else 1.0, 1.0 + share


def _hot_share(work: Work) -> float:
    """Share of the lists' bytes that is likely in the L2; all or nothing where it is near either.

    A load of a step waits for its slowest thread, so a few cold tensors cost as cold ones do. Lists
    are walked from end to end: ones that do not fit as a whole have pushed out what comes next.
    """
    total = hot = 0
    lists: dict[object, int] = {}
    for position, spec in enumerate((*work.op.inputs, *work.op.outputs)):
        if spec.device != "device":
            continue
        lists[spec.storage if spec.storage >= 0 else -1 - position] = spec.nbytes
        if position < len(work.op.inputs):
            total += spec.nbytes
            hot += spec.nbytes * is_hot(work, position)
    if sum(lists.values()) > _FITTING * work.l2_bytes:
        return 0.0
    return 1.0 if total and hot > 0.95 * total else 0.0


_CHEAP = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "clamp_max",
    "clamp_min",
    "pow",
    "copy",
    "abs",
    "neg",
    "sign",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "zero",
    "lerp",
    "addcmul",
)
_DEAR = (
    "addcdiv",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "log",
    "sigmoid",
    "tanh",
    "cos",
    "sin",
    "erf",
    "expm1",
    "log10",
    "log1p",
    "log2",
    "lgamma",
    "acos",
    "asin",
    "atan",
    "cosh",
    "sinh",
    "tan",
    "erfc",
)
_BINARY = frozenset(_CHEAP[:10])
_OWN_LISTS = {"addcmul": 3, "addcdiv": 3, "lerp": 2, "copy": 2}
"""Lists of tensors in the schema, where it is not one."""


def _lists(short: str, overload: str) -> int:
    """Lists of tensors that an operator takes, by its schema."""
    lists = _OWN_LISTS.get(short, 1)
    if overload == "List" and short in _BINARY | {"lerp"}:
        lists += 1
    return lists


@kernel_model(*(f"aten::_foreach_{n}{tail}" for n in (*_CHEAP, *_DEAR) for tail in ("", "_")))
def foreach(work: Work) -> tuple[Kernel, ...]:
    """An elementwise operation on each tensor of a list."""
    short = work.op.name.rpartition("_foreach_")[2]
    in_place = short.endswith("_")
    short = short.rstrip("_")
    lists = _lists(short, work.op.overload)
    inputs = work.op.inputs
    count = len(inputs) // lists
    first = [t for t in inputs[:count] if t.device == "device"]
    if not first:
        return ()
    if work.op.overload == "Tensor" and inputs[-1].dtype != first[0].dtype:
        return _one_by_one(work, first[:-1], [inputs[-1]] * count, short)
    if work.op.overload == "List" and any(
        a.shape != b.shape for a, b in zip(inputs[:count], inputs[count:], strict=False)
    ):
        return _one_by_one(work, inputs[:count], inputs[count : 2 * count], short)
    size = sum(t.itemsize for t in first) / len(first)
    if short == "zero":
        return _list_kernels(
            work,
            "zero",
            first,
            1,
            0.0,
            size,
            0.05,
            0.4,
            step_s=work.constants.value("optimizer.store_s"),
        )
    if short == "copy":
        source = sum(t.itemsize for t in inputs[count:]) / max(count, 1)
        return _list_kernels(work, "copy", first, 2, source, size, 0.1, 1.0)
    depth = lists + (0 if in_place else 1)
    # Adam squares gradients by giving them twice (addcmul): they are read once.
    given = [tuple(t.storage for t in inputs[i * count :][:count]) for i in range(lists)]
    read = lists if -1 in given[-1] else len(set(given))
    cycles = 0.1 + 0.03 * lists if short in _CHEAP else 0.35
    scalars = "ScalarList" in work.op.overload
    if short == "div":  # true divisions, whose way for other types than float32 is longer
        cycles = work.constants.value(f"optimizer.division{'_half' if size < 4 else ''}_cycles")
    steps = 1.0 + 0.15 * (depth - 1 - (lists - read))
    return _list_kernels(work, short, first, depth, size * read, size, cycles, steps, scalars)


def _one_by_one(
    work: Work, tensors: Sequence[TensorSpec], others: Sequence[TensorSpec], short: str
) -> tuple[Kernel, ...]:
    """A kernel a tensor: what a number of another type costs, or a list of other shapes, as a
    capturable optimizer's corrections are (`can_use_fast_route`)."""
    found: list[Kernel] = []
    for spec, number in zip(tensors, others, strict=False):
        op = replace(work.op, inputs=(spec, number), outputs=(spec,))
        found += elementwise(replace(work, op=op), name=short, kind="optimizer", family="pointwise")
    return tuple(found)


@kernel_model("aten::_foreach_norm", "aten::_foreach_max")
def foreach_norm(work: Work) -> tuple[Kernel, ...]:
    """The norm of each tensor: partial results of chunks, then a block a tensor adds them up."""
    inputs = [t for t in work.op.inputs if t.device == "device"]
    if not inputs:
        return ()
    partial = _list_kernels(work, "norm", inputs, 1, inputs[0].itemsize, 0.0, 0.15, 0.75)
    finish = kernel(
        work,
        Launch(
            "multi_tensor_norm_cleanup",
            "optimizer",
            written_bytes=4.0 * len(inputs),
            grid=len(inputs),
            block=512,
            chain_s=1.2e-6,
            dtype=inputs[0].dtype,
        ),
    )
    return (*partial, finish)


@kernel_model(
    "aten::_fused_adamw_",
    "aten::_fused_adam_",
    "aten::_fused_adamw",
    "aten::_fused_adam",
    "aten::_fused_adagrad_",
)
def fused_adam(work: Work) -> tuple[Kernel, ...]:
    """Parameters, gradients and both moments in one pass: four lists (five with amsgrad)."""
    amsgrad = bool(work.op.args.get("amsgrad", False))
    moments = 1 if "adagrad" in work.op.name else 3 if amsgrad else 2
    inputs = [t for t in work.op.inputs if t.device == "device" and t.numel > 0]
    # Step counters follow as 0-dim tensors (one a parameter); gradient scales may too.
    groups = moments + 2
    count = len(work.op.inputs) // (groups + 1)
    if not count or not inputs:
        return ()
    lists = [work.op.inputs[i * count : (i + 1) * count] for i in range(groups)]
    sizes = [item[0].itemsize for item in lists]
    read = float(sum(sizes))
    written = float(sizes[0] + sum(sizes[2:]))
    cycles = work.constants.value("optimizer.adam_cycles")
    name = work.op.name.rpartition("::")[2].strip("_")
    steps = work.constants.value("optimizer.adam_steps")
    return _list_kernels(
        work,
        name,
        lists[0],
        groups,
        read,
        written,
        cycles,
        steps,
        step_s=work.constants.value("optimizer.adam_step_s"),
    )


@kernel_model("aten::_fused_sgd_", "aten::_fused_sgd")
def fused_sgd(work: Work) -> tuple[Kernel, ...]:
    """Parameters, gradients and (with momentum) one moment in one pass."""
    inputs = [t for t in work.op.inputs if t.device == "device"]
    momentum = work.op.args.get("momentum", 0.0)
    groups = 3 if isinstance(momentum, (int, float)) and momentum else 2
    count = len(inputs) // groups
    if not count:
        return ()
    size = inputs[0].itemsize
    written = size * (groups - 1)
    # Without a moment a step waits for two loads and stores one value.
    share = 1.0 if groups == 3 else work.constants.value("optimizer.sgd_plain_share")
    return _list_kernels(
        work,
        "fused_sgd",
        inputs[:count],
        groups,
        size * groups,
        written,
        work.constants.value("optimizer.sgd_cycles"),
        work.constants.value("optimizer.sgd_steps") * share,
        step_s=work.constants.value("optimizer.sgd_step_s") * share,
    )


@kernel_model("aten::_amp_foreach_non_finite_check_and_unscale_")
def unscale(work: Work) -> tuple[Kernel, ...]:
    """Scale each gradient and look for infinities."""
    inputs = [t for t in work.op.inputs if t.device == "device" and t.shape]
    if not inputs:
        return ()
    size = inputs[0].itemsize
    return _list_kernels(work, "unscale", inputs, 1, size, size, 0.15, 1.0)


@kernel_model("aten::_amp_update_scale_", "aten::_amp_update_scale")
def update_scale(work: Work) -> tuple[Kernel, ...]:
    """One thread."""
    return (
        kernel(
            work,
            Launch("amp_update_scale", "optimizer", written_bytes=8.0, block=1, chain_s=0.5e-6),
        ),
    )
