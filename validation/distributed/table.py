"""The distributed workloads, predicted against measured: `python validation/distributed/table.py`.

Needs no GPU: captures every rank that differs, predicts the job on two H200s, sets it beside the
recordings, and writes `validation/results/distributed.json` and the tables of
`docs/distributed-accuracy.md` and its Chinese twin. `--check` writes nothing and fails where
predictions moved by more than 1 %, where a page differs from the results, or where a row misses its
target without a cause in `why.json`.

The recordings' host is slower than the one that the shipped constants were measured on. How much is
known from a call that was timed on both (`host_factor`), not from these workloads; every row is
predicted with the shipped constants and with all host times scaled by that factor.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import importlib
import json
import os
import pickle
import statistics
import sys
import warnings
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(HERE / "workloads")]

from rows import ROWS, Row  # noqa: E402

RECORDINGS = ROOT / "validation" / "recordings" / "h200"
RESULTS = ROOT / "validation" / "results" / "distributed.json"
CACHE = ROOT / "validation" / ".cache"
RANKS = 2
MOVED = 0.01
"""Change of a prediction, relative, above which `--check` says that it moved."""

Found = dict[str, Any]


@lru_cache(maxsize=1)
def host_factor() -> float:
    """How much slower the recordings' host is: one `aten::add`, timed on it and on the shipped."""
    from gpuscope.hardware import calibration_for, device

    shipped = calibration_for(device("h200")).get("host.op.add.plain_s", 0.0)
    for line in (RECORDINGS / "overlap-2.jsonl").read_text().splitlines():
        part = json.loads(line)
        if part["part"] == "host" and part["call"].startswith("aten::add"):
            return float(statistics.mean(part["call_s"]) / shipped)
    raise SystemExit("overlap-2.jsonl has no time of aten::add")


def slow_host() -> Any:
    """The shipped constants, with all host times longer by `host_factor`."""
    from gpuscope.hardware import calibration_for, device
    from gpuscope.hardware.calibration import CalibratedValue

    shipped, factor = calibration_for(device("h200")), host_factor()
    scale = CalibratedValue(factor, "1", "measured", factor * 0.9, factor * 1.1)
    kept = [entry for entry in shipped.entries if entry[0] != "host.scale"]
    kept.append(("host.scale", scale))
    return replace(shipped, entries=tuple(sorted(kept, key=lambda entry: entry[0])))


@lru_cache(maxsize=1)
def _sources() -> str:
    import torch
    import transformers

    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    program = ROOT / "src" / "gpuscope" / "program"
    for path in (*sorted(program.rglob("*.py")), *sorted((HERE / "workloads").glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def programs_of(row: Row) -> Any:
    """Every rank that differs, captured; from the cache where nothing has changed."""
    from gpuscope.program.ranks import capture_ranks
    from gpuscope.program.world import World

    path = CACHE / f"dist-{row.name}-{_sources()[:16]}.pickle.z"
    if path.exists():
        return pickle.loads(zlib.decompress(path.read_bytes()))
    module, _, function = row.target.partition(".py:")
    build = getattr(importlib.import_module(module), function)
    programs = capture_ranks(build, World(RANKS, 0, RANKS), name=row.name)
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"dist-{row.name}-{'?' * 16}.pickle.z"):
        old.unlink(missing_ok=True)
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_bytes(zlib.compress(pickle.dumps(programs, 5), 1))
    whole.rename(path)
    return programs


# -- collectives one by one ---------------------------------------------------------------------

_KINDS = (
    ("AllReduce", ("allreduce", "all_reduce")), ("AllGather", ("allgather", "all_gather")),
    ("ReduceScatter", ("reduce_scatter",)), ("Broadcast", ("broadcast",)),
    ("SendRecv", ("send", "recv", "alltoall", "all_to_all")),
)  # fmt: skip


def captured_collectives(program: Any) -> list[tuple[str, int]]:
    """Kind (as NCCL's kernels are named) and elements given of each collective, in order.

    Messages of one batch are one kernel; the elements of messages are not compared.
    """
    found: list[tuple[str, int]] = []
    batch: object = None
    for op in program.ops:
        if op.group < 0:
            continue
        base = op.name.rpartition("::")[2]
        kind = next(k for k, words in _KINDS if any(word in base for word in words))
        sizes = [spec.numel for spec in op.inputs]
        given = min(sizes) if kind == "AllGather" else max(sizes)
        if op.peer >= 0:
            if op.args.get("batch") is not None and op.args.get("batch") == batch:
                continue
            given = 0
        batch = op.args.get("batch") if op.peer >= 0 else None
        found.append((kind, given))
    return found


def recorded_collectives(path: Path) -> list[tuple[str, int]]:
    """The same, of a recorded step."""
    found = []
    with gzip.open(path, "rt") as file:
        for line in csv.DictReader(file):
            if not line["kernel"].startswith("ncclDevKernel_"):
                continue
            kind = line["kernel"].removeprefix("ncclDevKernel_").partition("_")[0]
            numbers = line["shapes"].partition("]")[0].strip("[")
            elements = prod(int(n) for n in numbers.split(",")) if numbers else 0
            found.append((kind.partition("(")[0], elements))
    return found


# -- rows ---------------------------------------------------------------------------------------


def _pair(predicted: float, measured: float) -> Found:
    return {"predicted": predicted, "measured": measured, "error": predicted / measured - 1}


def _timed(run: Any, step_s: float) -> Found:
    low, high = run.step_time_interval_s
    return {**_pair(run.step_time_s, step_s), "low": low, "high": high,
            "hit": low <= step_s <= high}  # fmt: skip


def row_of(name: str) -> Found:
    """One workload, predicted and measured."""
    import torch

    import gpuscope as gs

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    row = next(r for r in ROWS if r.name == name)
    folder = RECORDINGS / "distributed"
    record = json.loads((folder / f"{name}-{RANKS}.json").read_text())
    programs = programs_of(row)
    run = gs.predict(programs, on=f"{RANKS}xh200")
    scaled = gs.predict(programs, on=f"{RANKS}xh200", calibration=slow_host())
    ranks, step_s = record["ranks"], record["step_time_s"]
    first = run.analysis.time[run.ranks[0]]
    same, counts = [], []
    for program in (programs.of(0), programs.of(RANKS - 1)):
        there = recorded_collectives(folder / f"{name}-{RANKS}-rank{program.rank}.csv.gz")
        here = captured_collectives(program)
        same.append(here == there)
        counts.append((len(there), len(here)))
    return {
        "name": name, "step_time_s": _timed(run, step_s),
        "slow_host_step_time_s": _timed(scaled, step_s),
        "host_issue_s": _pair(run.host_busy_s, ranks[0]["host_issue_s"]),
        "host_bound": ranks[0]["host_issue_s"] > 0.8 * step_s,
        "peak_memory_bytes": _pair(
            run.peak_memory_bytes, max(r["peak_allocated_bytes"] for r in ranks)
        ),
        "device_busy_s": first.busy_s, "communication_s": first.communication_s,
        "exposed_s": first.exposed_communication_s,
        "collectives": {"recorded": counts[0][0], "captured": counts[0][1], "same": all(same)},
    }  # fmt: skip


def recorded_names(names: Sequence[str] = ()) -> list[str]:
    """Workloads that were measured, in the order of `rows.py`."""
    return [r.name for r in ROWS if (not names or r.name in names)
            and (RECORDINGS / "distributed" / f"{r.name}-{RANKS}.json").exists()]  # fmt: skip


def line(row: Found) -> str:
    """One row for the terminal."""
    step, slow = row["step_time_s"], row["slow_host_step_time_s"]
    sent = row["collectives"]
    return (
        f"{row['name']:20s} {step['measured'] * 1e3:8.2f} ms  {step['error']:+6.1%}"
        f"  slow host {slow['error']:+6.1%}  memory {row['peak_memory_bytes']['error']:+6.1%}"
        f"  issue {row['host_issue_s']['error']:+6.1%}"
        f"  collectives {sent['captured']}/{sent['recorded']}{'' if sent['same'] else ' DIFFER'}"
    )


def rows(names: Sequence[str] = (), processes: int = 1) -> list[Found]:
    """All recorded workloads (or those named); prints each as it comes."""
    wanted = recorded_names(names)
    found: dict[str, Found] = {}
    with ProcessPoolExecutor(max(1, processes)) as pool:
        waiting = {name: pool.submit(row_of, name) for name in wanted}
        for name, future in waiting.items():
            found[name] = future.result()
            print(line(found[name]), flush=True)
    return [found[name] for name in wanted]


def main() -> int:
    """Predict, compare, write."""
    import distributed_pages

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="workloads; all by default")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the pages, from the results")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    found = old if args.render else rows(args.names, args.processes)
    results = {"host_factor": host_factor(), "rows": found}
    missing = distributed_pages.without_cause(found)
    if missing:
        print("over their target without a cause in why.json:", ", ".join(missing))
    if args.check:
        before = {r["name"]: r["step_time_s"]["predicted"] for r in old}
        moved = [r["name"] for r in found if abs(
            r["step_time_s"]["predicted"] / before.get(r["name"], 1e9) - 1) > MOVED]  # fmt: skip
        differing = [] if args.names else distributed_pages.write(results, check=True)
        print("moved:", moved, " pages that differ:", differing)
        return 1 if moved or differing or missing else 0
    if not args.names:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        distributed_pages.write(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
