"""What operators cost on the host when they follow each other: `python benchmarks/fit/host_programs.py`.

Captures the made-up programs of benchmarks/micro/host_programs.py, sums the single-operator costs
of host.toml over each phase, and fits to the recorded times (least squares of relative errors)

    measured = factor * (sum of single calls) + python_call * (Python calls) + start(phase)

`factor`: operators in turn find colder caches than one operator in a loop; `start`: entering a
forward pass, waking the autograd thread, entering the optimizer. Writes host_programs.toml.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks" / "micro")]
DATA = ROOT / "validation/recordings/h200/micro"
OUT = ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/host_programs.toml"
PHASES = {"no_grad": "forward", "grad": "forward", "backward": "backward", "step": "optimizer"}


def measured() -> dict[tuple[str, str], float]:
    values = defaultdict(list)
    for path in sorted(DATA.glob("host_programs_*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            values[row["program"], row["mode"]].append(row["seconds"])
    return {key: sum(v) / len(v) for key, v in values.items()}


def features(name: str, whole: bool) -> dict[str, tuple[float, int]]:
    """Per phase: seconds of single calls, Python calls."""
    import host_programs
    import torch

    from gpuscope.cost.engine import NO_KERNEL
    from gpuscope.cost.host import HostModel
    from gpuscope.cost.registry import Constants
    from gpuscope.hardware import calibration_for, device
    from gpuscope.program.capture import capture

    def build() -> object:
        model, forward = host_programs.programs()[name]
        optimizer = torch.optim.AdamW(model.train().parameters())

        def step() -> None:
            if not whole:
                with torch.no_grad():
                    forward(model)
                return
            optimizer.zero_grad(set_to_none=True)
            forward(model).backward()
            optimizer.step()

        return step

    program = capture(build)
    host = HostModel(Constants(calibration_for(device("h200"))), program, single_calls=True)
    out: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for op in program.ops:
        launches = 0 if op.view or op.name in NO_KERNEL else 1
        cost = host.cost(op, launches)
        out[op.phase][0] += cost.before_s + launches * cost.per_launch_s + cost.after_s
        out[op.phase][1] += op.python_calls
    return {phase: (v[0], int(v[1])) for phase, v in out.items()}


def main() -> None:
    data = measured()
    names = sorted({name for name, _ in data})
    rows, target, labels = [], [], []
    starts = ("forward", "backward", "optimizer")
    for name in names:
        single = {"no_grad": features(name, False), "whole": features(name, True)}
        for mode, phase in PHASES.items():
            calls_s, python = single["no_grad" if mode == "no_grad" else "whole"][phase]
            rows.append([calls_s, python, *(float(phase == s) for s in starts)])
            target.append(data[name, mode])
            labels.append(f"{name}/{mode}")
    a, b = np.array(rows), np.array(target)
    weights = 1 / b
    active = list(range(a.shape[1]))
    while True:  # least squares with non-negative coefficients: drop what turns negative
        x = np.zeros(a.shape[1])
        x[active] = np.linalg.lstsq(a[:, active] * weights[:, None], b * weights, rcond=None)[0]
        negative = [i for i in active if x[i] < 0]
        if not negative:
            break
        active = [i for i in active if i not in negative]
    error = a @ x / b - 1
    for label, e, seconds in zip(labels, error, b, strict=True):
        print(f"{label:24s} {seconds * 1e6:8.0f} us  {e:+.1%}")
    spread = float(np.quantile(np.abs(error), 0.8))
    print("mean |error|", float(np.abs(error).mean()), "80 %", spread, x)
    keys = ("host.mixed_factor", "host.python_call_s", *(f"host.start.{s}_s" for s in starts))
    lines = [
        "# How single host costs add up in a program. Written by benchmarks/fit/host_programs.py",
        f"# from {len(b)} recorded times of made-up programs; mean error "
        f"{float(np.abs(error).mean()):.0%}.",
        "",
    ]
    for key, value in zip(keys, x, strict=True):
        unit = "1" if key.endswith("factor") else "s"
        lines += [
            f"[{key}]", f"value = {value:.4g}", f"low = {value * (1 - spread):.4g}",
            f"high = {value * (1 + spread):.4g}", f'unit = "{unit}"', 'origin = "calibrated"', "",
        ]  # fmt: skip
    OUT.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
