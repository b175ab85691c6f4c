"""cuDNN LSTM and GRU layers: forward (training), and forward with backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import DTYPES, Point

SHAPES = (
    (256, 1, 35, 16), (256, 1, 35, 256), (512, 2, 35, 64), (650, 2, 35, 20), (1024, 1, 128, 64),
    (1024, 2, 128, 64), (1024, 1, 512, 16), (1024, 1, 64, 256), (2048, 1, 35, 64), (200, 2, 35, 20),
    (1500, 2, 35, 20), (2048, 2, 128, 128), (512, 1, 512, 64),
)  # fmt: skip
"""(hidden = input size, layers, sequence length, batch)."""


def _make(
    kind: str, hidden: int, layers: int, seq: int, batch: int, dtype: str, direction: str
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        real = DTYPES["fp32" if dtype == "tf32" else dtype]
        # made on the host and moved, as users do: the move packs the weights into one buffer
        net = getattr(torch.nn, kind)(hidden, hidden, layers).to(device=device, dtype=real)
        x = torch.randn(seq, batch, hidden, device=device, dtype=real, requires_grad=True)
        grad = torch.randn(seq, batch, hidden, device=device, dtype=real)

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

    return make


def points(quick: bool) -> Iterator[Point]:
    """All recurrent points; ``quick`` keeps two shapes."""
    for kind in ("LSTM", "GRU"):
        for shape in SHAPES[:2] if quick else SHAPES[:: 1 if kind == "LSTM" else 3]:
            for dtype in ("tf32", "fp32", "bf16"):
                for direction in ("fwd", "fwdbwd", "infer"):
                    if dtype == "fp32" and (direction == "infer" or shape not in SHAPES[:5]):
                        continue
                    hidden, layers, seq, batch = shape
                    params = {"op": kind, "dtype": dtype, "hidden": hidden, "layers": layers,
                              "seq": seq, "batch": batch, "dir": direction}  # fmt: skip
                    make = _make(kind, hidden, layers, seq, batch, dtype, direction)
                    yield Point("rnn", params, make, states=("hot",), reps=2)
