"""What `explain transfer` and `explain memory` say, measured: `python benchmarks/explain_check.py`.

Needs a GPU. Writes JSON to standard output (recorded: `benchmarks/results/explain_check.json`,
held against the models by `tests/explanation/test_explain_recorded.py`):

* copies of 1 GB each way, pinned and pageable; a copy in chunks beside products, two buffers;
* GPT-2 training (batch 8 of 1,024 tokens, bfloat16 autocast, AdamW): peak and step time as it is
  and after each change that is advised; whether larger batches fit. Each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

NBYTES = 10**9
CHUNKS = 64
SIDE = 4864
STEPS = 5

VARIANTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "--checkpointing": {"checkpointing": True},
    "--optimizer sgd": {"optimizer": "sgd"},
    "--optimizer adafactor": {"optimizer": "adafactor"},
    "model.bfloat16()": {"dtype": "bfloat16", "amp": False},
    "--batch 4": {"batch": 4},
}
BATCHES = (64, 90, 94, 96, 97, 100)


def timed(call: Callable[[], object], repeats: int = 5) -> float:
    """Median of the wall time with the device idle before and after."""
    import torch

    found = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return statistics.median(found[1:])


def copies() -> dict[str, float]:
    """Seconds of a copy by direction and memory."""
    import torch

    device = torch.empty(NBYTES, dtype=torch.uint8, device="cuda")
    out = {}
    for kind in ("pinned", "pageable"):
        host = torch.ones(NBYTES, dtype=torch.uint8, pin_memory=kind == "pinned")
        out[f"h2d_{kind}"] = timed(lambda: device.copy_(host))  # noqa: B023
        out[f"d2h_{kind}"] = timed(lambda: host.copy_(device))  # noqa: B023
    return out


def overlap() -> dict[str, float]:
    """A copy in chunks, products, and both at once with two buffers."""
    import torch

    size = NBYTES // CHUNKS
    host = torch.ones(NBYTES, dtype=torch.uint8, pin_memory=True)
    buffers = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    a = torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device="cuda")
    out = torch.empty_like(a)
    side = torch.cuda.Stream()
    main = torch.cuda.current_stream()

    def copy(n: int) -> None:
        buffers[n % 2].copy_(host[n * size : (n + 1) * size], non_blocking=True)

    def both() -> None:
        done: list[torch.cuda.Event] = []
        for n in range(CHUNKS):
            with torch.cuda.stream(side):
                if n >= 2:
                    side.wait_event(done[n - 2])
                copy(n)
                arrived = side.record_event()
            main.wait_event(arrived)
            torch.mm(a, a, out=out)
            done.append(main.record_event())

    return {
        "chunks": CHUNKS,
        "copy_s": timed(lambda: [copy(n) for n in range(CHUNKS)]),
        "compute_s": timed(lambda: [torch.mm(a, a, out=out) for _ in range(CHUNKS)]),
        "both_s": timed(both),
    }


def training(options: dict[str, object]) -> dict[str, object]:
    """Peak and step time of GPT-2 training; `fits` is False where it runs out of memory."""
    import torch

    from gpuscope.program.workload import WorkloadOptions, resolve

    wanted = {"task": "train", "batch": 8, "seq": 1024, **options}
    try:
        step = resolve("gpt2", WorkloadOptions(**wanted)).build()  # type: ignore[arg-type]
        for _ in range(3):
            step()
        torch.cuda.reset_peak_memory_stats()
        seconds = timed(step, STEPS)
    except torch.cuda.OutOfMemoryError:
        return {"fits": False}
    return {
        "fits": True,
        "step_s": seconds,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def apart(options: dict[str, object]) -> dict[str, object]:
    """`training` in a process of its own."""
    command = [sys.executable, __file__, "--train", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr[-300:]}
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure all, or one training."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--train", help="options of one training, as JSON")
    args = parser.parse_args()
    if args.train is not None:
        print(json.dumps(training(json.loads(args.train))))
        return
    import torch

    changes = {name: apart(options) for name, options in VARIANTS.items()}
    batches = {str(batch): apart({"batch": batch}) for batch in BATCHES}
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "bytes": NBYTES,
                "copies_s": copies(),
                "overlap": overlap(),
                "gpt2_changes": changes,
                "gpt2_batches": batches,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
