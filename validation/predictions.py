"""The zoo predicted: every recorded workload captured, predicted, set beside its measurement.

Captured programs are kept in `validation/.cache` under a hash of all that a capture hangs on (the
sources of `gpuscope.program`, the script, the versions of torch and transformers), so that a
second run, after a change of cost models alone, takes seconds.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import pickle
import sys
import warnings
import zlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

from zoo import NEWEST, ZOO, Entry  # noqa: E402

from gpuscope.garbage import rare_collection  # noqa: E402

RECORDINGS = HERE / "recordings" / "h200" / "zoo"
CACHE = HERE / ".cache"
PROGRAM = HERE.parent / "src" / "gpuscope" / "program"

NEWEST_HOST = RECORDINGS.parent / "newest_host.toml"
"""Constants of the host that the newest rows were measured on, from its own bench (`newest_host/`,
`gpuscope bench --only host,launch`, 21 s). The first rows' host is the one whose calls the shipped
constants are, without `host.scale`, which is for hosts that nobody benched."""

FIRST_HOST_SPREAD = 0.15
"""80 % of made-up programs on that host, each judged by a fit without it (`host_programs.toml`)."""

RECORDED_BY = (2, 11)
"""PyTorch of the recordings: later ones cast other operators under autocast."""

HOST_BOUND = 0.8
"""A step whose kernels fill less than this share of it is paced by the host."""

Row = dict[str, Any]


# -- capturing ----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _sources() -> str:
    import torch
    import transformers

    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    for path in sorted(PROGRAM.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def program_of(entry: Entry) -> Any:
    """The workload's captured step, from the cache where nothing has changed."""
    import gpuscope as gs
    from gpuscope.program.capture.autocast import as_of
    from gpuscope.program.capture.einsum_order import as_if_installed
    from measure import resolve_build

    digest = hashlib.sha256(f"{_sources()} {RECORDED_BY} {entry!r}".encode())
    if ".py:" in entry.target:
        digest.update((HERE / "workloads" / entry.target.partition(":")[0]).read_bytes())
    path = CACHE / f"{entry.name}-{digest.hexdigest()[:16]}.pickle.z"
    if path.exists():
        return pickle.loads(zlib.decompress(path.read_bytes()))
    with as_of(RECORDED_BY), as_if_installed():  # the recording machines have opt_einsum
        program = replace(gs.capture(resolve_build(entry)), task=entry.task)
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"{entry.name}-{'?' * 16}.pickle.z"):
        old.unlink(missing_ok=True)
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_bytes(zlib.compress(pickle.dumps(program, 5), 1))
    whole.rename(path)
    return program


def predicted(program: Any, on: str, calibration: Any = None) -> Any:
    """What `gs.predict` gives, without what each finding's advice would bring: half its time."""
    from gpuscope.api import resolve_calibration, resolve_target
    from gpuscope.hardware import calibration_for
    from gpuscope.prediction import predict_captured

    cluster = resolve_target(on)
    constants = resolve_calibration(on, calibration) or calibration_for(cluster.device)
    return predict_captured(program, cluster, constants, outcomes=False)


# -- kernels by kind ----------------------------------------------------------------------------

ALIASES = {
    "clamp_min": "relu",
    "clamp_min_": "relu",
    "_embedding_bag_dense_backward": "_embedding_bag_backward",
}
"""How a recording names what a captured program has under another name."""


def kernels_by_kind(
    entry: Entry, program: Any, on: str, folder: Path = RECORDINGS
) -> dict[str, list[float]]:
    """Seconds measured and predicted by kind of kernel, of an eager step.

    An operator's kernels count for the kind that most of its predicted time has; operators that
    only one of the two sides has count where they are, and as 0 on the other.
    """
    from gpuscope.analysis.operator_families import operator_family
    from gpuscope.cost.engine import cost_program
    from gpuscope.cost.power import limit_power
    from gpuscope.hardware import calibration_for, device

    target = device(on)
    constants = calibration_for(target)
    costed = limit_power(cost_program(program, target, constants), target, constants)
    said: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in costed.ops:
        family = operator_family(item.op.name).rpartition("::")[2]
        for kernel in item.kernels:
            said[family][kernel.kind] += kernel.duration_s
    kind_of = {family: max(kinds, key=lambda k: kinds[k]) for family, kinds in said.items()}
    out: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for family, kinds in said.items():
        out[kind_of[family]][1] += sum(kinds.values())
    with gzip.open(folder / f"{entry.name}.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            family = operator_family(row["op"]).rpartition("::")[2]
            kind = kind_of.get(ALIASES.get(family, family), "unmatched")
            if not row["op"] and "multi_tensor_apply" in row["kernel"]:
                kind = "optimizer"  # launched after the operator's own range
            out[kind][0] += float(row["duration_us"]) * 1e-6
    return {kind: [round(m, 9), round(p, 9)] for kind, (m, p) in out.items()}


# -- predicting ---------------------------------------------------------------------------------


def constants_of(name: str, on: str = "h200") -> Any:
    """Constants with the host that a workload was measured on: its own bench, or the first host."""
    from gpuscope.api import resolve_calibration
    from gpuscope.hardware import CalibratedValue, calibration_for, device

    if name in NEWEST and NEWEST_HOST.exists():
        return resolve_calibration(on, NEWEST_HOST)
    shipped, spread = calibration_for(device(on)), FIRST_HOST_SPREAD
    itself = CalibratedValue(1.0, "1", "calibrated", 1 - spread, 1 + spread, "the host measured")
    entries = dict(shipped.entries) | {"host.scale": itself}
    return replace(shipped, entries=tuple(sorted(entries.items())))


def row_of(name: str, on: str = "h200") -> Row:
    """One workload, predicted and measured."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    entry = next(e for e in ZOO if e.name == name)
    record = json.loads((RECORDINGS / f"{name}.json").read_text())
    program = program_of(entry)
    benched = name in NEWEST and NEWEST_HOST.exists()
    run = predicted(program, on, constants_of(name, on))
    low, high = run.step_time_interval_s
    step_s, busy_s = record["step_time_s"], record["kernel_sum_s"]
    # A CUDA graph keeps its memory, and a replay allocates nothing: the warm-up's peak counts.
    peaks = (record["peak_allocated_bytes"], record["first_peak_bytes"])
    peak = max(peaks) if program.compiled in ("reduce-overhead", "max-autotune") else peaks[0]
    row: Row = {
        "name": name,
        "group": entry.group,
        "task": entry.task,
        "mode": "compiled" if entry.compiled else entry.graphs or "eager",
        "host_bound": busy_s < HOST_BOUND * step_s,
        "host": "its own bench" if benched else "first",
        "step_time_s": {
            **_pair(run.step_time_s, step_s),
            "low": low,
            "high": high,
            "hit": low <= step_s <= high,
        },
        "device_busy_s": _pair(run.device_busy_s, busy_s),
        "peak_memory_bytes": _pair(run.peak_memory_bytes, peak),
        "reserved_memory_bytes": _pair(run.reserved_memory_bytes, record["peak_reserved_bytes"]),
    }
    if record.get("energy_j") and run.energy_j:
        row["energy_j"] = _pair(run.energy_j, record["energy_j"])
    shipped = predicted(program, on)
    low, high = shipped.step_time_interval_s
    row["shipped"] = {**_pair(shipped.step_time_s, step_s), "low": low, "high": high}
    if row["mode"] == "eager":
        row["kernels"] = kernels_by_kind(entry, program, on)
    return row


def _pair(predicted: float, measured: float) -> Row:
    return {"predicted": predicted, "measured": measured, "error": predicted / measured - 1}


def recorded_names(names: Sequence[str] = ()) -> list[str]:
    """Workloads that were measured, in the zoo's order."""
    return [
        e.name
        for e in ZOO
        if (RECORDINGS / f"{e.name}.json").exists() and (not names or e.name in names)
    ]


def rows(names: Sequence[str] = (), on: str = "h200", processes: int = 1) -> list[Row]:
    """All recorded workloads (or those named), on several processes; prints each as it comes."""
    wanted = recorded_names(names)
    found: dict[str, Row] = {}
    if processes < 2 or len(wanted) < 2:
        for name in wanted:
            found[name] = row_of(name, on)
            print(line(found[name]), flush=True)
    else:
        with ProcessPoolExecutor(processes, initializer=rare_collection) as pool:
            waiting = {name: pool.submit(row_of, name, on) for name in wanted}
            for name, future in waiting.items():
                try:
                    found[name] = future.result()
                    print(line(found[name]), flush=True)
                except Exception as error:  # the others are worth having
                    print(f"{name}: cannot be predicted: {error!r}", flush=True)
    return [found[name] for name in wanted if name in found]


def line(row: Row) -> str:
    """One row for the terminal."""
    t = row["step_time_s"]
    energy = row.get("energy_j", {}).get("error", float("nan"))
    return (
        f"{row['name']:25s} step {t['measured'] * 1e3:8.2f} ms, predicted "
        f"{t['predicted'] * 1e3:8.2f} [{t['low'] * 1e3:.2f}, {t['high'] * 1e3:.2f}] "
        f"{t['error']:+7.1%}{' ' if t['hit'] else '✗'}"
        f"  device {row['device_busy_s']['error']:+7.1%}"
        f"  memory {row['peak_memory_bytes']['error']:+7.1%}  energy {energy:+7.1%}"
        f"{'  host-bound' if row['host_bound'] else ''}"
    )
