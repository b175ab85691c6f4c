"""What lives at a program's peak, on a GPU: `python validation/memory_at_peak.py OUT NAME [NAME ...]`.

For the programs of `unseen.py`, each in a process of its own: the allocator's own record of two steps,
replayed to its peak; every block that lives there by size and by the lines of Python that asked for it
(autograd's thread has none). Beside it stands what is predicted (`python validation/memory_at_peak.py
--predicted NAME`, no GPU): which tensor lives is then a matter of reading both.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import unseen  # noqa: E402

STEPS, LINES = 3, 3


def live_at_peak(events: Iterable[dict[str, Any]]) -> tuple[int, list[tuple[int, str]]]:
    """Peak bytes and the blocks alive there, as (bytes, where), of an allocator's trace."""
    live: dict[int, tuple[int, str]] = {}
    total = peak = 0
    at_peak: list[tuple[int, str]] = []
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"], _where(event.get("frames", ()))
            total += event["size"]
            if total > peak:
                peak, at_peak = total, []
            continue
        if event["action"] == "free_requested" and event["addr"] in live:
            if total == peak and not at_peak:
                at_peak = list(live.values())
            total -= live.pop(event["addr"])[0]
    return peak, at_peak or list(live.values())


def _where(frames: Iterable[dict[str, Any]]) -> str:
    own = [f for f in frames if "torch/cuda/memory" not in f["filename"]][:LINES]
    return " < ".join(f"{Path(f['filename']).name}:{f['line']}" for f in own)


def measure(entry: Any) -> dict[str, Any]:
    """Build and step the program while the allocator records."""
    import torch

    from measure import resolve_build

    torch.cuda.memory._record_memory_history(max_entries=2_000_000, stacks="python")
    step = resolve_build(entry)()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    peak_bytes = torch.cuda.max_memory_allocated()
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    summed, blocks = live_at_peak(trace)
    grouped = Counter(blocks)
    rows = [
        {"bytes": size, "count": n, "where": where}
        for (size, where), n in sorted(grouped.items(), key=lambda i: -i[0][0] * i[1])
    ]
    return {
        "name": entry.name,
        "torch": torch.__version__,
        "peak_bytes": peak_bytes,
        "asked_bytes": summed,
        "live": rows[:120],
    }


def predicted(entry: Any) -> list[str]:
    """Lines of what is predicted to live at the peak on an H200."""
    from gpuscope.cost.workspace import with_workspaces
    from gpuscope.hardware import device
    from predictions import program_of

    program = with_workspaces(program_of(entry), device("h200"))
    ops = {op.index: op for op in program.ops}
    change: Counter[int] = Counter()
    for s in program.storages:
        change[s.born] += s.nbytes
        if s.died is not None:
            change[s.died] -= s.nbytes
    total = peak = at = 0
    for index in sorted(change):
        total += change[index]
        if total > peak:
            peak, at = total, index
    alive = Counter(
        (s.nbytes, s.category, str(s.label), ops[s.born].phase if s.born in ops else "")
        for s in program.storages
        if s.born <= at and (s.died is None or s.died > at)
    )
    first = f"peak {peak / 2**20:.1f} MiB at {ops[at].name if at in ops else 'the start'}"
    return [first] + [
        f"{key[0] * n / 2**20:10.1f} MiB {n:4d} of {key[0]:12d}  {' '.join(key[1:])}"
        for key, n in sorted(alive.items(), key=lambda i: -i[0][0] * i[1])[:60]
    ]


def main() -> int:
    """One file a program in OUT, or the predicted lines."""
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--predicted":
        for entry in unseen.chosen(sys.argv[2:]):
            print(entry.name, *predicted(entry), sep="\n")
        return 0
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for entry in unseen.chosen(sys.argv[2:]):
        pid = os.fork()
        if pid == 0:
            try:
                found = measure(entry)
                (out / f"{entry.name}.json").write_text(json.dumps(found, indent=1) + "\n")
                print(entry.name, found["peak_bytes"], found["asked_bytes"], flush=True)
            except BaseException as error:
                print(entry.name, "FAILED", type(error).__name__, str(error)[:200], flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
