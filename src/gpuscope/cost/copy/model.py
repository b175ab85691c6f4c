"""Copies within the device: clones, casts, concatenation, padding, slices' gradients, fills.

A copy between equally laid out tensors of one type is a memcpy; a cast from float32 to a 16-bit
type is vectorized; other casts and all strided copies go element by element (ATen's Copy.cu).
Copies whose ends are on different sides of the host link are handed to
`gpuscope.cost.copy.transfer`.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, fetched_bytes, is_hot, kernel, machine, reads, written
from gpuscope.cost.copy.transfer import host_copy
from gpuscope.cost.pointwise.elementwise import (
    THREADS,
    dependent_loads,
    elementwise,
    issue_cycles,
    iteration,
    offset_s,
    turning_cycles,
)
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_NARROWED = frozenset(
    {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"}
)
"""Types that float32 is cast to by a vectorized kernel of its own (Copy.cu)."""

_CUT_ABOVE = 2**20
"""Bytes up to which a memcpy of an odd size is one piece: of 370 recorded ones, none was longer for
it below, and all above by 3 to 6 us."""


@kernel_model(
    "aten::_to_copy",
    "aten::copy_",
    "aten::copy",
    "aten::clone",
    "aten::contiguous",
    "aten::to",
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::view_copy",
    "aten::expand_copy",
    "aten::permute_copy",
    "aten::slice_copy",
    "aten::select_copy",
    "aten::transpose_copy",
    "aten::t_copy",
    "aten::as_strided_copy",
    "aten::diagonal_copy",
    "aten::unfold_copy",
    "aten::alias_copy",
    "aten::detach_copy",
    "aten::unsqueeze_copy",
    "aten::squeeze_copy",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::channel_shuffle",
    "aten::repeat",
    "aten::tile",
    "aten::repeat_interleave",
    "aten::as_strided_scatter",
    "aten::reshape",
    "aten::_reshape_copy",
)
def copy(work: Work) -> tuple[Kernel, ...]:
    """One tensor into another: within the device, or across the host link."""
    inputs = work.op.inputs
    if not inputs or not work.op.outputs:
        return ()
    position = 1 if work.op.name in ("aten::copy_", "aten::copy") and len(inputs) > 1 else 0
    source, target = inputs[position], work.op.outputs[0]
    if source.device != target.device:
        return host_copy(work, source, target)
    if target.device == "host":
        return ()
    return (copy_kernel(work, source, target, is_hot(work, position)),) if target.numel else ()


def copy_kernel(
    work: Work, source: TensorSpec, target: TensorSpec, hot: bool = False, note: str = ""
) -> Kernel:
    """The kernel that copies `source` to `target`, both on the device."""
    casting = source.dtype != target.dtype
    if casting and source.dtype == "float32" and target.dtype in _NARROWED:
        casting = False
    plan = iteration((source,), target, casting)
    cycles = issue_cycles(work, plan, 2, "cheap") + turning_cycles(work, source, target)
    read, out = fetched_bytes(source), fetched_bytes(target)
    read = max(read, _read_again(work, source, target))
    # Memory that corrects errors stores whole units: of those written in part, the rest is read.
    rest = out if out > target.touched_bytes and out > machine(work).l2_bytes else 0.0
    name, extra = f"copy_{plan.style}", 0.0
    grid = max(1, ceil(target.numel / (THREADS * plan.per_thread)))
    if source.dtype == target.dtype and plan.style == "vectorized":
        # Whatever its elements are, a memcpy moves bytes: as a copy of 4-byte values.
        name, words = "memcpy_d2d", target.nbytes / 4
        cycles *= words / max(target.numel, 1)
        grid = max(1, ceil(words / (THREADS * plan.per_thread)))
        if target.nbytes > _CUT_ABOVE and target.nbytes % 4096:
            # A memcpy of an odd size is cut in two, one after the other.
            extra = work.constants.value("copy.memcpy.odd_size_s")
    return kernel(
        work,
        Launch(
            name,
            "copy",
            rest + (0.0 if hot else read),
            read if hot else 0.0,
            out,
            source.touched_bytes + target.touched_bytes,
            target.numel,
            cycles,
            grid,
            THREADS,
            streaming=True,
            floor_s=extra,
            chain_s=offset_s(work, plan),
            loads=dependent_loads(work, plan) if name != "memcpy_d2d" else 0.5,
            dtype=target.dtype,
            note=note
            or (
                Text("{source} to {target}", source=source.dtype, target=target.dtype)
                if casting
                else ""
            ),
        ),
    )


def _read_again(work: Work, source: TensorSpec, target: TensorSpec) -> float:
    """Bytes from memory where neighbours of one unit are wanted far from each other.

    Elements are taken in the order of `target`; before the dimension that is dense in `source` goes
    on, all inner ones pass by, a unit of memory for each element. What the L2 does not keep so long
    is read again: 33 million of 8 bytes, the inner two dimensions 812,000 apart, take 877 us.
    """
    sizes = list(zip(source.shape, source.stride, target.stride, strict=False))
    dense = [(size, after) for size, before, after in sizes if size > 1 and before == 1]
    if len(source.shape) != len(target.shape) or not dense:
        return 0.0
    size, after = dense[0]
    inner = prod(n for n, _, step in sizes if step < after)
    if inner * _UNIT_BYTES <= machine(work).l2_bytes:
        return 0.0
    return source.numel * min(float(_UNIT_BYTES), size * source.itemsize)


_UNIT_BYTES = 64
"""Least that high-bandwidth memory reads: two sectors."""


def made_contiguous(work: Work, *positions: int) -> tuple[Kernel, ...]:
    """Copies of the inputs at `positions` that are not row-major, for kernels that need them so."""
    kernels = []
    for position in positions:
        spec = work.op.inputs[position]
        if spec.device == "device" and spec.numel and not spec.is_contiguous:
            steps, step = [], 1
            for size in reversed(spec.shape):
                steps.append(step)
                step *= size
            target = replace(spec, stride=tuple(reversed(steps)), storage=-1)
            kernels.append(
                copy_kernel(
                    work, spec, target, is_hot(work, position), Text("made contiguous first")
                )
            )
    return tuple(kernels)


@kernel_model(
    "aten::fill_",
    "aten::fill",
    "aten::zero_",
    "aten::zeros",
    "aten::zeros_like",
    "aten::ones",
    "aten::ones_like",
    "aten::full",
    "aten::full_like",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_full",
    "aten::scalar_tensor",
    "aten::zero",
    "aten::fill_diagonal_",
)
def fill(work: Work) -> tuple[Kernel, ...]:
    """Write one value everywhere."""
    return elementwise(work, name="fill", kind="copy", positions=(), casting=False)


def fill_kernel(work: Work, target: TensorSpec) -> Kernel:
    """The kernel that fills `target` with one value."""
    plan = iteration((), target)
    return kernel(
        work,
        Launch(
            f"elementwise_{plan.style}_fill",
            "copy",
            written_bytes=float(target.nbytes),
            items=target.numel,
            cycles=issue_cycles(work, plan, 1, "cheap"),
            streaming=True,
            grid=max(1, ceil(target.numel / (THREADS * plan.per_thread))),
            dtype=target.dtype,
        ),
    )


@kernel_model(
    "aten::arange",
    "aten::range",
    "aten::linspace",
    "aten::logspace",
    "aten::tril_indices",
    "aten::triu_indices",
)
def ramp(work: Work) -> tuple[Kernel, ...]:
    """Each element from its position alone, in blocks of 64 threads (RangeFactories.cu)."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    return (
        kernel(
            work,
            Launch(
                "elementwise_with_index",
                "copy",
                written_bytes=written(work),
                items=out.numel,
                cycles=work.constants.value("copy.ramp.cycles"),
                grid=max(1, ceil(out.numel / 64)),
                block=64,
                dtype=out.dtype,
            ),
        ),
    )


@kernel_model(
    "aten::tril",
    "aten::triu",
    "aten::tril_",
    "aten::triu_",
    "aten::flip",
    "aten::roll",
    "aten::diag_embed",
    "aten::rot90",
)
def indexed(work: Work) -> tuple[Kernel, ...]:
    """Each element by its own position: triangles, reversals, shifts (one dimension at a time)."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, read = work.outputs[0], reads(work)
    dims = work.op.args.get("dims")
    rolls = "roll" in work.op.name
    times = len(dims) if isinstance(dims, (tuple, list)) and rolls else 1
    before = made_contiguous(work, 0) if rolls else ()
    # A shift or a reversal divides by every size to find where an element comes from.
    triangle = "tri" in work.op.name
    key = "indexed" if triangle else "shifted"
    # A reversal takes the indexing kernel (IndexKernel.cu), four elements a thread; a shift one.
    flips = "flip" in work.op.name
    key = "flipped" if flips else key
    block, width = (THREADS, 4) if flips else (512, 1)
    if triangle:
        width = 2
    made = (
        kernel(
            work,
            Launch(
                work.op.name.rpartition("::")[2].rstrip("_"),
                "copy",
                read.cold,
                read.hot,
                written(work),
                items=out.numel,
                cycles=work.constants.value(f"copy.{key}.cycles"),
                grid=max(1, ceil(out.numel / (width * block))),
                block=block,
                streaming=True,
                chain_s=work.constants.value(f"copy.{key}.base_s"),
                dtype=out.dtype,
            ),
        ),
    ) * max(times, 1)
    return (*before, *made)


@kernel_model("aten::eye")
def eye(work: Work) -> tuple[Kernel, ...]:
    """Zeros, then the diagonal (a strided fill)."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    ones = replace(out, shape=(min(out.shape),), stride=(sum(out.stride),))
    return fill_kernel(work, out), fill_kernel(work, ones)


@kernel_model(
    "aten::slice_backward",
    "aten::select_backward",
    "aten::diagonal_backward",
    "aten::unfold_backward",
    "aten::constant_pad_nd",
    "aten::slice_scatter",
    "aten::select_scatter",
    "aten::diagonal_scatter",
    "aten::_pad_circular",
)
def placed(work: Work) -> tuple[Kernel, ...]:
    """A whole output that is filled (or copied), then a part of it overwritten."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, inputs = work.outputs[0], work.inputs
    part = inputs[-1]
    if work.op.name == "aten::constant_pad_nd" and not _adds(work, out, part):
        kept = replace(part, shape=out.shape) if len(part.shape) == len(out.shape) else out
        # Nothing is added: a copy of what is left.
        return (copy_kernel(work, kept, out, is_hot(work, len(work.op.inputs) - 1)),)
    part = _left(work, part)
    base = copy_kernel(work, inputs[0], out) if len(inputs) > 1 else fill_kernel(work, out)
    if not part.numel:
        return (base,)
    at = len(work.op.inputs) - 1
    return base, copy_kernel(work, part, part_of(out, part), is_hot(work, at), Text("into a part"))


def _adds(work: Work, out: TensorSpec, part: TensorSpec) -> bool:
    """Whether a side is padded; some may be cut off at the same time."""
    pads = work.op.args.get("pad")
    if not isinstance(pads, (tuple, list)):
        return out.numel > part.numel
    return any(isinstance(n, int) and n > 0 for n in pads)


def _left(work: Work, part: TensorSpec) -> TensorSpec:
    """What a pad that also cuts leaves of its input."""
    pads = work.op.args.get("pad")
    if work.op.name != "aten::constant_pad_nd" or not isinstance(pads, (tuple, list)):
        return part
    shape = list(part.shape)
    for at, n in enumerate(pads):
        if isinstance(n, int) and n < 0 and at // 2 < len(shape):
            shape[-1 - at // 2] = max(shape[-1 - at // 2] + n, 0)
    return replace(part, shape=tuple(shape))


def part_of(out: TensorSpec, part: TensorSpec) -> TensorSpec:
    """The region of `out` that `part` goes to: its shape with the strides of `out`.

    A part of more dimensions (`_chunk_cat` of experts' matrices) lies there as one piece.
    """
    if len(part.shape) == len(out.shape):
        return replace(out, shape=part.shape)
    if len(part.shape) > len(out.shape):
        steps = [prod(part.shape[d + 1 :]) for d in range(len(part.shape))]
        return replace(out, shape=part.shape, stride=tuple(steps))
    steps, sizes = list(out.stride), list(out.shape)
    while len(sizes) > len(part.shape):
        # A selected dimension is gone from the part: leave out the first that does not match.
        pairs = enumerate(zip(sizes, part.shape, strict=False))
        at = next((d for d, (have, size) in pairs if have != size), len(sizes) - 1)
        del sizes[at], steps[at]
    return replace(out, shape=part.shape, stride=tuple(steps))


@kernel_model(
    "aten::as_strided_",
    "aten::as_strided",
    "aten::unfold",
    "aten::set_",
    "aten::detach_",
    "aten::_assert_async",
    "aten::_assert_tensor_metadata",
    "aten::record_stream",
)
def nothing(work: Work) -> tuple[Kernel, ...]:
    """New strides over the same memory, or bookkeeping: nothing is launched."""
    return ()
