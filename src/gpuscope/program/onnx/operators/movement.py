"""Operators that move data or give it another shape."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpuscope.program.onnx.call import (
    Call,
    Quantized,
    count,
    dtype_of,
    onnx_operator,
    positive_axis,
)
from gpuscope.program.onnx.graph import Constant


@onnx_operator("Reshape")
def reshape(call: Call) -> Any:
    """0 takes the size that is there."""
    x = call.tensor()
    sizes = call.ints(1, "shape") or []
    if not call.attribute("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


@onnx_operator("Flatten")
def flatten(call: Call) -> Any:
    """To a matrix."""
    x = call.tensor()
    axis = positive_axis(call.attribute("axis", 1), x.dim())
    return x.reshape(count(x.shape[:axis]), count(x.shape[axis:]))


@onnx_operator("Squeeze")
def squeeze(call: Call) -> Any:
    """Axes of size 1 go."""
    x, axes = call.tensor(), call.ints(1, "axes")
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@onnx_operator("Unsqueeze")
def unsqueeze(call: Call) -> Any:
    """Axes of size 1 come."""
    x, axes = call.tensor(), call.ints(1, "axes") or []
    dims = x.dim() + len(axes)
    for axis in sorted(positive_axis(axis, dims) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@onnx_operator("Transpose")
def transpose(call: Call) -> Any:
    """All axes turned round by default."""
    x = call.values[0]
    turn = call.attribute("perm")
    if isinstance(x, Quantized):
        return Quantized(x.integers.permute(turn or _turned(x.integers)), x.dtype)
    x = call.tensor()
    return call.network.copied(x.permute(turn or _turned(x)))


def _turned(x: torch.Tensor) -> list[int]:
    return list(reversed(range(x.dim())))


@onnx_operator("Slice")
def slice_(call: Call) -> Any:
    """Known bounds; steps backwards are a flip."""
    x = call.tensor()
    starts, ends = call.ints(1, "starts") or [], call.ints(2, "ends") or []
    axes = call.ints(3, "axes") or list(range(len(starts)))
    steps = call.ints(4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        bounds = slice(start, end, step).indices(x.shape[axis])
        if step < 0:
            x = x.flip(axis)
            size = x.shape[axis]
            bounds = (size - 1 - bounds[0], size - 1 - bounds[1], -bounds[2])
        at = (slice(None),) * positive_axis(axis, x.dim())
        x = x[(*at, slice(*bounds))]
    return call.network.copied(x)


@onnx_operator("Split")
def split(call: Call) -> Any:
    """Equal parts where nothing says otherwise."""
    x, axis = call.tensor(), call.attribute("axis", 0)
    sizes: Any = call.ints(1, "split")
    if sizes is None:
        parts = call.attribute("num_outputs", len(call.node.outputs))
        sizes = -(-x.shape[axis] // parts)
    return tuple(call.network.copied(part) for part in torch.split(x, sizes, axis))


@onnx_operator("Concat")
def concat(call: Call) -> Any:
    """Along an axis."""
    return torch.cat([call.tensor(i) for i in range(len(call.values))], call.attribute("axis", 0))


@onnx_operator("Expand")
def expand(call: Call) -> Any:
    """Both ways: a size of 1 takes the other's."""
    x, sizes = call.tensor(), call.ints(1) or []
    shape = torch.broadcast_shapes(x.shape, sizes)  # type: ignore[no-untyped-call]
    return call.network.copied(x.expand(shape))


@onnx_operator("Tile")
def tile(call: Call) -> Any:
    """Copies side by side."""
    return call.tensor().tile(call.ints(1) or [1])


@onnx_operator("Pad")
def pad(call: Call) -> Any:
    """Known widths."""
    x, widths = call.tensor(), call.ints(1, "pads") or []
    axes = call.ints(3) or list(range(len(widths) // 2))
    half = len(widths) // 2
    sides = {positive_axis(a, x.dim()): (widths[i], widths[half + i]) for i, a in enumerate(axes)}
    flat = [side for d in reversed(range(x.dim())) for side in sides.get(d, (0, 0))]
    mode = {"edge": "replicate", "reflect": "reflect"}.get(call.attribute("mode", ""), "constant")
    if mode != "constant":  # PyTorch pads so the last axes alone
        flat = flat[: 2 * (x.dim() - 2)]
    return functional.pad(x, flat, mode)


@onnx_operator("Gather")
def gather(call: Call) -> Any:
    """Rows by index; a table's first axis is an embedding."""
    x, axis = call.tensor(), call.attribute("axis", 0)
    known = call.values[1]
    if not isinstance(known, torch.Tensor) and known is not None and known.size == 1:
        return (
            x.select(axis, int(known.item()))
            if not known.shape
            else x.narrow(axis, int(known.item()) % x.shape[axis], 1)
        )
    indices = call.tensor(1)
    if positive_axis(axis, x.dim()) == 0 and x.dim() == 2:
        return functional.embedding(indices, x)
    picked = x.index_select(axis, indices.reshape(-1))
    at = positive_axis(axis, x.dim())
    return picked.reshape(*x.shape[:at], *indices.shape, *x.shape[at + 1 :])


@onnx_operator("GatherElements")
def gather_elements(call: Call) -> Any:
    """Element by element."""
    return torch.gather(call.tensor(), call.attribute("axis", 0), call.tensor(1))


@onnx_operator("ScatterElements")
def scatter_elements(call: Call) -> Any:
    """Into a copy."""
    axis = call.attribute("axis", 0)
    return torch.scatter(call.tensor(), axis, call.tensor(1), call.tensor(2))


@onnx_operator("GatherND")
def gather_nd(call: Call) -> Any:
    """Whole slices by several indices."""
    x, indices = call.tensor(), call.tensor(1)
    return x[indices.unbind(-1)]


@onnx_operator("ScatterND")
def scatter_nd(call: Call) -> Any:
    """Whole slices into a copy."""
    x, indices = call.tensor().clone(), call.tensor(1)
    return x.index_put_(indices.unbind(-1), call.tensor(2))


@onnx_operator("Trilu")
def triangle(call: Call) -> Any:
    """Upper or lower."""
    shift = call.ints(1) or [0]
    return (torch.triu if call.attribute("upper", 1) else torch.tril)(call.tensor(), shift[0])


@onnx_operator("ConstantOfShape")
def constant_of_shape(call: Call) -> Any:
    """One value everywhere."""
    value = call.attribute("value")
    dtype = dtype_of(value.dtype if isinstance(value, Constant) else "float32")
    dtype = call.network.float_as(dtype)
    return torch.zeros(call.ints(0) or [], dtype=dtype, device="cuda")


@onnx_operator("Range")
def range_(call: Call) -> Any:
    """Known bounds."""
    start, end, step = (call.known(i) for i in range(3))
    assert start is not None
    assert end is not None
    assert step is not None
    return torch.arange(start.item(), end.item(), step.item(), device="cuda")


@onnx_operator("OneHot")
def one_hot(call: Call) -> Any:
    """At the end."""
    depth = call.ints(1) or [1]
    return functional.one_hot(call.tensor(), depth[0]).to(call.tensor(2).dtype)


@onnx_operator("DepthToSpace", "SpaceToDepth")
def depth_to_space(call: Call) -> Any:
    """Pixels and channels."""
    deep = call.node.kind == "DepthToSpace"
    return (functional.pixel_shuffle if deep else functional.pixel_unshuffle)(
        call.tensor(), call.attribute("blocksize")
    )


@onnx_operator("Resize", "Upsample")
def resize(call: Call) -> Any:
    """To known sizes, or by known factors."""
    x = call.tensor()
    scales = call.known(1 if call.node.kind == "Upsample" else 2 if call.opset > 10 else 1)
    sizes = call.ints(3) if call.given(3) else None
    if not sizes:
        factors = scales if scales is not None else call.attribute("scales", [1.0] * x.dim())
        sizes = [int(size * float(f)) for size, f in zip(x.shape, factors, strict=True)]
    kind = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}
    mode = kind.get(call.attribute("mode", "nearest"), ("nearest",) * 3)[x.dim() - 3]
    return functional.interpolate(x, sizes[2:], mode=mode)


@onnx_operator("GridSample")
def grid_sample(call: Call) -> Any:
    """Bilinear, whatever it asks for."""
    return functional.grid_sample(call.tensor(), call.tensor(1), align_corners=False)


@onnx_operator("NonMaxSuppression")
def suppression(call: Call) -> Any:
    """At most the number that is asked for of each class are kept: all of them are taken to be."""
    boxes, scores = call.tensor(0), call.tensor(1)
    most = (call.ints(2) or [0])[0] if call.given(2) else 0
    kept = boxes.shape[0] * scores.shape[1] * min(most or boxes.shape[1], boxes.shape[1])
    inputs = [boxes, scores]
    return call.network.opaque(call.node.kind, inputs, [(kept, 3)], [torch.int64])[0]
