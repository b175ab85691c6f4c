"""What the host's own arithmetic takes: seconds of operators on CPU tensors, as one JSON line each.

Source of the constants of `gpuscope.cost.host.arithmetic`. Usage: python host_arithmetic.py > FILE
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable

import torch


def seconds(call: Callable[[], object]) -> float:
    """Median of calls that take a quarter of a second together, at least five."""
    call()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.25 and len(times) < 200):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Print the host, then each point."""
    print(
        json.dumps(
            {
                "machine": platform.machine(),
                "cores": os.cpu_count(),
                "threads": torch.get_num_threads(),
                "torch": torch.__version__,
            }
        )
    )

    def tell(name: str, size: int, dtype: torch.dtype, call: Callable[[], object]) -> None:
        point = {"op": name, "size": size, "dtype": str(dtype), "s": seconds(call)}
        print(json.dumps(point), flush=True)

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for n in (128, 512, 1024, 2048, 4096):
            if n == 4096 and dtype is torch.float64:
                continue
            a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
            tell("mm", n, dtype, lambda a=a, b=b: a @ b)
    for n in (2**14, 2**18, 2**22, 2**26):
        x, y = torch.randn(n), torch.randn(n)
        tell("add", n, x.dtype, lambda x=x, y=y: x + y)
        tell("sum", n, x.dtype, lambda x=x: x.sum())
        tell("exp", n, x.dtype, lambda x=x: x.exp())
        tell("randn", n, x.dtype, lambda n=n: torch.randn(n))
        tell("rand", n, x.dtype, lambda n=n: torch.rand(n))
        tell("to_double", n, x.dtype, lambda x=x: x.double())
        if n < 2**26:
            tell("sort", n, x.dtype, lambda x=x: x.sort())
            tell("randperm", n, x.dtype, lambda n=n: torch.randperm(n))
    for batch, side, channels in ((8, 56, 64), (32, 28, 128)):
        x = torch.randn(batch, channels, side, side)
        w = torch.randn(channels, channels, 3, 3)
        tell(
            "conv2d",
            batch * side * side * channels * channels * 9 * 2,
            x.dtype,
            lambda x=x, w=w: torch.nn.functional.conv2d(x, w, padding=1),
        )


if __name__ == "__main__":
    main()
