"""Hold predictions against this machine: `python validation/gpu.py --out DIR [name ...]`.

Every workload of the zoo is measured on this machine's GPU with `gpuscope.measure`, each in a
process of its own, and predicted twice: with the constants that gpuscope ships, and with this
machine's own (`--calibration`, or what `gpuscope bench --save` stored). Writes `DIR/rows.json` and
`DIR/table.md`; what was measured before an interruption is kept and not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

from zoo import ZOO, Entry  # noqa: E402

Row = dict[str, object]


def workload(entry: Entry) -> str:
    """What `gpuscope measure` would be given."""
    return str(HERE / "workloads" / entry.target) if ".py:" in entry.target else entry.target


def options(entry: Entry) -> object:
    from gpuscope.program.workload import WorkloadOptions

    return WorkloadOptions(**entry.options)  # type: ignore[arg-type]


# -- measuring ----------------------------------------------------------------------------------


def measure(entry: Entry, out: Path, seconds: float, device: str | None) -> None:
    """Measure one workload; its figures as JSON, the whole run beside them."""
    import gpuscope as gs
    from gpuscope.atomic import write_document
    from gpuscope.run.document import run_document

    run = gs.measure(workload(entry), options=options(entry), on=device, seconds=seconds)
    time_of = run.analysis.time.get(0)
    record = {
        "name": entry.name,
        "target": run.target,
        "device_id": run.device_id,
        "step_time_s": run.step_time_s,
        "interval_s": run.step_time_interval_s,
        "device_busy_s": run.device_busy_s,
        "peak_memory_bytes": run.peak_memory_bytes,
        "reserved_memory_bytes": run.reserved_memory_bytes,
        "energy_j": run.energy_j,
        "host_busy_s": run.host_busy_s,
        "idle_by_cause": dict(time_of.idle_by_cause) if time_of else {},
        "findings": [f.kind for f in run.analysis.findings],
        "measurement": run_document(run, timeline=False).get("measurement"),
    }
    write_document(run_document(run, max_events=20_000), out / "runs" / f"{entry.name}.json")
    (out / f"{entry.name}.json").write_text(json.dumps(record, indent=1))
    print(f"{entry.name:24s} {run.step_time_s * 1e3:10.3f} ms", flush=True)


def measure_all(
    entries: Sequence[Entry], out: Path, seconds: float, budget_s: float, device: str | None
) -> None:
    """Measure what is not there yet, one forked process each, within the budget."""
    import torch  # noqa: F401  (imported once, before forking)
    import transformers  # noqa: F401

    import gpuscope.measurement.run
    import gpuscope.program.workload  # noqa: F401

    (out / "runs").mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    for entry in entries:
        if (out / f"{entry.name}.json").exists():
            continue
        if time.perf_counter() - started > budget_s:
            print(f"{entry.name}: left out, no time", flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                measure(entry, out, seconds, device)
                code = 0
            except BaseException as error:
                print(f"{entry.name}: {type(error).__name__}: {error}", flush=True)
                if not hasattr(error, "exit_code"):
                    traceback.print_exc()
            os._exit(code)
        os.waitpid(pid, 0)


# -- predicting ---------------------------------------------------------------------------------


def predict(name: str, on: str, calibration: str | None) -> tuple[str, Row]:
    """Predict one workload with the shipped constants and, where given, this machine's."""
    import torch

    import gpuscope as gs

    torch.set_num_threads(1)
    entry = next(e for e in ZOO if e.name == name)
    program = gs.capture(workload(entry), options=options(entry))  # type: ignore[arg-type]
    found: Row = {"shipped": _figures(gs.predict(program, on=on))}
    if calibration:
        found["own"] = _figures(gs.predict(program, on=on, calibration=calibration))
    return name, found


def _figures(run: object) -> Row:
    names = (
        "step_time_s",
        "step_time_interval_s",
        "device_busy_s",
        "peak_memory_bytes",
        "reserved_memory_bytes",
        "energy_j",
        "host_busy_s",
    )
    return {name: getattr(run, name) for name in names}


def rows(out: Path, names: Sequence[str], calibration: str | None, processes: int) -> list[Row]:
    """Predict everything measured and join both."""
    records = {
        name: json.loads((out / f"{name}.json").read_text())
        for name in names
        if (out / f"{name}.json").exists()
    }
    found: dict[str, Row] = {}
    with ProcessPoolExecutor(processes) as pool:
        waiting = {
            name: pool.submit(predict, name, record["device_id"], calibration)
            for name, record in records.items()
            if record["device_id"]
        }
        for name, future in waiting.items():
            try:
                found[name] = future.result()[1]
            except Exception as error:
                print(f"{name}: cannot be predicted: {error}", flush=True)
    return [{"name": n, "measured": records[n], **p} for n, p in found.items()]


# -- showing ------------------------------------------------------------------------------------


def _error(row: Row, which: str, key: str) -> float | None:
    measured, predicted = row["measured"][key], row[which][key]  # type: ignore[index]
    return predicted / measured - 1 if measured and predicted is not None else None


def summary(table: Sequence[Row], which: str) -> dict[str, float]:
    """Median, mean and worst absolute error of each figure; share of intervals that hold."""
    out: dict[str, float] = {"rows": len(table)}
    for key in ("step_time_s", "device_busy_s", "peak_memory_bytes", "energy_j"):
        found = [abs(e) for row in table if (e := _error(row, which, key)) is not None]
        if found:
            out[f"{key}_median"] = statistics.median(found)
            out[f"{key}_mean"] = statistics.mean(found)
            out[f"{key}_worst"] = max(found)
    hits = []
    for row in table:
        low, high = row[which]["step_time_interval_s"]  # type: ignore[index]
        hits.append(low <= row["measured"]["step_time_s"] <= high)  # type: ignore[index]
    out["interval_hits"] = sum(hits) / max(1, len(hits))
    return out


def markdown(table: Sequence[Row]) -> str:
    """Every row, the worst first."""
    own = any("own" in row for row in table)
    heads = ["workload", "measured", "predicted", "error"]
    heads += ["own calibration", "error"] if own else []
    heads += ["memory error", "energy error"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]

    def percent(value: float | None) -> str:
        return "not available" if value is None else f"{value:+.1%}"

    def ms(seconds: float) -> str:
        return f"{seconds * 1e3:.3f} ms"

    for row in sorted(table, key=lambda r: -abs(_error(r, "shipped", "step_time_s") or 0)):
        cells = [
            str(row["name"]),
            ms(row["measured"]["step_time_s"]),  # type: ignore[index]
            ms(row["shipped"]["step_time_s"]),
            percent(_error(row, "shipped", "step_time_s")),  # type: ignore[index]
        ]
        if own:
            cells += (
                [ms(row["own"]["step_time_s"]), percent(_error(row, "own", "step_time_s"))]  # type: ignore[index]
                if "own" in row
                else ["not available"] * 2
            )
        cells += [percent(_error(row, "shipped", k)) for k in ("peak_memory_bytes", "energy_j")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, predict, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="workloads (all by default)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "this-machine")
    parser.add_argument("--seconds", type=float, default=2.5, help="timed seconds a workload")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for measuring")
    parser.add_argument("--calibration", default=None, help="this machine's own constants")
    parser.add_argument("--device", default=None, help="cuda:1, cpu, ...")
    parser.add_argument("--only", choices=("measure", "predict"), default=None)
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    args = parser.parse_args()
    known = [e for e in ZOO if not args.names or e.name in args.names]
    if not known:
        parser.error("no such workload; see validation/zoo.py")
    if args.only != "predict":
        measure_all(known, args.out, args.seconds, args.budget, args.device)
    if args.only == "measure":
        return 0
    table = rows(args.out, [e.name for e in known], args.calibration, args.processes)
    if not table:
        print("Nothing was measured on a device of the catalogue.")
        return 1
    sums = {
        which: summary([r for r in table if which in r], which)
        for which in ("shipped", "own")
        if any(which in r for r in table)
    }
    text = json.dumps({"summary": sums, "rows": table}, indent=1, default=str)
    (args.out / "rows.json").write_text(text + "\n")
    (args.out / "table.md").write_text(markdown(table))
    print(markdown(table))
    print(json.dumps(sums, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
