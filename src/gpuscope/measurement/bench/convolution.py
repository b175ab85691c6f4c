"""Convolutions: forward, data gradient, weight gradient, in both layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

Shape = tuple[int, int, int, int, int, int, int]
"""Channels in, height = width, channels out, kernel, stride, padding, groups."""

RESNET50: tuple[Shape, ...] = (
    (64, 56, 64, 3, 1, 1, 1),
    (256, 14, 1024, 1, 1, 0, 1),
    (128, 28, 128, 3, 1, 1, 1),
    (3, 224, 64, 7, 2, 3, 1),
    (64, 56, 256, 1, 1, 0, 1),
    (512, 7, 512, 3, 1, 1, 1),
    (64, 56, 64, 1, 1, 0, 1),
    (256, 56, 64, 1, 1, 0, 1),
    (256, 56, 128, 1, 1, 0, 1),
    (128, 56, 128, 3, 2, 1, 1),
    (128, 28, 512, 1, 1, 0, 1),
    (256, 56, 512, 1, 2, 0, 1),
    (512, 28, 128, 1, 1, 0, 1),
    (512, 28, 256, 1, 1, 0, 1),
    (256, 28, 256, 3, 2, 1, 1),
    (512, 28, 1024, 1, 2, 0, 1),
    (1024, 14, 256, 1, 1, 0, 1),
    (256, 14, 256, 3, 1, 1, 1),
    (1024, 14, 512, 1, 1, 0, 1),
    (512, 14, 512, 3, 2, 1, 1),
    (512, 7, 2048, 1, 1, 0, 1),
    (1024, 14, 2048, 1, 2, 0, 1),
    (2048, 7, 512, 1, 1, 0, 1),
)
OTHERS: tuple[Shape, ...] = (
    (256, 64, 256, 3, 1, 1, 1),
    (96, 56, 96, 7, 1, 3, 96),
    (3, 224, 768, 16, 16, 0, 1),
    (512, 32, 512, 3, 1, 1, 1),
    (320, 64, 320, 3, 1, 1, 1),
    (32, 112, 32, 3, 1, 1, 32),
    (192, 28, 192, 7, 1, 3, 192),
    (384, 14, 384, 7, 1, 3, 384),
    (768, 7, 768, 7, 1, 3, 768),
    (3, 224, 96, 4, 4, 0, 1),
    (96, 56, 192, 2, 2, 0, 1),
    (144, 56, 144, 3, 2, 1, 144),
    (64, 256, 64, 3, 1, 1, 1),
    (128, 128, 128, 3, 1, 1, 1),
    (640, 32, 640, 3, 1, 1, 1),
    (1280, 16, 1280, 3, 1, 1, 1),
    (4, 64, 320, 3, 1, 1, 1),
    (256, 56, 256, 3, 1, 1, 32),
)
CONV1D: tuple[Shape, ...] = (
    (80, 3000, 1280, 3, 1, 1, 1),
    (1280, 3000, 1280, 3, 2, 1, 1),
    (80, 3000, 384, 3, 1, 1, 1),
)
REST = 1.0


@bench("convolution", title=Text("Convolutions"), quick_s=4, full_s=27, order=30)
def convolution(context: Context) -> Iterator[Point]:
    """Measure convolutions."""
    yield from context.time("convolution", cases(context.quick), rest=REST)


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, those that show most first; `quick` keeps four shapes."""
    big, small, depthwise, patches = OTHERS[0], RESNET50[0], OTHERS[1], OTHERS[2]
    plan: list[tuple[Shape, int, str, str]] = []
    for shape in (big, small, depthwise, patches):
        plan += [(shape, 16, "bf16", "nhwc"), (shape, 16, "tf32", "nchw")]
        plan += [(shape, 16, "bf16", "nchw")]
    if not quick:
        for dtype, layout in (
            ("bf16", "nhwc"),
            ("tf32", "nchw"),
            ("bf16", "nchw"),
            ("tf32", "nhwc"),
        ):
            plan += [(shape, 16, dtype, layout) for shape in RESNET50 + OTHERS]
        for shape in RESNET50[::2] + OTHERS[::2]:
            plan += [(shape, 64, "bf16", "nhwc"), (shape, 64, "tf32", "nchw")]
            plan += [(shape, 1, "bf16", "nhwc"), (shape, 1, "tf32", "nchw")]
        plan += [(shape, 16, "fp32", "nchw") for shape in RESNET50[::3] + OTHERS[::3]]
    for shape, batch, dtype, layout in plan:
        for direction in ("fwd", "dgrad", "wgrad"):
            if shape[0] > 3 or direction != "dgrad":  # a network's first layer needs none
                yield case(shape, batch, dtype, layout, direction)
    for shape in () if quick else CONV1D:
        for dtype in ("tf32", "bf16"):
            for direction in ("fwd", "dgrad", "wgrad"):
                yield case(shape, 8, dtype, "ncl", direction, dims=1)


def case(
    shape: Shape,
    batch: int,
    dtype: str,
    layout: str,
    direction: str,
    *,
    dims: int = 2,
    benchmark: bool = False,
) -> BenchCase:
    """Return one convolution.

    Args:
        shape: see `Shape`.
        batch: images.
        dtype: "bf16", "fp32", or "tf32" (fp32 data, PyTorch's default for convolutions).
        layout: "nhwc", "nchw" or "ncl".
        direction: "fwd", "dgrad" or "wgrad".
        dims: 1 or 2.
        benchmark: let cuDNN try its kernels out. PyTorch keeps the plan of a shape, so it must
            not have run without it in the same process.
    """
    cin, size, cout, kernel, stride, padding, groups = shape

    def make(device: str) -> Callable[[], object]:
        last = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        x = randn(batch, cin, *([size] * dims), dtype=DTYPES[dtype], device=device)
        w = randn(cout, cin // groups, *([kernel] * dims), dtype=DTYPES[dtype], device=device)
        if dims == 2:
            x, w = x.contiguous(memory_format=last), w.contiguous(memory_format=last)
        rest = ([stride] * dims, [padding] * dims, [1] * dims, False, [0] * dims, groups)

        def forward() -> torch.Tensor:
            torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            torch.backends.cudnn.benchmark = benchmark
            return torch.ops.aten.convolution(x, w, None, *rest)  # type: ignore[no-any-return]

        if direction == "fwd":
            return forward
        grad = torch.randn_like(forward())
        mask = [direction == "dgrad", direction == "wgrad", False]

        def backward() -> object:
            torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            torch.backends.cudnn.benchmark = benchmark
            return torch.ops.aten.convolution_backward(grad, x, w, None, *rest, mask)

        return backward

    params: dict[str, Value] = {
        "dir": direction,
        "dtype": dtype,
        "layout": layout,
        "n": batch,
        "c": cin,
        "hw": size,
        "k": cout,
        "r": kernel,
        "stride": stride,
        "pad": padding,
        "groups": groups,
    }
    if benchmark:
        params["benchmark"] = True
    flops, least = work(shape, batch, dims, DTYPES[dtype].itemsize)
    # Winograd's algorithm needs fewer FLOPs than the direct one, so these bound nothing where a
    # library may use it: 3 x 3 filters on the vector lanes (an H200 reached 2.4 times "fp32").
    fewer = dtype == "fp32" and kernel >= 3 and stride == 1 and groups == 1
    return BenchCase(
        f"conv{dims}d",
        params,
        make,
        repetitions=5,
        dtype="" if fewer else dtype,
        flops=flops,
        bytes=least,
    )


def work(shape: Shape, batch: int, dims: int, item: int) -> tuple[float, float]:
    """Return FLOPs of the direct method and least bytes; the same in all three directions."""
    cin, size, cout, kernel, stride, padding, groups = shape
    out = (size + 2 * padding - kernel) // stride + 1
    flops = 2.0 * batch * cout * (cin // groups) * kernel**dims * out**dims
    elements = (
        batch * cin * size**dims + cout * (cin // groups) * kernel**dims + batch * cout * out**dims
    )
    return flops, float(item * elements)
