"""Times of named calls that no other recording has: `python -m benchmarks.harvest.cases OUT`.

Pools, enlarging, norms of few groups, batched products of odd sizes, filters of each sample apart,
stems, sums by index, and those of `windows`. What `benchmarks/fit/one_kernel.py` fits kernels to,
one at a time (`validation/recordings/h200/micro/cases.jsonl.gz`). Rows as
`validation/held_out_kernels.row`, with "call", "family", "params" and "peak_bytes" (what a call
takes from the allocator beyond its arguments, the second time). Turn by turn over the families;
what OUT holds already is left out. Needs torch and numpy; some 140 s on an H200.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "validation")]

import held_out_kernels  # noqa: E402
from benchmarks.harvest.calls import Call, kind_of  # noqa: E402
from benchmarks.harvest.drawn import Params, _call, tensor  # noqa: E402
from benchmarks.harvest.windows import FAMILIES as WINDOWS  # noqa: E402

CHUNK = 100
D3 = ("float32", "bfloat16", "float16")

held_out_kernels.MOST_CALLS, held_out_kernels.STATE_S = 5, 0.012


def pools() -> Iterator[Params]:
    """Means and maxima of windows, forward and backward, both layouts."""
    for n, c, side in (
        (64, 96, 96),
        (128, 192, 48),
        (128, 384, 24),
        (256, 384, 12),
        (16, 64, 128),
        (8, 32, 64),
        (64, 256, 7),
    ):
        for dtype in D3:
            for last in (False, True):
                for k, s in ((2, 2), (3, 2), (3, 1), (5, 2)):
                    if random.Random(f"{n}{c}{side}{dtype}{last}{k}{s}").random() > 0.45:
                        continue
                    pad = 0 if k == 2 else k // 2
                    out = (side + 2 * pad - k) // s + 1
                    x, y = (tensor(dtype, n, c, m, m, last=last) for m in (side, out))
                    where = tensor("int64", n, c, out, out, last=last)
                    size = [k, k], [s, s], [pad, pad]
                    yield _call("avg_pool2d.default", x, *size)
                    yield _call("avg_pool2d_backward.default", y, x, *size, False, True, None)
                    if k < 5:
                        yield _call("max_pool2d_with_indices.default", x, *size)
                        yield _call(
                            "max_pool2d_with_indices_backward.default",
                            y,
                            x,
                            *size,
                            [1, 1],
                            False,
                            where,
                        )


def adaptive() -> Iterator[Params]:
    """Pools to a given size, and of volumes."""
    for n, c, side, out in (
        (32, 256, 28, 7),
        (16, 128, 96, 6),
        (64, 512, 14, 3),
        (32, 64, 112, 56),
        (64, 2048, 7, 1),
    ):
        for dtype in D3:
            for last in (False, True):
                x, y = (tensor(dtype, n, c, m, m, last=last) for m in (side, out))
                yield _call("_adaptive_avg_pool2d.default", x, [out, out])
                yield _call("_adaptive_avg_pool2d_backward.default", y, x)
    for n, c, side in ((8, 64, 32), (4, 32, 64), (2, 128, 48)):
        for dtype in ("float32", "bfloat16"):
            x, y = (tensor(dtype, n, c, m, m, m) for m in (side, side // 2))
            yield _call("avg_pool3d.default", x, [2] * 3, [2] * 3)
            yield _call(
                "avg_pool3d_backward.default", y, x, [2] * 3, [2] * 3, [0] * 3, False, True, None
            )
            yield _call("max_pool3d_with_indices.default", x, [2] * 3, [2] * 3)


def bilinear() -> Iterator[Params]:
    """Bilinear enlarging and its gradient."""
    for n, c, side, out in (
        (16, 256, 24, 48),
        (16, 256, 48, 96),
        (8, 64, 64, 128),
        (4, 128, 96, 192),
        (2, 32, 256, 512),
        (16, 19, 128, 512),
        (32, 128, 7, 14),
        (1, 256, 64, 128),
        (64, 16, 32, 64),
        (8, 3, 256, 224),
        (1, 1024, 14, 28),
        (2, 512, 32, 33),
        (8, 96, 160, 320),
    ):
        for dtype in D3:
            for last in (False, True):
                if last and dtype == "float16":
                    continue
                x, y = (tensor(dtype, n, c, m, m, last=last) for m in (side, out))
                yield _call("upsample_bilinear2d.default", x, [out, out], False, None, None)
                yield _call(
                    "upsample_bilinear2d_backward.default",
                    y,
                    [out, out],
                    [n, c, side, side],
                    False,
                    None,
                    None,
                )


def resamplers() -> Iterator[Params]:
    """Other interpolations, padding and sampling by a grid."""
    for n, c, side, out in ((16, 64, 32, 64), (4, 128, 64, 128), (8, 256, 16, 32)):
        for dtype in ("float32", "bfloat16"):
            for last in (False, True):
                x, y = (tensor(dtype, n, c, m, m, last=last) for m in (side, out))
                yield _call("upsample_nearest2d.default", x, [out, out], None, None)
                yield _call(
                    "upsample_nearest2d_backward.default",
                    y,
                    [out, out],
                    [n, c, side, side],
                    None,
                    None,
                )
            yield _call(
                "upsample_bicubic2d.default",
                tensor(dtype, n, c, side, side),
                [out, out],
                False,
                None,
                None,
            )
            yield _call(
                "upsample_trilinear3d.default",
                tensor(dtype, 2, c // 8, 16, side, side),
                [16, out, out],
                False,
                None,
                None,
            )
            x, g = tensor(dtype, n, c, side, side), tensor(dtype, n, out, out, 2)
            yield _call("grid_sampler_2d.default", x, g, 0, 0, False)
            y = tensor(dtype, n, c, out, out)
            yield _call("grid_sampler_2d_backward.default", y, x, g, 0, 0, False, [True, True])
            yield _call("reflection_pad2d.default", x, [3, 3, 3, 3])
            yield _call("constant_pad_nd.default", x, [3, 3, 3, 3], 0)


def group_norms() -> Iterator[Params]:
    """Group norm of one and of many groups."""
    for n, c, length, groups in (
        (8, 512, 3999, 1),
        (8, 512, 4096, 1),
        (4, 256, 8000, 1),
        (16, 128, 4000, 1),
        (32, 64, 3136, 1),
        (2, 768, 1500, 1),
        (1, 64, 16384, 1),
        (8, 512, 4096, 2),
        (8, 256, 4096, 4),
        (8, 256, 4096, 8),
        (16, 320, 4096, 32),
        (4, 128, 65536, 32),
        (8, 1024, 256, 1),
        (64, 96, 784, 1),
        (2, 512, 16384, 16),
        (64, 512, 196, 1),
    ):
        for dtype in D3:
            x, w = tensor(dtype, n, c, length), tensor(dtype, c)
            m = tensor(dtype, n, groups)
            yield _call("native_group_norm.default", x, w, w, n, c, length, groups, 1e-5)
            if dtype != "float16":
                yield _call(
                    "native_group_norm_backward.default",
                    dict(x),
                    x,
                    m,
                    dict(m),
                    w,
                    n,
                    c,
                    length,
                    groups,
                    [True] * 3,
                )


def batch_norms() -> Iterator[Params]:
    """Batch norm by PyTorch's own kernels."""
    for n, c, side in (
        (128, 64, 90),
        (256, 96, 96),
        (256, 192, 48),
        (256, 384, 24),
        (256, 384, 12),
        (64, 32, 112),
        (128, 128, 45),
        (32, 256, 28),
        (16, 16, 256),
        (512, 64, 28),
        (64, 512, 14),
    ):
        for dtype in D3:
            x = tensor(dtype, n, c, side, side)
            f = [tensor("float32", c) for _ in range(6)]
            yield _call("native_batch_norm.default", x, f[0], f[1], f[2], f[3], True, 0.1, 1e-5)
            args = (dict(x), x, f[0], f[2], f[3], f[4], f[5], True, 1e-5, [True, True, True])
            yield _call("native_batch_norm_backward.default", *args)


def products() -> Iterator[Params]:
    """Batched products with few rows or columns, and what is added to them."""
    for b, m, n, k in (
        (64, 4096, 128, 128),
        (64, 4096, 128, 2),
        (64, 4096, 3, 128),
        (10, 4096, 512, 512),
        (10, 4096, 512, 48),
        (10, 4096, 1, 512),
        (5, 2048, 256, 256),
        (32, 1024, 64, 100),
        (16, 4096, 200, 77),
        (100, 512, 96, 33),
        (8, 8192, 64, 3),
        (2, 4096, 1024, 1024),
        (128, 256, 256, 64),
        (20, 1000, 300, 17),
    ):
        for dtype, tf32 in (("float32", False), ("float32", True), ("bfloat16", True)):
            a, w = tensor(dtype, b, m, k), tensor(dtype, b, k, n)
            bias = {"dtype": dtype, "shape": [b, 1, n], "stride": [n, n, 1]}
            whole = tensor(dtype, b, m, n)
            grad = tensor(dtype, b, m, n)
            turned = {"dtype": dtype, "shape": [b, k, m], "stride": [m * k, 1, k]}
            back = {"dtype": dtype, "shape": [b, n, k], "stride": [k * n, 1, n]}
            for call in (
                _call("baddbmm.default", bias, a, w),
                _call("bmm.default", turned, grad),
                _call("bmm.default", grad, back),
                _call("baddbmm.default", whole, a, w) if m < 2000 else None,
                _call("bmm.default", a, w) if m > 2000 else None,
            ):
                if call is not None:
                    yield {**call, "tf32": tf32}


def apart() -> Iterator[Params]:
    """Filters of each sample apart: one image of many groups."""
    for samples, c, out, side, taps in (
        (16, 128, 64, 64, 3),
        (16, 256, 128, 32, 3),
        (16, 256, 256, 16, 3),
        (16, 256, 256, 8, 3),
        (8, 128, 128, 32, 3),
        (4, 512, 512, 16, 3),
        (8, 64, 64, 64, 3),
        (4, 32, 32, 128, 3),
        (16, 64, 3, 64, 1),
        (8, 256, 128, 32, 1),
        (32, 64, 64, 16, 3),
        (16, 32, 64, 32, 3),
        (4, 512, 256, 32, 3),
    ):
        for dtype in ("float32", "float16", "bfloat16"):
            x = tensor(dtype, 1, samples * c, side, side)
            w = tensor(dtype, samples * out, c, taps, taps)
            grad = tensor(dtype, 1, samples * out, side, side)
            shape = [1, 1], [taps // 2] * 2, [1, 1], False, [0, 0], samples
            for tf32 in (True, False)[: 2 if dtype == "float32" and samples * c <= 2048 else 1]:
                yield _call("convolution.default", x, w, None, *shape, tf32=tf32)
                for mask in ([True, False, False], [False, True, False]):
                    yield _call(
                        "convolution_backward.default", grad, x, w, None, *shape, mask, tf32=tf32
                    )


def stems() -> Iterator[Params]:
    """Few channels on one side, half precision and TF32, channels first and last."""
    for n, c, out, side, taps, stride in (
        (16, 3, 64, 256, 3, 1),
        (256, 3, 96, 96, 3, 1),
        (64, 3, 64, 224, 7, 2),
        (16, 64, 3, 256, 3, 1),
        (64, 3, 768, 224, 16, 16),
        (128, 1, 64, 64, 3, 1),
        (32, 3, 32, 224, 3, 2),
        (16, 3, 64, 64, 3, 1),
        (16, 4, 320, 64, 3, 1),
        (16, 320, 4, 64, 3, 1),
        (8, 3, 64, 128, 9, 1),
        (32, 3, 96, 224, 4, 4),
        (8, 6, 64, 128, 5, 1),
    ):
        for dtype in D3:
            for last in (False, True):
                pad = 0 if taps == stride else taps // 2
                size = (side + 2 * pad - taps) // stride + 1
                shape = [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1
                x, w = (
                    tensor(dtype, n, c, side, side, last=last),
                    tensor(dtype, out, c, taps, taps, last=last),
                )
                grad = tensor(dtype, n, out, size, size, last=last)
                yield _call("convolution.default", x, w, None, *shape)
                for mask in ([True, False, False], [False, True, False]):
                    if c > 4 or mask[1] or stride == 1:
                        yield _call("convolution_backward.default", grad, x, w, None, *shape, mask)


def puts() -> Iterator[Params]:
    """Rows gathered, and added by their indices."""
    for rows, width, picks in (
        (20000, 128, 320000),
        (40000, 64, 600000),
        (100000, 256, 400000),
        (5000, 32, 100000),
        (60000, 128, 60000),
        (10000, 16, 1000000),
    ):
        for dtype in ("float32", "bfloat16"):
            grad, at = tensor(dtype, picks, width), tensor("int64", picks)
            yield _call("index_put.default", tensor(dtype, rows, width), [at], grad, True)
            yield _call("index_put.default", tensor(dtype, rows, width), [at], grad, False)
            yield _call("index_add.default", tensor(dtype, rows, width), 0, at, grad)
            yield _call("index.Tensor", tensor(dtype, rows, width), [at])


def lines() -> Iterator[Params]:
    """One dimension: encoders of sound, separators."""
    for n, c, out, length, taps, stride, groups in (
        (8, 1, 512, 32000, 16, 8, 1),
        (8, 512, 512, 3999, 3, 1, 512),
        (8, 128, 512, 3999, 1, 1, 1),
        (8, 512, 128, 3999, 1, 1, 1),
        (16, 80, 384, 3000, 3, 1, 1),
        (16, 384, 384, 3000, 3, 2, 1),
        (32, 256, 256, 500, 31, 1, 256),
        (4, 1536, 1536, 2048, 4, 1, 1536),
    ):
        for dtype in D3:
            pad = taps // 2 if stride == 1 else 0
            size = (length + 2 * pad - taps) // stride + 1
            shape = [stride], [pad], [1], False, [0], groups
            x, w = tensor(dtype, n, c, length), tensor(dtype, out, c // groups, taps)
            yield _call("convolution.default", x, w, None, *shape)
            for mask in ([True, False, False], [False, True, False]):
                yield _call(
                    "convolution_backward.default",
                    tensor(dtype, n, out, size),
                    x,
                    w,
                    None,
                    *shape,
                    mask,
                )


FAMILIES: tuple[Callable[[], Iterator[Params]], ...] = (
    group_norms,
    pools,
    bilinear,
    products,
    apart,
    batch_norms,
    stems,
    adaptive,
    resamplers,
    puts,
    lines,
    *WINDOWS,
)


class Watched(Call):
    """A call that also says what it takes from the allocator."""

    def build(self) -> Callable[[], object]:
        """As the call's; made twice before."""
        import torch

        call = super().build()
        call()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        PEAKS[self.mark] = torch.cuda.max_memory_allocated() - before
        return call


PEAKS: dict[str, int] = {}


def cases(only: Collection[str] = ()) -> Iterator[tuple[str, Watched]]:
    """Of the named families or of all, turn by turn, each in an order of its own."""
    queues = []
    for family in (f for f in FAMILIES if not only or f.__name__ in only):
        calls = [Watched(kind_of(p["op"]), p) for p in family()]
        random.Random(family.__name__).shuffle(calls)
        queues.append([(f"case {family.__name__}", call) for call in calls])
    for at in range(max(map(len, queues))):
        yield from (queue[at] for queue in queues if at < len(queue))


def main() -> int:
    """Time what is not done, a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--only", nargs="*", default=(), help="names of families")
    args = parser.parse_args()
    import torch

    done: set[str] = set()
    if args.out.exists():
        with gzip.open(args.out, "rt") as rows:
            done = {r["call"] for r in map(json.loads, rows) if "call" in r}
    todo = [(family, call) for family, call in cases(args.only) if call.mark not in done]
    families = {call.mark: family for family, call in todo}
    clock, deadline_s = held_out_kernels.Clock(), time.perf_counter() + args.seconds
    machine: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": torch.cuda.get_device_name(),
    }
    with gzip.open(args.out, "at") as out:
        if not done:
            out.write(json.dumps({"machine": machine}) + "\n")
        for at in range(0, len(todo), CHUNK):
            chunk: Any = [call for _, call in todo[at : at + CHUNK]]
            for row in held_out_kernels.timed(chunk, clock, deadline_s):
                mark = Call(row["kind"], row["params"]).mark
                row.pop("sealed", None)
                row = {"call": mark, "family": families[mark], **row}
                row["peak_bytes"] = PEAKS.get(mark)
                out.write(json.dumps(row, separators=(",", ":")) + "\n")
            torch.cuda.empty_cache()
            if time.perf_counter() > deadline_s:
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
