"""The host's benches alone: `python benchmarks/host_bench.py --out host.json [--device cpu]`.

Runs what `gpuscope bench --only host,launch` runs and writes every sample, beside the facts of the
host, in a form that the fits read. Whole models never enter: all programs are made up.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    import torch

    from gpuscope.measurement.bench import (
        host_calls,
        host_passes,
        host_programs,
        host_python,
        host_waits,
        launch,
    )
    from gpuscope.measurement.bench.host_timing import HostTimer

    timer = HostTimer(args.device)
    parts = [
        host_python.measure_python,
        host_calls.measure_operators,
        host_calls.measure_factories,
        host_calls.measure_modules,
        host_calls.measure_autocast,
        host_passes.measure_backward,
        host_passes.measure_optimizers,
        host_waits.measure_waits,
        host_waits.measure_small_copies,
        host_waits.measure_allocation,
        host_programs.measure_programs,
    ]
    if timer.on_gpu:
        parts += [launch.measure_queue, launch.measure_graphs, launch.measure_latency]
    took = {}
    for part in parts:
        began = time.perf_counter()
        try:
            part(timer)
        except Exception as error:  # the rest is still worth having
            timer.failures.append(f"{part.__name__}: {type(error).__name__}: {error}"[:300])
        took[part.__name__] = round(time.perf_counter() - began, 2)
        print(part.__name__, took[part.__name__], "s", flush=True)
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    args.out.write_text(
        json.dumps(
            {
                "facts": {
                    "device": torch.cuda.get_device_name() if timer.on_gpu else "cpu",
                    "cpu": cpu,
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                    "cuda": torch.version.cuda,
                    "seconds": took,
                },
                "failures": timer.failures,
                "samples": [
                    {
                        "group": s.group,
                        "name": s.name,
                        "variant": s.variant,
                        "per": s.per,
                        "unit": s.unit,
                        "seconds": list(s.seconds),
                    }
                    for s in timer.samples
                ],
            }
        )
    )
    print(len(timer.samples), "samples,", len(timer.failures), "failures", timer.failures[:5])


if __name__ == "__main__":
    main()
