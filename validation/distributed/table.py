"""The distributed workloads, predicted against measured: `python validation/distributed/table.py`.

Needs no GPU: captures every rank that differs, predicts the job on two H200s, sets it beside the
recordings, and writes `validation/results/distributed.json` and the tables of
`docs/distributed-accuracy.md` and its Chinese twin. `--check` writes nothing and fails where
predictions moved by more than 1 %, where a page differs from the results, or where a row misses its
target without a cause in `why.json`.

The recordings' host is slower than the one that the shipped constants were measured on. So every
row is predicted twice: with the shipped constants, and with those of a host bench of a machine of
the same kind (`recordings/h200/distributed_host.toml`, by `gpuscope bench`). Three workloads were
measured on that very machine too (`recordings/h200/distributed_again`). The plans of `plans.py` are
predicted likewise.
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
import sys
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(HERE / "workloads")]

import pairs  # noqa: E402
import plans  # noqa: E402
from rows import ROWS, Row  # noqa: E402

RECORDINGS = ROOT / "validation" / "recordings" / "h200"
RESULTS = ROOT / "validation" / "results" / "distributed.json"
CACHE = ROOT / "validation" / ".cache"
RANKS = 2
OWN_HOST = RECORDINGS / "distributed_host.toml"
"""Constants of the host of a machine of the recordings' kind: `gpuscope bench --replay
validation/recordings/h200/distributed_host --save -o FILE`, those of `host` alone."""
MOVED = 0.01
"""Change of a prediction, relative, above which `--check` says that it moved."""

Found = dict[str, Any]


@lru_cache(maxsize=1)
def _sources() -> str:
    import torch
    import transformers

    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    program = ROOT / "src" / "gpuscope" / "program"
    for path in (*sorted(program.rglob("*.py")), *sorted((HERE / "workloads").glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(name: str, capture: Callable[[], Any], key: str = "") -> Any:
    """What was captured; from the cache where nothing has changed."""
    digest = hashlib.sha256(f"{_sources()} {key}".encode()).hexdigest()[:16]
    path = CACHE / f"dist-{name}-{digest}.pickle.z"
    if path.exists():
        return pickle.loads(zlib.decompress(path.read_bytes()))
    programs = capture()
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"dist-{name}-{'?' * 16}.pickle.z"):
        old.unlink(missing_ok=True)
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_bytes(zlib.compress(pickle.dumps(programs, 5), 1))
    whole.rename(path)
    return programs


def programs_of(row: Row) -> Any:
    """Every rank that differs, captured."""
    from gpuscope.program.ranks import capture_ranks
    from gpuscope.program.world import World

    def capture() -> Any:
        module, _, function = row.target.partition(".py:")
        build = getattr(importlib.import_module(module), function)
        return capture_ranks(build, World(RANKS, 0, RANKS), name=row.name)

    return cached(row.name, capture)


# -- collectives one by one ---------------------------------------------------------------------

_KINDS = (
    ("AllReduce", ("allreduce", "all_reduce")),
    ("AllGather", ("allgather", "all_gather")),
    ("ReduceScatter", ("reduce_scatter",)),
    ("Broadcast", ("broadcast",)),
    ("SendRecv", ("send", "recv", "alltoall", "all_to_all")),
)


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
    return {
        **_pair(run.step_time_s, step_s),
        "low": low,
        "high": high,
        "hit": low <= step_s <= high,
    }


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
    own = gs.predict(programs, on=f"{RANKS}xh200", calibration=OWN_HOST)
    ranks, step_s = record["ranks"], record["step_time_s"]
    first = run.analysis.time[run.ranks[0]]
    same, counts = [], []
    for program in (programs.of(0), programs.of(RANKS - 1)):
        there = recorded_collectives(folder / f"{name}-{RANKS}-rank{program.rank}.csv.gz")
        here = captured_collectives(program)
        same.append(here == there)
        counts.append((len(there), len(here)))
    again = RECORDINGS / "distributed_again" / f"{name}-{RANKS}.json"
    again_s = json.loads(again.read_text())["step_time_s"] if again.exists() else None
    return {
        "name": name,
        "step_time_s": _timed(run, step_s),
        "again": None
        if again_s is None
        else {"shipped": _timed(run, again_s), "own": _timed(own, again_s)},
        "own_host_step_time_s": _timed(own, step_s),
        "host_issue_s": _pair(run.host_busy_s, ranks[0]["host_issue_s"]),
        "own_host_busy_s": own.host_busy_s,
        "host_bound": ranks[0]["host_issue_s"] > 0.8 * step_s,
        "peak_memory_bytes": _pair(
            run.peak_memory_bytes, max(r["peak_allocated_bytes"] for r in ranks)
        ),
        "device_busy_s": first.busy_s,
        "communication_s": first.communication_s,
        "exposed_s": first.exposed_communication_s,
        "collectives": {"recorded": counts[0][0], "captured": counts[0][1], "same": all(same)},
    }


def plan_of(number: int) -> Found:
    """One plan of the ready-made decoders, predicted and measured."""
    import torch

    import gpuscope as gs

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    measured, on = plans.recorded()[number], f"{RANKS}xh200"
    programs = cached(
        f"plan-{number}", lambda: plans.captured(measured, on), plans.name_of(measured)
    )
    run = gs.predict(programs, on=on)
    own = gs.predict(programs, on=on, calibration=OWN_HOST)
    return {
        "name": plans.name_of(measured),
        "step_time_s": _timed(run, measured["step_s"]),
        "own_host_step_time_s": _timed(own, measured["step_s"]),
        "peak_memory_bytes": _pair(run.peak_memory_bytes, measured["peak_bytes"])
        if measured["memory_counts"]
        else None,
    }


def recorded_names(names: Sequence[str] = ()) -> list[str]:
    """Workloads that were measured, in the order of `rows.py`."""
    return [
        r.name
        for r in ROWS
        if (not names or r.name in names)
        and (RECORDINGS / "distributed" / f"{r.name}-{RANKS}.json").exists()
    ]


def line(row: Found) -> str:
    """One row for the terminal."""
    step, own = row["step_time_s"], row["own_host_step_time_s"]
    memory = row["peak_memory_bytes"]
    said = (
        f"{row['name']:20s} {step['measured'] * 1e3:8.2f} ms  {step['error']:+6.1%}"
        f"  own host {own['error']:+6.1%}"
    )
    if memory is not None:
        said += f"  memory {memory['error']:+6.1%}"
    sent = row.get("collectives")
    return (
        said
        if sent is None
        else said
        + (
            f"  issue {row['host_issue_s']['error']:+6.1%}"
            f"  collectives {sent['captured']}/{sent['recorded']}{'' if sent['same'] else ' DIFFER'}"
        )
    )


def rows(names: Sequence[str] = (), processes: int = 1) -> tuple[list[Found], list[Found]]:
    """All recorded workloads (or those named) and plans; prints each as it comes."""
    wanted = recorded_names(names)
    numbers = [] if names and "plans" not in names else range(len(plans.recorded()))
    with ProcessPoolExecutor(max(1, processes)) as pool:
        waiting = [pool.submit(row_of, name) for name in wanted]
        planned = [pool.submit(plan_of, number) for number in numbers]
        for future in (*waiting, *planned):
            print(line(future.result()), flush=True)
        return [f.result() for f in waiting], [f.result() for f in planned]


def _moved(results: Found, old: Found) -> list[str]:
    """Workloads and plans whose prediction is not what it was."""
    before = {r["name"]: r["step_time_s"]["predicted"] for r in (*old["rows"], *old["plans"])}
    return [
        row["name"]
        for row in (*results["rows"], *results["plans"])
        if abs(row["step_time_s"]["predicted"] / before.get(row["name"], 1e9) - 1) > MOVED
    ]


def main() -> int:
    """Predict, compare, write."""
    import distributed_pages

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="workloads; all by default")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the pages, from the results")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": [], "plans": []}
    found, planned = (
        (old["rows"], old["plans"]) if args.render else rows(args.names, args.processes)
    )
    results = {"rows": found, "plans": planned, "two": pairs.rows()}
    missing = distributed_pages.without_cause([*found, *planned])
    if missing:
        print("over their target without a cause in why.json:", ", ".join(missing))
    if args.check:
        moved = _moved(results, old)
        differing = [] if args.names else distributed_pages.write(results, check=True)
        print("moved:", moved, " pages that differ:", differing)
        return 1 if moved or differing or missing else 0
    if not args.names:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        distributed_pages.write(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
