"""Triton kernels of one's own, timed and predicted: `validation/workloads/triton_kernels.py`.

    python validation/custom_kernels.py OUT.jsonl [--seconds 420]      on a GPU: torch and Triton
    python validation/custom_kernels.py [--recorded FILE] [--on h200]  anywhere: the comparison

A row is one kernel in one size: the median of its true durations (CUPTI, by torch.profiler), "cold"
after 256 MB were filled, "hot" called again and again. Rows are written as they come; what fails
says so and the others go on. A recording that was cut short goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDING = HERE / "recordings" / "h200" / "custom_kernels.jsonl"
FLUSH_BYTES, CALLS = 256 << 20, 12


def points() -> list[tuple[str, tuple[int, ...]]]:
    """All kernels in all sizes, the small ones of each kernel first."""
    sys.path.insert(0, str(HERE / "workloads"))
    from triton_kernels import CASES

    rows = [(name, sizes, at) for name, (_, all_) in CASES.items() for at, sizes in enumerate(all_)]
    return [(name, sizes) for name, sizes, _ in sorted(rows, key=lambda row: row[2])]


def record(out: Path, seconds: float) -> None:
    """Time every point on this machine's GPU until the time is over."""
    import torch
    import triton

    began = time.monotonic()
    todo = points()
    known = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["name"], tuple(row["sizes"])) for row in known if "name" in row}
    with out.open("a", encoding="utf-8") as file:
        if not known:
            about = {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "triton": triton.__version__,
            }
            file.write(json.dumps(about) + "\n")
        for name, sizes in todo:
            if (name, sizes) in done:
                continue
            if time.monotonic() - began > seconds:
                print("out of time; call again to go on")
                return
            row: dict[str, Any] = {"name": name, "sizes": sizes}
            try:
                row |= timed(name, sizes)
            except Exception as error:
                row["failed"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)
            torch.cuda.empty_cache()


def timed(name: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Median durations of one kernel, seconds, cold and hot, and its launch as it was made."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    from triton_kernels import made

    launch = made(name, sizes)
    flush = torch.empty(FLUSH_BYTES // 4, device="cuda")
    for _ in range(3):
        launch()
    torch.cuda.synchronize()
    found: dict[str, Any] = {}
    for state in ("cold", "hot"):
        with profile(activities=[ProfilerActivity.CUDA]) as session:
            for _ in range(CALLS):
                if state == "cold":
                    flush.fill_(1.0)
                launch()
            torch.cuda.synchronize()
        own = [e for e in session.events() if "_kernel" in e.name and "at::" not in e.name]
        own = [e for e in own if e.device_type == torch.autograd.DeviceType.CUDA]
        durations = [e.time_range.elapsed_us() * 1e-6 for e in own if e.time_range.elapsed_us()]
        found[f"{state}_s"] = statistics.median(durations)
        found[f"{state}_range_s"] = [min(durations), max(durations)]
        found["kernel"], found["calls"] = own[0].name, len(durations)
    return found


def predicted(name: str, sizes: tuple[int, ...], on: str) -> dict[str, Any]:
    """The same kernel costed without a GPU: cold, and again with what the first call left in L2."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.hardware import parse_target
    from gpuscope.program.capture import capture

    sys.path.insert(0, str(HERE / "workloads"))

    def build() -> Any:
        import torch
        from triton_kernels import made

        launch, flush = made(name, sizes), torch.empty(FLUSH_BYTES // 4, device="cuda")

        def step() -> None:
            flush.fill_(1.0)
            launch()
            launch()

        return step

    sys.modules.pop("triton_kernels", None)
    costed = cost_program(capture(build), parse_target(on).device)
    kernels = [k for op in costed.ops if op.op.name.startswith("triton::") for k in op.kernels]
    cold, hot = kernels
    return {
        "cold_s": cold.duration_s,
        "hot_s": hot.duration_s,
        "interval": (cold.low_s, cold.high_s),
        "limiter": cold.limiter,
        "read_bytes": cold.read_bytes,
        "flops": cold.flops,
    }


def compare(recording: Path, on: str) -> list[str]:
    """Markdown: each point, and each kernel's median error."""
    ratios: dict[str, list[float]] = defaultdict(list)
    inside = total = 0
    lines = [
        "| kernel | sizes | predicted, us | measured, us | | limited by |",
        "|---|---|--:|--:|--:|---|",
    ]
    for line in recording.read_text("utf-8").splitlines():
        row = json.loads(line)
        if "cold_s" not in row:
            continue
        sizes = tuple(row["sizes"])
        guess = predicted(row["name"], sizes, on)
        ratio = guess["cold_s"] / row["cold_s"]
        ratios[row["name"]].append(ratio)
        total += 1
        inside += guess["interval"][0] <= row["cold_s"] <= guess["interval"][1]
        shown = " x ".join(map(str, sizes))
        lines.append(
            f"| `{row['name']}` | {shown} | {guess['cold_s'] * 1e6:.1f} | {row['cold_s'] * 1e6:.1f}"
            f" | {ratio - 1:+.0%} | {guess['limiter']} |"
        )
    lines += ["", "| kernel | points | median error | median ratio |", "|---|--:|--:|--:|"]
    everything = [r for some in ratios.values() for r in some]
    for name, some in (*ratios.items(), ("all", everything)):
        error = statistics.median(abs(r - 1) for r in some)
        middle = math.exp(statistics.median(map(math.log, some)))
        lines.append(f"| `{name}` | {len(some)} | {error:.0%} | {middle:.2f} |")
    return [*lines, "", f"{inside} of {total} inside of the 80 % interval"]


def main() -> None:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=420.0)
    parser.add_argument("--recorded", type=Path, default=RECORDING)
    parser.add_argument("--on", default="h200")
    given = parser.parse_args()
    if given.out is not None:
        record(given.out, given.seconds)
    else:
        print("\n".join(compare(given.recorded, given.on)))


if __name__ == "__main__":
    main()
