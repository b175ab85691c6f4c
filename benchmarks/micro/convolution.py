"""Convolutions: forward, data gradient, weight gradient, by layout and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import Point, Value, randn

# (channels in, height = width, channels out, kernel, stride, padding, groups)
RESNET50 = (
    (3, 224, 64, 7, 2, 3, 1), (64, 56, 64, 1, 1, 0, 1), (64, 56, 64, 3, 1, 1, 1),
    (64, 56, 256, 1, 1, 0, 1), (256, 56, 64, 1, 1, 0, 1), (256, 56, 128, 1, 1, 0, 1),
    (128, 56, 128, 3, 2, 1, 1), (128, 28, 512, 1, 1, 0, 1), (256, 56, 512, 1, 2, 0, 1),
    (512, 28, 128, 1, 1, 0, 1), (128, 28, 128, 3, 1, 1, 1), (512, 28, 256, 1, 1, 0, 1),
    (256, 28, 256, 3, 2, 1, 1), (256, 14, 1024, 1, 1, 0, 1), (512, 28, 1024, 1, 2, 0, 1),
    (1024, 14, 256, 1, 1, 0, 1), (256, 14, 256, 3, 1, 1, 1), (1024, 14, 512, 1, 1, 0, 1),
    (512, 14, 512, 3, 2, 1, 1), (512, 7, 2048, 1, 1, 0, 1), (1024, 14, 2048, 1, 2, 0, 1),
    (2048, 7, 512, 1, 1, 0, 1), (512, 7, 512, 3, 1, 1, 1),
)  # fmt: skip
OTHERS = (
    (96, 56, 96, 7, 1, 3, 96), (192, 28, 192, 7, 1, 3, 192), (384, 14, 384, 7, 1, 3, 384),
    (768, 7, 768, 7, 1, 3, 768), (3, 224, 768, 16, 16, 0, 1), (3, 224, 96, 4, 4, 0, 1),
    (96, 56, 192, 2, 2, 0, 1), (32, 112, 32, 3, 1, 1, 32), (144, 56, 144, 3, 2, 1, 144),
    (64, 256, 64, 3, 1, 1, 1), (128, 128, 128, 3, 1, 1, 1), (256, 64, 256, 3, 1, 1, 1),
    (512, 32, 512, 3, 1, 1, 1), (320, 64, 320, 3, 1, 1, 1), (640, 32, 640, 3, 1, 1, 1),
    (1280, 16, 1280, 3, 1, 1, 1), (4, 64, 320, 3, 1, 1, 1), (256, 56, 256, 3, 1, 1, 32),
)  # fmt: skip
CONV1D = ((80, 3000, 1280, 3, 1, 1, 1), (1280, 3000, 1280, 3, 2, 1, 1), (80, 3000, 384, 3, 1, 1, 1))


def conv_point(
    shape: tuple[int, int, int, int, int, int, int], batch: int, dtype: str, layout: str,
    direction: str, dims: int = 2, benchmark: bool = False,
) -> Point:  # fmt: skip
    """One convolution; ``dtype`` tf32 is fp32 data with TF32 allowed (PyTorch's default)."""
    cin, size, cout, kernel, stride, padding, groups = shape

    def make(device: str) -> Callable[[], object]:
        real = torch.bfloat16 if dtype == "bf16" else torch.float32
        last = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        x = randn(batch, cin, *([size] * dims), dtype=real, device=device)
        w = randn(cout, cin // groups, *([kernel] * dims), dtype=real, device=device)
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
        "dir": direction, "dtype": dtype, "layout": layout, "n": batch, "c": cin, "hw": size,
        "k": cout, "r": kernel, "stride": stride, "pad": padding, "groups": groups,
    }  # fmt: skip
    if benchmark:
        params["benchmark"] = True
    return Point(f"conv{dims}d", params, make, reps=5)


def points(quick: bool) -> Iterator[Point]:
    """All convolution points; the first layer of a network needs no data gradient."""
    if quick:
        for direction in ("fwd", "dgrad", "wgrad"):
            yield conv_point(RESNET50[2], 16, "bf16", "nhwc", direction)
        return
    plan: list[tuple[tuple[int, int, int, int, int, int, int], int, str, str]] = []
    for shape in RESNET50 + OTHERS:
        plan += [(shape, 16, "tf32", "nchw"), (shape, 16, "bf16", "nhwc")]
    for shape in RESNET50 + OTHERS:
        plan += [(shape, 16, "bf16", "nchw"), (shape, 16, "tf32", "nhwc")]
    for shape in RESNET50[::2] + OTHERS[::2]:
        plan += [(shape, 64, "bf16", "nhwc"), (shape, 64, "tf32", "nchw")]
        plan += [(shape, 1, "bf16", "nhwc"), (shape, 1, "tf32", "nchw")]
    for shape in RESNET50[::3] + OTHERS[::3]:
        plan += [(shape, 16, "fp32", "nchw")]
    for shape, batch, dtype, layout in plan:
        for direction in ("fwd", "dgrad", "wgrad"):
            if shape[0] > 3 or direction != "dgrad":
                yield conv_point(shape, batch, dtype, layout, direction)
    for shape in CONV1D:
        for dtype in ("tf32", "bf16"):
            for direction in ("fwd", "dgrad", "wgrad"):
                yield conv_point(shape, 8, dtype, "ncl", direction, dims=1)
