"""Try `gpuscope profile` where it is hard: `benchmarks/profile_on_device.py --out DIR [--ranks 4]`.

1. `ahead`: an inference loop whose host runs ahead of its device. The step time must be that of the
   whole loop, waited for at its end, by the script's own clock.
2. `late`: a DDP training in which the host of one rank is late before each step (several GPUs; with
   `--cpu` on Gloo). All ranks must record the same steps, the rank must be named.

Writes `DIR/profile_on_device.json`, and the profiles' folders beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AHEAD = """
import time, torch
net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(48)]).cuda().bfloat16()
x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(250): net(x)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(100): net(x)
    issued = time.perf_counter()
    torch.cuda.synchronize()
print("TRUTH", (time.perf_counter() - begin) / 100, (issued - begin) / 100)
"""

LATE = """
import os, sys, time, torch, torch.distributed as dist
cuda = sys.argv[1] == "cuda"
rank, late = int(os.environ["RANK"]), int(sys.argv[2])
device = f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu"
if cuda: torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
width = 4096 if cuda else 64
net = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).to(device)
net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 1e-4)
x = torch.randn(2048 if cuda else 8, width, device=device)
for step in range(120):
    if step == 100:
        if cuda: torch.cuda.synchronize()
        begin = time.perf_counter()
    if rank == late: time.sleep(0.02)
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
if cuda: torch.cuda.synchronize()
if rank == 0: print("TRUTH", (time.perf_counter() - begin) / 20)
dist.destroy_process_group()
"""


def tried(out: Path, name: str, script: str, options: list[str], arguments: list[str]) -> Any:
    """Profile one script; return what it says beside the script's own clock."""
    from gpuscope.run.reader import load_runs

    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(script, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "gpuscope",
        "profile",
        "--output-dir",
        str(folder),
        *options,
        str(path),
        *arguments,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    (folder / "said.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    truth = [line.split()[1:] for line in ended.stdout.splitlines() if line.startswith("TRUTH")]
    if ended.returncode or not truth:
        return {"returncode": ended.returncode, "said": ended.stderr[-2000:]}
    (run,) = load_runs(folder / "run.json.gz")
    trust = run.analysis.trust
    return {
        "truth_s": [float(value) for value in truth[0]],
        "step_time_s": run.step_time_s,
        "interval_s": run.step_time_interval_s,
        "device_busy_s": run.device_busy_s,
        "notes": run.assumptions,
        "steps": [[step.rank, step.start_ns, step.end_ns] for step in run.timeline.steps],
        "findings": [[found.kind, found.title] for found in run.analysis.findings],
        "trust": [remark.sentence for remark in trust.remarks] if trust else None,
    }


def main() -> None:
    """Try both, or what the machine can do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=1, help="GPUs of the DDP training")
    parser.add_argument("--cpu", action="store_true", help="only the DDP training, on Gloo")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if not given.cpu:
        found["ahead"] = tried(given.out, "ahead", AHEAD, [], [])
    if given.ranks > 1:
        where, late = "cpu" if given.cpu else "cuda", given.ranks // 2
        options = ["--gpus", str(given.ranks)]
        found["late"] = tried(given.out, "late", LATE, options, [where, str(late)])
        found["late"]["late_rank"] = late
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    (given.out / "profile_on_device.json").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
