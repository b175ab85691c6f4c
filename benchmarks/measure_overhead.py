"""What measuring costs: `python benchmarks/measure_overhead.py [--device cpu] [--out FILE]`.

Three questions, each by pairs of runs that take turns, so that a drifting clock hits both alike:

1. `measure`: the step time that its blocks give, against a bare loop that reads the clock once at
   its ends (the claim: less than 2 % apart).
2. `profile`: a loop with the session's hooks on, outside of the recorded steps, against the same
   loop without (the claim: no difference beyond the noise, which is told too: bare against bare).
3. The profiler: a recorded step against a bare one, with and without the module marks.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from gpuscope.measurement.accelerator import Accelerator, choose_accelerator
from gpuscope.measurement.blocks import time_blocks

Step = Callable[[], object]


def small_training(device: str) -> Step:
    """Eight narrow layers, AdamW: the host sets the pace."""
    import torch

    layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(8)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(32, 256, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def large_products(device: str) -> Step:
    """A chain of products: the device sets the pace."""
    import torch

    n = 4096 if device != "cpu" else 512
    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))

    def step() -> object:
        c = a
        for _ in range(8):
            c = (c @ b) * 0.01
        return c

    return step


def decode(device: str) -> Step:
    """One token through 24 blocks without gradients: hundreds of tiny calls."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(256)
            self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    model = torch.nn.Sequential(*(Block() for _ in range(24))).to(device).eval()
    x = torch.randn(1, 256, device=device)

    @torch.no_grad()
    def step() -> object:
        return model(x)

    return step


WORKLOADS = {"small training": small_training, "large products": large_products, "decode": decode}


def bare(step: Step, accelerator: Accelerator, steps: int) -> float:
    """Seconds a step of a plain loop."""
    accelerator.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    accelerator.synchronize()
    return (time.perf_counter() - start) / steps


def measured(step: Step, accelerator: Accelerator, seconds: float, rough_s: float) -> float:
    """The same by `measure`'s blocks, with its sensor."""
    from gpuscope.measurement.sensors import open_sensor

    sensor = open_sensor(accelerator.index) if accelerator.is_gpu else None
    blocks = time_blocks(step, accelerator, seconds=seconds, rough_s=rough_s, sensor=sensor)
    if sensor is not None:
        sensor.close()
    return blocks.interval.median


def with_session(step: Step, accelerator: Accelerator, steps: int) -> float:
    """A plain loop beside a session that waits for its turn: its hooks are on at every step."""
    from gpuscope.measurement.script.session import Session, Settings

    session = Session(Settings(skip=10**9))
    session.start()
    try:
        step()
        return bare(step, accelerator, steps)
    finally:
        session.stop()


def recorded(step: Step, accelerator: Accelerator, marks: bool) -> float:
    """Seconds a step under the profiler, as `measure` records it."""
    from contextlib import nullcontext

    from gpuscope.measurement.module_marks import module_marks
    from gpuscope.measurement.profiling import make_profiler, step_mark

    steps = 5
    profiler = make_profiler(accelerator, memory=accelerator.is_gpu)
    with module_marks() if marks else nullcontext():
        profiler.start()
        start = time.perf_counter()
        for _ in range(steps):
            with step_mark():
                step()
        accelerator.synchronize()
        elapsed = (time.perf_counter() - start) / steps
        profiler.stop()
    return elapsed


def compare(step: Step, accelerator: Accelerator, seconds: float, rounds: int) -> dict[str, object]:
    """All questions for one workload."""
    bare(step, accelerator, 10)
    rough = bare(step, accelerator, 20)
    steps = max(3, int(seconds / rough))
    columns: dict[str, list[float]] = {
        name: [] for name in ("bare", "bare_again", "measure", "session", "recorded", "unmarked")
    }
    for _ in range(rounds):
        columns["bare"].append(bare(step, accelerator, steps))
        columns["measure"].append(measured(step, accelerator, seconds, rough))
        columns["bare_again"].append(bare(step, accelerator, steps))
        columns["session"].append(with_session(step, accelerator, steps))
        columns["recorded"].append(recorded(step, accelerator, True))
        columns["unmarked"].append(recorded(step, accelerator, False))
    median = {name: statistics.median(values) for name, values in columns.items()}
    ratios = {
        name: statistics.median(v / b for v, b in zip(columns[name], columns["bare"], strict=True))
        for name in columns
        if name != "bare"
    }
    return {"bare_s": median["bare"], "median_s": median, "ratio_to_bare": ratios, "all_s": columns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one timing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    import torch

    accelerator = choose_accelerator(args.device)
    result: dict[str, object] = {
        "device": accelerator.name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "seconds": args.seconds,
        "rounds": args.rounds,
    }
    rows = {}
    for name, make in WORKLOADS.items():
        rows[name] = compare(make(accelerator.kind), accelerator, args.seconds, args.rounds)
        ratios = rows[name]["ratio_to_bare"]
        shown = "  ".join(f"{k} {v - 1:+.1%}" for k, v in ratios.items())  # type: ignore[union-attr]
        print(f"{name:16} {rows[name]['bare_s'] * 1e3:9.3f} ms   {shown}", flush=True)  # type: ignore[operator]
    result["workloads"] = rows
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
