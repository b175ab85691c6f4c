"""Does `gpuscope watch` tell the truth? Known work on a real device, and what the verdict says.

    python benchmarks/watch_on_device.py                   # one device; two or more: also links

Each case runs in processes of its own for `--seconds`, while this one samples all devices at 2 Hz.
The verdict is asked for every sample after the first `WARM_S` of real work; the case holds if at
least 80 % of them are among the kinds expected. Prints a line a case, writes the table to
benchmarks/results/watch_on_device.json, and every sample to recordings (one file a case) that
`gpuscope watch --replay` plays and the tests may use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gpuscope.watch.recording import SampleWriter
from gpuscope.watch.sampler import Sampler, open_devices
from gpuscope.watch.types import Sample
from gpuscope.watch.verdict import judge
from gpuscope.watch.window import window_of

HERE = Path(__file__).parent
WARM_S = 11.0
"""The window that a verdict looks back, and a second more."""

HEAD = """
import os, sys, time, torch
end = time.time() + float(sys.argv[1])
d = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
torch.cuda.set_device(d)
def ready():
    torch.cuda.synchronize(); print("ready", flush=True)
"""

PRODUCTS = (
    HEAD
    + """
a = torch.randn(8192, 8192, device=d, dtype=torch.bfloat16); b = torch.randn_like(a)
a @ b; ready()
while time.time() < end:
    for _ in range(50): a @ b
    torch.cuda.synchronize()
"""
)

STREAM = (
    HEAD
    + """
a = torch.empty(2**30, device=d, dtype=torch.float32); b = torch.empty_like(a)
b.copy_(a); ready()
while time.time() < end:
    for _ in range(50): b.copy_(a)
    torch.cuda.synchronize()
"""
)

SMALL = (
    HEAD
    + """
a = torch.randn(64, 64, device=d)
a @ a; ready()
while time.time() < end:
    for _ in range(1000): a = torch.relu(a) + 1e-3
"""
)

INPUT = (
    HEAD
    + """
a = torch.randn(8192, 8192, device=d, dtype=torch.bfloat16)
host = torch.empty(2**29, dtype=torch.uint8).pin_memory(); on = torch.empty_like(host, device=d)
a @ a; ready()
while time.time() < end:
    t = time.time() + 0.5
    while time.time() < t: on.copy_(host, non_blocking=True); torch.cuda.synchronize()
    for _ in range(100): a @ a
    torch.cuda.synchronize()
"""
)

SLOW_DISK = (
    HEAD
    + """
a = torch.randn(8192, 8192, device=d, dtype=torch.bfloat16)
a @ a; ready()
while time.time() < end:
    time.sleep(1.5)
    for _ in range(400): a @ a
    torch.cuda.synchronize()
"""
)

HOLD = (
    HEAD
    + """
a = torch.empty(2**30, device=d, dtype=torch.uint8)
ready(); time.sleep(max(end - time.time(), 0))
"""
)

REDUCE = (
    HEAD
    + """
import torch.distributed as dist
dist.init_process_group("nccl"); x = torch.ones(2**28, device=d, dtype=torch.bfloat16)
dist.all_reduce(x); ready()
n = torch.ones(1, device=d)
while True:
    for _ in range(50): dist.all_reduce(x)
    n.fill_(float(time.time() < end)); dist.all_reduce(n, op=dist.ReduceOp.MIN)
    if n.item() < 1: break
"""
)

WAIT = (
    HEAD
    + """
import torch.distributed as dist
dist.init_process_group("nccl"); x = torch.ones(2**20, device=d)
dist.all_reduce(x); ready()
if dist.get_rank() == 1: time.sleep(max(end - time.time(), 0))
dist.all_reduce(x); torch.cuda.synchronize()
"""
)


@dataclass(frozen=True)
class Case:
    """Known work, and the verdicts that are true of it on device 0."""

    code: str
    kinds: tuple[str, ...]
    ranks: int = 1


CASES = {
    "idle": Case("", ("idle",)),
    "memory held": Case(HOLD, ("idle",)),
    "large products": Case(PRODUCTS, ("compute_bound", "power_limited")),
    "copies on the device": Case(STREAM, ("memory_bound", "power_limited")),
    "small kernels": Case(SMALL, ("host_bound",)),
    "input over PCIe": Case(INPUT, ("waiting_for_input",)),
    "input that comes late": Case(SLOW_DISK, ("waiting_for_input",)),
    "all-reduce": Case(REDUCE, ("communication_bound",), 2),
    "a rank that waits": Case(WAIT, ("communication_bound",), 2),
}


def start(case: Case, seconds: float, folder: Path) -> subprocess.Popen[bytes] | None:
    """Start a case's processes and wait until they work."""
    if not case.code:
        return None
    script = folder / "case.py"
    script.write_text(case.code)
    words = [sys.executable, str(script), str(seconds)]
    if case.ranks > 1:
        words = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={case.ranks}",
            str(script),
            str(seconds + 15),
        ]
    environment = {**os.environ, "NCCL_NVLS_ENABLE": "0"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)
    process.stdout.readline()
    return process


def run(name: str, case: Case, seconds: float, folder: Path) -> dict[str, object]:
    """One case: what was said of device 0 while it ran."""
    process = start(case, seconds + 5, folder)
    samples: list[Sample] = []
    said: Counter[str] = Counter()
    with (
        Sampler(open_devices(), interval_s=0.5) as sampler,
        SampleWriter(folder / f"{name.replace(' ', '_')}.jsonl") as writer,
    ):
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            (sample,) = sampler.read()
            samples.append(sample)
            verdict = judge(samples, 0)
            writer.write(sample, [judge(samples, d.info.index) for d in sample.devices])
            if passed >= WARM_S:
                said[verdict.kind] += 1
            time.sleep(sampler.interval_s)
        notes = sampler.notes
    if process is not None:
        process.terminate()
        process.wait(60)
    right = sum(said[kind] for kind in case.kinds) / max(sum(said.values()), 1)
    w = window_of(samples, 0)
    return {
        "case": name,
        "expected": case.kinds,
        "said": dict(said),
        "right_share": right,
        "holds": right >= 0.8,
        "sentence": str(verdict.sentence),
        "sure": verdict.sure,
        "window": {
            f: getattr(w, f)
            for f in (
                "busy",
                "swing",
                "sm",
                "occupancy",
                "tensor",
                "memory_bandwidth",
                "power_share",
                "power_held",
                "heat_held",
                "pcie_rx_bytes_per_s",
                "pcie_rx_share",
                "nvlink_bytes_per_s",
                "host_cpu",
                "neighbours",
            )
        },
        "notes": notes,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", action="append", help="a case; may be repeated")
    parser.add_argument("--folder", type=Path, default=Path("watch-recordings"))
    parser.add_argument("--output", type=Path, default=HERE / "results" / "watch_on_device.json")
    arguments = parser.parse_args()
    sensors = open_devices()
    names = [sensor.info.name for sensor in sensors]
    for sensor in sensors:
        sensor.close()
    if not names:
        print("No accelerator here.", file=sys.stderr)
        return 2
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, case in CASES.items():
        if case.ranks > len(names) or (arguments.only and name not in arguments.only):
            continue
        row = run(name, case, arguments.seconds, arguments.folder)
        rows.append(row)
        print(f"{'ok ' if row['holds'] else 'BAD'} {name}: {row['said']}  {row['sentence']}")
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(
            json.dumps({"devices": names, "interval_s": 0.5, "cases": rows}, indent=1) + "\n"
        )
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
