"""bitsandbytes' AdamW with moments of 8 bits: seconds of a tensor's update, by its size and dtype.

    python benchmarks/micro/adamw_8bit.py --out FILE [--package DIR]     # one GPU, bitsandbytes

Each update is queued often behind itself, so that the host does not count; the median of rounds.
Two tensors take turns, so that a small one does not find its own bytes in the cache alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

SIZES = tuple(1 << power for power in (16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28))
ROUNDS = 7


def main() -> None:
    """Measure every size and dtype."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--package", default="", help="folder that holds bitsandbytes")
    args = parser.parse_args()
    if args.package:
        sys.path.insert(0, args.package)
    import torch

    args.out.parent.mkdir(parents=True, exist_ok=True)
    for dtype in (torch.bfloat16, torch.float32):
        for size in SIZES:
            line = {
                "elements": size,
                "dtype": str(dtype).removeprefix("torch."),
                **_timed(dtype, size),
            }
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def _timed(dtype: Any, size: int) -> dict[str, Any]:
    import bitsandbytes
    import torch

    pair = [torch.nn.Parameter(torch.randn(size, device="cuda", dtype=dtype)) for _ in range(2)]
    optimizers = [bitsandbytes.optim.AdamW8bit([each], lr=1e-4) for each in pair]
    for each in pair:
        each.grad = torch.randn_like(each)
    count = max(2, min(100, (1 << 28) // size))

    def run() -> None:
        for number in range(count):
            optimizers[number % 2].step()

    run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        torch.cuda._sleep(20_000_000)  # the queue fills meanwhile
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 1e3 / count)
    device = torch.cuda.get_device_name()
    return {
        "seconds": statistics.median(found),
        "least_s": min(found),
        "count": count,
        "device": device,
        "torch": torch.__version__,
        "bitsandbytes": bitsandbytes.__version__,
    }


if __name__ == "__main__":
    main()
