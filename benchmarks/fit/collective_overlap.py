"""What collectives and compute take from each other, from `overlap-2.jsonl` (see docs/accuracy.md).

    python benchmarks/fit/collective_overlap.py [--write]

Large messages only: short collectives mostly wait for multiprocessors, which is the beginning and
not the speed (`gpuscope.cost.overlap.room_after_s`). A kernel of T seconds alone that took longer
by x of the time that a collective ran beside it went at 1 - x of its pace meanwhile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from recorded import write_toml

from gpuscope.cost.overlap import TOUCHES
from gpuscope.hardware import device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue, calibration_for

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "validation" / "recordings" / "h200" / "overlap-2.jsonl"
H200 = device("h200")
LEAST_BYTES = 64 << 20
WHOLE = ("all_reduce", "send_recv")
"""Of two ranks, each sends the whole message; half of it in other operations."""


def pace(row: dict[str, object]) -> tuple[float, float]:
    """How many times slower a kernel went beside the collective; where in it that began (0..1)."""
    events = row["rank0_s"]
    moving = [(s, s + d) for is_collective, s, d in events if is_collective]
    alone = row["compute_alone_s"][0]
    lost, begins = [], []
    for is_collective, start, duration in events:
        if is_collective:
            continue
        end = start + duration
        together = sum(max(0.0, min(end, b) - max(start, a)) for a, b in moving)
        if together > 0:
            lost.append((duration - alone) / together)
        begins += [(a - start) / duration for a, _ in moving if start < a < end][:1]
    return 1 / (1 - median(lost)), median(begins)


def main() -> int:
    """Print each row and the medians; with --write store them."""
    found: dict[str, list[float]] = {"units": [], "memory": [], "by_compute": [], "by_memory": []}
    units = H200.compute_units or 132
    for line in RECORDED.read_text().splitlines():
        row = json.loads(line)
        if row["part"] != "overlap" or row["bytes"] < LEAST_BYTES:
            continue
        slower, begins = pace(row)
        held = row["grid"] / (units - row["grid"])
        sent = row["bytes"] * (1.0 if row["operation"] in WHOLE else 0.5)
        touched = TOUCHES.get(row["operation"], 2.0) * sent / row["collective_alone_s"]
        used = touched / H200.memory_bandwidth_bytes_per_s
        back = median(row["collective_s"]) / row["collective_alone_s"]
        name = "by_compute" if row["beside"] == "matmul" else "by_memory"
        found[name].append(back - 1)
        if name == "by_compute":
            found["units"].append((slower - 1) / held)
        else:
            found["memory"].append((slower - 1) / (used / (1 - used)))
        sys.stdout.write(
            f"{row['operation']:15s} {row['beside']:7s} kernel x{slower:.2f}, "
            f"collective x{back:.2f}, began {begins:.1%} into the kernel\n"
        )
    for name, values in found.items():
        sys.stdout.write(f"{name:12s} {median(values):.3g}  {[round(v, 2) for v in values]}\n")
    if "--write" in sys.argv:
        _write(found)
    return 0


def _write(found: dict[str, list[float]]) -> None:
    old = calibration_for(H200)
    entries = {n: old.entry(n) for n in old.names("collective")}
    for name, values in found.items():
        entries[f"collective.overlap.{name}"] = CalibratedValue(
            median(values),
            "1",
            "calibrated",
            min(values),
            max(values),
            "2 ranks, 64 MiB, five operations: median, least and most",
        )
    write_toml(CALIBRATIONS / H200.id / "collective.toml", old_source(), entries)


def old_source() -> str:
    """What the file says it was measured with."""
    path = CALIBRATIONS / H200.id / "collective.toml"
    return path.read_text().splitlines()[0].partition('"')[2].rstrip('"')


if __name__ == "__main__":
    sys.exit(main())
