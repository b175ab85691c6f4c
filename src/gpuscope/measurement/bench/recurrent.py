"""LSTM and GRU layers of the vendor's library: inference, training forward, with backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

SHAPES = (
    (1024, 1, 128, 64),
    (512, 2, 35, 64),
    (256, 1, 35, 16),
    (256, 1, 35, 256),
    (650, 2, 35, 20),
    (1024, 2, 128, 64),
    (1024, 1, 512, 16),
    (1024, 1, 64, 256),
    (2048, 1, 35, 64),
    (200, 2, 35, 20),
    (1500, 2, 35, 20),
    (2048, 2, 128, 128),
    (512, 1, 512, 64),
)
"""Hidden = input size, layers, sequence length, batch."""

CHUNK = 24
"""Calls a profiler session: one call can make thousands of kernels."""

GATES = {"LSTM": 4, "GRU": 3}


@bench("recurrent", title=Text("Recurrent layers"), quick_s=1, full_s=8, order=75)
def recurrent(context: Context) -> Iterator[Point]:
    """Measure recurrent layers."""
    yield from context.time("recurrent", cases(context.quick), chunk=CHUNK)


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, hot: a layer's weights are used at every step; `quick` keeps one shape."""
    for kind in ("LSTM",) if quick else ("LSTM", "GRU"):
        shapes = SHAPES[:1] if quick else SHAPES[:: 1 if kind == "LSTM" else 3]
        for number, shape in enumerate(shapes):
            for dtype in ("bf16",) if quick else ("tf32", "bf16", "fp32"):
                for direction in ("fwd", "fwdbwd", "infer"):
                    if dtype == "fp32" and (direction == "infer" or number >= 5):
                        continue
                    yield case(kind, shape, dtype, direction)


def case(kind: str, shape: tuple[int, int, int, int], dtype: str, direction: str) -> BenchCase:
    """Return one call.

    Args:
        kind: "LSTM" or "GRU".
        shape: see `SHAPES`.
        dtype: "bf16", "fp32", or "tf32" (fp32 data, PyTorch's default for these layers).
        direction: "infer" (no gradients), "fwd" (keeps what the backward needs), "fwdbwd".
    """
    hidden, layers, seq, batch = shape

    def make(device: str) -> Callable[[], object]:
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        # made on the host and moved, as users do: the move packs the weights into one buffer
        net = getattr(torch.nn, kind)(hidden, hidden, layers).to(device=device, dtype=DTYPES[dtype])
        x = torch.randn(seq, batch, hidden, device=device, dtype=DTYPES[dtype], requires_grad=True)
        grad = torch.randn_like(x)

        def call() -> object:
            torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            if direction == "infer":
                with torch.no_grad():
                    return net(x)
            out, _ = net(x)
            if direction == "fwdbwd":
                return torch.autograd.grad(out, (x, *net.parameters()), grad)
            return out

        return call

    params: dict[str, Value] = {
        "op": kind,
        "dtype": dtype,
        "hidden": hidden,
        "layers": layers,
        "seq": seq,
        "batch": batch,
        "dir": direction,
    }
    forward = 2.0 * GATES[kind] * 2 * hidden * hidden * layers * seq * batch
    return BenchCase(
        "rnn",
        params,
        make,
        ("hot",),
        2,
        dtype=dtype,
        flops=forward * (3 if direction == "fwdbwd" else 1),
    )
