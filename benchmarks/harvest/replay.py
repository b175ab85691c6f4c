"""Time harvested calls on a GPU: `python -m benchmarks.harvest.replay CALLS OUT --seconds 240`.

As `validation/held_out_kernels.py` times the random ones: true durations of all kernels that a call
launched, warm, a fifth also with an L2 full of written lines. Families of kernels and of models are
mixed (the order is a hash), so that whatever fits the time is a fair sample; what OUT holds already
is left out, so that it goes on where it stopped. A call that ends the process (a device-side
assertion) costs its chunk, which is named in OUT.begun and left out the next time. Needs torch
alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "validation")]

import held_out_kernels  # noqa: E402
from benchmarks.harvest.calls import Call, read  # noqa: E402
from held_out_kernels import Clock, timed  # noqa: E402

CHUNK = 200
"""Calls per profiler session."""

held_out_kernels.MOST_CALLS, held_out_kernels.STATE_S = 5, 0.02


def order(calls: dict[str, Call], families: dict[str, set[str]]) -> list[Call]:
    """Turn by turn over families of models, each call once, in the order of their marks."""
    queues: dict[str, list[Call]] = {}
    for mark in sorted(calls):
        queues.setdefault(min(families[mark]), []).append(calls[mark])
    turns = [sorted(q, key=lambda c: c.mark) for _, q in sorted(queues.items())]
    longest = max(map(len, turns), default=0)
    return [q[i] for i in range(longest) for q in turns if i < len(q)]


def begun(path: Path) -> Path:
    """Where the marks of calls stand that were begun for a file of times."""
    return path.with_name(f"{path.name}.begun")


def done(path: Path) -> set[str]:
    """Marks of the calls that a file has rows of, or that were begun."""
    known = set(begun(path).read_text().split()) if begun(path).exists() else set()
    if path.exists():
        with gzip.open(path, "rt") as lines:
            known |= {row["call"] for row in map(json.loads, lines) if "call" in row}
    return known


def rows(calls: list[Call], seconds: float, out: Path) -> Iterator[list[dict[str, Any]]]:
    """Rows, one a call and state, a chunk at a time, until the time is over."""
    deadline_s, clock = time.perf_counter() + seconds * 0.95, Clock()
    for at in range(0, len(calls), CHUNK):
        if time.perf_counter() > deadline_s:
            return
        chunk: Any = calls[at : at + CHUNK]
        with begun(out).open("a") as marks:
            marks.write(" ".join(call.mark for call in chunk) + "\n")
        yield [
            {"call": Call(row["kind"], row.pop("params")).mark, **row}
            for row in timed(chunk, clock, deadline_s)
        ]
        left = deadline_s - time.perf_counter()
        print(f"{at + CHUNK} of {len(calls)} calls, {left:.0f} s left", flush=True)


def main() -> int:
    """Time what is not done, a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("calls", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    args = parser.parse_args()
    import torch

    found = read(args.calls)
    known = done(args.out)
    todo = [call for call in order(*found) if call.mark not in known]
    machine = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": torch.cuda.get_device_name(),
    }
    warm = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(50):
        warm @ warm
    if not args.out.exists():
        with gzip.open(args.out, "wt") as out:
            out.write(json.dumps({"machine": machine}) + "\n")
    for chunk in rows(todo, args.seconds, args.out):
        with gzip.open(args.out, "at") as out:
            out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in chunk)
    return 0


if __name__ == "__main__":
    sys.exit(main())
