"""The host in a distributed step, on this machine's GPUs: `host_work.py --out DIR [name ...]`.

Where the host sets the pace, the time of a step is the time of its phases on the host. This splits
it (forward, backward, optimizer) and counts, in a step of its own, the Python functions that each
thread calls, so that a prediction's counts can be held against a real run's:

- `phase_s`: seconds of each phase, without a profiler, the median over steps; nothing waits in
  between, so a phase ends when its last operator is issued.
- `python`: per phase, calls and bytecode instructions as `gpuscope.program.capture.python_work`
  counts them, whole and by file.
- `costly_s`: per phase, the functions of Python and C++ with the most time of their own under
  cProfile (forward and optimizer: the thread that calls; backward runs in autograd's own thread).
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import importlib
import json
import pstats
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "workloads")]

from measure import start  # noqa: E402
from rows import ROWS, Row  # noqa: E402

HOST_BOUND = ("tp-small", "tp-inference", "fsdp-llama-1b-short", "ddp-resnet50")


class _Phases:
    """Calls `enter` and `leave` around backward and optimizer; the rest is forward."""

    def __init__(self) -> None:
        import torch

        self.enter = self.leave = lambda phase: None
        self._wrap(torch.Tensor, "backward", "backward")
        self._wrap(torch.optim.AdamW, "step", "optimizer")
        self._wrap(torch.optim.SGD, "step", "optimizer")

    def _wrap(self, owner: Any, name: str, phase: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.leave("forward")
            self.enter(phase)
            try:
                return inner(*args, **kwargs)
            finally:
                self.leave(phase)
                self.enter("forward")

        setattr(owner, name, wrapped)

    @contextmanager
    def seen(self, enter: Any, leave: Any) -> Iterator[None]:
        self.enter, self.leave = enter, leave
        enter("forward")
        try:
            yield
        finally:
            leave("forward")
            self.enter = self.leave = lambda phase: None


def _times(phases: _Phases, step: Any, wait: Any, steps: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for _ in range(steps):
        wait()
        began: dict[str, float] = {}
        mine: Counter[str] = Counter()

        def leave(phase: str, began: Any = began, mine: Any = mine) -> None:
            mine[phase] += time.perf_counter() - began[phase]

        with phases.seen(lambda p, b=began: b.__setitem__(p, time.perf_counter()), leave):
            step()
        for phase, seconds in mine.items():
            found.setdefault(phase, []).append(seconds)
    return {phase: statistics.median(values) for phase, values in found.items()}


def _counts(phases: _Phases, step: Any) -> dict[str, Any]:
    """Python of one step, per phase and thread; by file."""
    lengths: dict[Any, int] = {}
    now = ["forward"]
    calls: Counter[tuple[str, str, str]] = Counter()
    instructions: Counter[tuple[str, str, str]] = Counter()
    main = threading.get_ident()

    def event(frame: Any, kind: str, arg: Any) -> None:
        if kind not in ("call", "c_call"):
            return
        code = frame.f_code
        thread = "main" if threading.get_ident() == main else "other"
        key = now[0], thread, code.co_filename
        calls[key] += 1
        if kind == "call":
            length = lengths.get(code)
            if length is None:
                units = code.co_code[::2]
                length = lengths[code] = len(units) - units.count(0)
            instructions[key] += length

    threading.setprofile_all_threads(event)
    try:
        with phases.seen(lambda p: now.__setitem__(0, p), lambda p: None):
            step()
    finally:
        threading.setprofile_all_threads(None)
    totals: dict[str, Any] = {}
    for (phase, thread, file), count in calls.items():
        part = totals.setdefault(f"{phase} {thread}", {"calls": 0, "instructions": 0, "files": {}})
        short = file.partition("site-packages/")[2] or file.partition("dist-packages/")[2] or file
        part["calls"] += count
        part["instructions"] += instructions[phase, thread, file]
        part["files"][short] = [count, instructions[phase, thread, file]]
    for part in totals.values():
        part["files"] = dict(sorted(part["files"].items(), key=lambda f: -f[1][1])[:25])
    return totals


def _costly(phases: _Phases, step: Any) -> dict[str, list[Any]]:
    profiles: dict[str, cProfile.Profile] = {}

    def enter(phase: str) -> None:
        profiles.setdefault(phase, cProfile.Profile()).enable()

    with phases.seen(enter, lambda p: profiles[p].disable()):
        step()
    found = {}
    for phase, profile in profiles.items():
        stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        rows = [
            [f"{Path(file).name}:{line}:{name}", count, own, total]
            for (file, line, name), (_, count, own, total, _) in stats.items()
        ]
        found[phase] = sorted(rows, key=lambda r: -r[2])[:40]
    return found


def run(row: Row, rank: int, world: int, out: Path, steps: int) -> None:
    """One rank's part; rank 0 writes what it saw."""
    import torch
    import torch.distributed as dist

    phases = _Phases()
    module, _, function = row.target.partition(".py:")
    step = getattr(importlib.import_module(module), function)()

    def wait() -> None:
        dist.barrier()
        torch.cuda.synchronize()

    for _ in range(5):
        step()
    wait()
    times = _times(phases, step, wait, steps)
    wait()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    step_s = (time.perf_counter() - began) / steps
    wait()
    python = _counts(phases, step)
    wait()
    costly = _costly(phases, step)
    wait()
    if rank == 0:
        import platform

        found = {
            "name": row.name,
            "world": world,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "step_time_s": step_s,
            "phase_s": times,
            "python_work": python,
            "costly_s": costly,
        }
        (out / f"{row.name}-{world}.json").write_text(json.dumps(found))
        print(row.name, f"{step_s * 1e3:.2f} ms", {k: round(v * 1e3, 2) for k, v in times.items()})
        for part, counted in python.items():
            print("  ", part, counted["calls"], counted["instructions"])
        sys.stdout.flush()
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(HOST_BOUND))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    import torch
    import transformers  # noqa: F401

    import gpuscope.program.models.networks.resnet  # noqa: F401

    world = torch.cuda.device_count()
    for number, row in enumerate(ROWS):
        if row.name in args.names and world in row.ranks:
            work = functools.partial(run, row, world=world, out=args.out, steps=args.steps)
            start(row.name, work, world, 29600 + number, 120)


if __name__ == "__main__":
    main()
