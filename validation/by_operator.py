"""Where a prediction and a measurement part: `python validation/by_operator.py NAME [...]`.

Groups the kernels of one measured step and of the prediction by operator and sets them side by
side: count, device time. With `--counts` only what was captured is compared (no cost model).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]
RECORDINGS = HERE / "recordings" / "h200" / "zoo"


def group(name: str) -> str:
    from gpuscope.analysis.operator_families import operator_family

    return operator_family(name).rpartition("::")[2]


def measured(name: str) -> dict[str, list[float]]:
    out: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    with gzip.open(RECORDINGS / f"{name}.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            key = group(row["op"]) if row["op"] else row["kernel"][:30]
            out[key][0] += 1
            out[key][1] += float(row["duration_us"])
    return out


def predicted(name: str, counts_only: bool) -> tuple[dict[str, list[float]], object]:
    from zoo import ZOO

    from gpuscope.cost.engine import NO_KERNEL, cost_program
    from gpuscope.hardware import device
    from gpuscope.program.capture import capture
    from measure import resolve_build

    entry = next(e for e in ZOO if e.name == name)
    program = capture(resolve_build(entry), task=str(entry.options.get("task", "")))
    out: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    if counts_only:
        for op in program.ops:
            if not op.view and op.name not in NO_KERNEL:
                out[group(op.name)][0] += 1
        return out, program
    costed = cost_program(program, device("h200"))
    for c in costed.ops:
        for k in c.kernels:
            out[group(c.op.name)][0] += 1
            out[group(c.op.name)][1] += k.duration_s * 1e6
    return out, program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--counts", action="store_true")
    args = parser.parse_args()
    for name in args.names:
        record = json.loads((RECORDINGS / f"{name}.json").read_text())
        m = measured(name)
        p, _ = predicted(name, args.counts)
        total_m, total_p = sum(v[1] for v in m.values()), sum(v[1] for v in p.values())
        print(
            f"== {name}: step {record['step_time_s'] * 1e3:.2f} ms, kernels measured "
            f"{total_m / 1e3:.2f} ms, predicted {total_p / 1e3:.2f} ms"
        )
        keys = sorted({*m, *p}, key=lambda k: -max(m[k][1], p[k][1], m[k][0] if args.counts else 0))
        for k in keys[:45]:
            print(
                f"  {k:32s} measured {m[k][0]:6.0f} {m[k][1] / 1e3:10.3f} ms   predicted "
                f"{p[k][0]:6.0f} {p[k][1] / 1e3:10.3f} ms   diff "
                f"{(p[k][1] - m[k][1]) / max(total_m, 1e-9) * 100:+6.1f} %"
            )


if __name__ == "__main__":
    main()
