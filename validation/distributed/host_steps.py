"""A host's bench and steps that it paces, in the same processes: on two GPUs

    torchrun --nproc-per-node 2 validation/distributed/host_steps.py --out DIR

Both ranks at once, as in a job. `bench-rank*.jsonl`: what `gpuscope bench` measures of a host
(quick), programs of `torch.distributed` among it. `calls.jsonl`: collectives' calls, alone and amid
others, by the clock and by the processor's time of the calling thread. `steps.jsonl`: the steps of
`workloads/host_paced.py` in rounds, so that a host that changes its pace is told from a wrong
prediction; a quick look at the host's pace (`pace.jsonl`) is between them. `python.json`: the Python
that each phase runs. What is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE), str(HERE / "workloads")]

ROUNDS = 3
ROUND_S = 1.5
"""Seconds that a step is repeated in a round."""

_BEGUN = time.perf_counter()

Line = dict[str, Any]


def _lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, line: Line) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _told(what: str) -> None:
    if not int(os.environ["RANK"]):
        print(f"{time.perf_counter() - _BEGUN:6.1f} s  {what}", flush=True)


# -- the bench -------------------------------------------------------------------------------------


def bench(path: Path, device: str) -> None:
    """Parts of the host's bench whose families are not in the file yet."""
    from gpuscope.measurement.bench import host, launch
    from gpuscope.measurement.bench.host_timing import HostTimer
    from gpuscope.measurement.bench.store import point_document

    launches = (launch.measure_queue, launch.measure_graphs, launch.measure_latency)
    parts: list[tuple[str, Callable[[Any], None]]] = [
        ("+".join(sorted(families)), part) for families, part in host.parts(True)
    ]
    if device != "cpu":
        parts += [(part.__name__, part) for part in launches]
    done = {line["part"] for line in _lines(path)}
    for name, part in parts:
        if name in done:
            continue
        timer = HostTimer(device, 7)
        try:
            part(timer)
        except Exception as error:  # the rest is still worth having
            timer.failures.append(f"{name}: {type(error).__name__}: {error}"[:300])
        points = [point_document(host.point("host", sample)) for sample in timer.samples]
        _write(path, {"part": name, "points": points, "failures": timer.failures})
        _told(f"bench {name}: {len(points)} points {timer.failures[:2]}")


# -- collectives' calls ----------------------------------------------------------------------------


def calls(path: Path) -> None:
    """Each call alone (in a row of its like) and amid others; rank 0 writes."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from host_calls import _blocks, _collectives

    blocks = _blocks()
    import torch

    part, name = torch.ones(1024, device="cuda"), dist.group.WORLD.group_name
    ops = torch.ops._c10d_functional
    every = {
        **blocks,
        **_collectives(),
        "operator all_reduce": lambda: ops.all_reduce(part, "sum", name),
        "operator all_reduce, waited": lambda: ops.wait_tensor(ops.all_reduce(part, "sum", name)),
        "functional all_reduce": lambda: functional.all_reduce(part, "sum", name),
    }
    others = [call for call in blocks.values() for _ in range(3)] * 5
    for title, call in every.items():
        line: Line = {"call": title}
        for way, before in (("alone", []), ("amid", others)):
            line[way] = _one_by_one(call, before)
        if not dist.get_rank():
            _write(path, line)
    _told(f"calls: {len(every)}")


def _one_by_one(call: Callable[[], object], before: list[Callable[[], object]]) -> Line:
    """Medians of single calls: by the clock, and by the thread's processor time."""
    import torch
    import torch.distributed as dist

    wall, mine = [], []
    for number in range(48):
        for other in before:
            other()
        began, used = time.perf_counter(), time.thread_time()
        call()
        mine.append(time.thread_time() - used)
        wall.append(time.perf_counter() - began)
        if number % 8 == 7:
            dist.barrier()
            torch.cuda.synchronize()
    return {"wall_s": statistics.median(wall[8:]), "thread_s": statistics.median(mine[8:])}


# -- steps -----------------------------------------------------------------------------------------


def steps(out: Path, only: tuple[str, ...]) -> None:
    """Build all, then rounds over them; then count the Python of each."""
    import torch.distributed as dist
    from host_paced import STEPS
    from host_work import _Phases

    phases, built = _Phases(), dict[str, Any]()
    for name, make in STEPS.items():
        if only and name not in only:
            continue
        step = make()
        for _ in range(4):
            step()
        built[name] = step
        _told(f"built {name}")
    have = {(line["round"], line["step"]) for line in _lines(out / "steps.jsonl")}
    dist.barrier()
    for number in range(ROUNDS):
        for name, step in built.items():
            if (number, name) in have:
                continue
            _pace(out / "pace.jsonl", number, name)
            _round(out / "steps.jsonl", number, name, step, phases)
    _alone(out / "steps.jsonl", built)
    _python(out / "python.json", built, phases)


def _wait() -> None:
    import torch
    import torch.distributed as dist

    dist.barrier()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _round(path: Path, number: int, name: str, step: Any, phases: Any) -> None:
    """One step in blocks, and its phases one by one; every rank's figures, written by rank 0."""
    import torch
    import torch.distributed as dist
    from host_work import _times

    _wait()
    began = time.perf_counter()
    for _ in range(2):
        step()
    _wait()
    took = torch.tensor((time.perf_counter() - began) / 2, device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    count = max(3, min(60, int(ROUND_S / 4 / took.item())))
    blocks, issued, used = [], [], []
    for _ in range(3):
        _wait()
        began, mine, whole = time.perf_counter(), time.thread_time(), time.process_time()
        for _ in range(count):
            step()
        issued.append((time.perf_counter() - began) / count)
        used.append(((time.thread_time() - mine) / count, (time.process_time() - whole) / count))
        torch.cuda.synchronize()
        blocks.append((time.perf_counter() - began) / count)
    found: Line = {
        "rank": dist.get_rank(),
        "blocks_s": blocks,
        "issued_s": issued,
        "thread_and_process_s": used,
        "phase_s": _times(phases, step, _wait, count),
    }
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if not dist.get_rank():
        _write(path, {"round": number, "step": name, "count": count, "ranks": every})
    _told(f"round {number} {name}: {1e3 * statistics.median(blocks):.2f} ms")


def _alone(path: Path, built: dict[str, Any]) -> None:
    """Steps that need no other rank, while the other one sleeps."""
    import torch
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank():
        store.wait(["alone"])
    else:
        for name in ("whole", "adapters"):
            if name not in built:
                continue
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(15):
                built[name]()
            torch.cuda.synchronize()
            took = (time.perf_counter() - began) / 15
            _write(path, {"round": "alone", "step": name, "step_s": took})
        store.set("alone", "1")
    _wait()


def _pace(path: Path, number: int, name: str) -> None:
    """A few calls of the bench, now, of each rank."""
    import torch
    import torch.distributed as dist

    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    w = torch.randn(64, 64, device="cuda", requires_grad=True)
    found: Line = {"rank": dist.get_rank()}
    looks: dict[str, tuple[Callable[[], object], int]] = {
        "loop": (lambda: [i * i for i in range(1000)], 1),
        "add": (lambda: x + x, 30),
        "linear": (lambda: torch.nn.functional.linear(x, w), 30),
    }
    for title, (call, count) in looks.items():
        times = []
        for _ in range(9):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(count):
                call()
            times.append((time.perf_counter() - began) / count)
        found[title] = statistics.median(times)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if not dist.get_rank():
        _write(path, {"round": number, "before": name, "ranks": every})


def _python(path: Path, built: dict[str, Any], phases: Any) -> None:
    import torch.distributed as dist
    from host_work import _counts

    found = {}
    for name, step in built.items():
        _wait()
        found[name] = _counts(phases, step)
    if not dist.get_rank():
        path.write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    """Bench, calls, steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=(), help="steps")
    args = parser.parse_args()
    import torch
    import torch.distributed as dist

    args.out.mkdir(parents=True, exist_ok=True)
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    bench(args.out / f"bench-rank{rank}.jsonl", "cuda")
    dist.init_process_group("nccl")
    facts = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    facts |= {"python": sys.version.split()[0], "processors": os.cpu_count(), "rank": rank}
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("model name")[2]
    facts["cpu"] = cpu.partition(":")[2].partition("\n")[0].strip()
    (args.out / f"facts-rank{rank}.json").write_text(json.dumps(facts), encoding="utf-8")
    if not _lines(args.out / "calls.jsonl"):
        _guarded(lambda: calls(args.out / "calls.jsonl"))
    _guarded(lambda: steps(args.out, tuple(args.only)))
    dist.barrier()
    dist.destroy_process_group()
    _told("done")


def _guarded(part: Callable[[], None]) -> None:
    """What fails on all ranks alike must not cost the rest."""
    import traceback

    try:
        part()
    except Exception:
        traceback.print_exc()


if __name__ == "__main__":
    main()
