"""Convolutions whose channels are no multiple of 8: what cuDNN makes of them.

    python benchmarks/micro/odd_channels.py --out validation/recordings/h200/micro

Needs PyTorch with CUDA, nothing of gpuscope. One row a kernel of a call, named by the profiler:
`dir, dtype, layout, c, k, kernel, us`, 3 x 3 filters on 32 images of 56 x 56; `dir` is fwd, dgrad
or wgrad; `us` is the median over all launches of that name times launches a call (right for up to
two). The clock rests between points.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

CHANNELS = (
    (64, 64),
    (60, 64),
    (62, 64),
    (63, 64),
    (65, 64),
    (64, 60),
    (64, 63),
    (64, 65),
    (256, 256),
    (255, 256),
    (257, 256),
    (260, 256),
    (256, 255),
    (256, 257),
)
REPEATS = 12


def main() -> None:
    """Time every point and write the kernels."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    path = parser.parse_args().out / "odd_channels.csv.gz"
    rows = []
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "tf32")):
        torch.backends.cudnn.allow_tf32 = True
        for layout in ("nhwc", "nchw"):
            form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
            for c, k in CHANNELS:
                for direction, call in _calls(torch, c, k, dtype, form):
                    for kernel, us in _profiled(torch, call):
                        rows.append((direction, name, layout, c, k, kernel, round(us, 3)))
                time.sleep(0.02)
    with gzip.open(path, "wt", newline="", compresslevel=9) as file:
        writer = csv.writer(file)
        writer.writerow(("dir", "dtype", "layout", "c", "k", "kernel", "us"))
        writer.writerows(rows)
    print(len(rows), path)


def _calls(torch, c, k, dtype, form):  # type: ignore[no-untyped-def]
    x = torch.randn(32, c, 56, 56, device="cuda", dtype=dtype).to(memory_format=form)
    weight = torch.randn(k, c, 3, 3, device="cuda", dtype=dtype).to(memory_format=form)
    grad = torch.randn(32, k, 56, 56, device="cuda", dtype=dtype).to(memory_format=form)

    def backward(mask):  # type: ignore[no-untyped-def]
        return lambda: torch.ops.aten.convolution_backward(
            grad, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
        )

    yield "fwd", lambda: torch.nn.functional.conv2d(x, weight, padding=1)
    yield "dgrad", backward([True, False, False])
    yield "wgrad", backward([False, True, False])


def _profiled(torch, call):  # type: ignore[no-untyped-def]
    from torch.profiler import ProfilerActivity, profile

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(REPEATS):
            call()
            torch.cuda.synchronize()
            time.sleep(0.001)
    times = defaultdict(list)
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[event.name].append(event.time_range.elapsed_us())
    # A kernel launched several times a call counts as often.
    return [(name, median(us) * round(len(us) / REPEATS)) for name, us in times.items()]


if __name__ == "__main__":
    main()
