"""Measure what single changes gain: the evidence for what `gpuscope advise` says of each.

    python benchmarks/ladders/singles.py gpt2 resnet50 --out singles.jsonl --slots 2 --seconds 500

For every change that a case's kept forecasts (`advice/CASE.json`) give a gain for, also those that
are to harm: the naive script is built with this change alone, warmed up, and timed in blocks; the
code as it is is timed before, after every few changes, and at the end. One process does a whole
case, so that a change costs seconds and not a new start; a change that ends the process costs only
itself. `CASE:one+two` measures a set by name.

Every line: case, names (none: the code as it is), seconds of a step in each block, work of a step
over that of the original (a batch twice as large: 2), or the error.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

BLOCKS = 7
WARM_UP_S = 6.0
BETWEEN = 6
"""So many changes lie between two looks at the code as it is."""
LEFT_OUT = {"compile-max-autotune", "optimizer-8bit"}
"""One searches for minutes, one needs a package."""

Names = tuple[str, ...]


def wanted(case: str, compiling: str) -> list[Names]:
    """Sets to measure, those that compile last; the code as it is among them, again and again."""
    from gpuscope.advice.registry import find

    advice = json.loads((HERE / "advice" / f"{case}.json").read_text())
    singles = [tuple(f["names"]) for f in advice["singles"] if f["speedup"] is not None]
    changes = {names: find(names[-1]) for names in singles}
    fit = [
        n
        for n, change in changes.items()
        if not change.environment() and change.group != "distributed" and n[-1] not in LEFT_OUT
    ]
    quick = [n for n in fit if not changes[n].compiles] if compiling != "only" else []
    slow = [n for n in fit if changes[n].compiles] if compiling != "none" else []
    return list(_with_original(quick + slow))


def _with_original(sets: list[Names]) -> Iterator[Names]:
    for number, names in enumerate(sets):
        if number % BETWEEN == 0:
            yield ()
        yield names
    yield ()


class Case:
    """One case in this process.

    Args:
        name: of its scripts.
        device: that runs it.
        share: a file that all slots name: while one is timed, the others' devices do nothing.
    """

    def __init__(self, name: str, device: str | None, share: str) -> None:
        import torch

        from gpuscope.advice.trial.device_sharing import Sharing
        from gpuscope.measurement.accelerator import choose_accelerator
        from gpuscope.program.workload import resolve

        self.name, self.torch, self.sharing = name, torch, Sharing(share)
        self.accelerator = choose_accelerator(device)
        path = Path(name) if name.endswith(".py") else HERE / "naive" / f"{name}.py"
        self.build = resolve(f"{path}:build").build

    def measured(self, names: Names) -> dict[str, Any]:
        """One set: seconds of a step, block by block."""
        from gpuscope.advice.changes.hooks.live import Live
        from gpuscope.advice.registry import plan
        from gpuscope.advice.trial.pairs import steps_of_block
        from gpuscope.advice.trial.rebuilding import COMPILING_STEPS
        from gpuscope.advice.trial.seeding import seed_all
        from gpuscope.advice.trial.workloads import BuildSubject
        from gpuscope.measurement.warmup import warm_up

        begin = time.perf_counter()
        changes = plan(names)
        live = Live(list(changes))
        seed_all(0)
        subject = None
        row: dict[str, Any] = {"case": self.name, "names": list(names)}
        try:
            subject = BuildSubject(self.build, live, self.accelerator)
            for _ in range(COMPILING_STEPS):
                subject.advance(1)  # they may compile: nobody waits for that
            warm = warm_up(self._step_of(subject), self.accelerator, most_s=WARM_UP_S)
            steps = steps_of_block(warm.steady_s)
            self.accelerator.reset_peaks()
            with self.sharing.timing():
                subject.advance(steps)
                row["blocks_s"] = [round(subject.advance(steps) / steps, 9) for _ in range(BLOCKS)]
            row["steps_of_block"] = steps
            row["peak_bytes"] = self.accelerator.peak_allocated_bytes()
            row["work"] = _work(changes)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            if subject is not None:
                subject.drop()
            live.forget()
            self._make_room()
        return row | {"took_s": round(time.perf_counter() - begin, 1)}

    def _step_of(self, subject: Any) -> Any:
        def step() -> float:
            with self.sharing.using():
                return float(subject.advance(1))

        return step

    def _make_room(self) -> None:
        import gc

        if "torch._dynamo" in sys.modules:
            self.torch._dynamo.reset()
        gc.collect()
        if self.accelerator.is_gpu:
            self.torch.cuda.empty_cache()


def _work(changes: Any) -> float:
    work = 1.0
    for change in changes:
        work *= getattr(change, "factor", 1) if change.name.startswith("larger-batch") else 1
    return work


def _child(
    name: str, sets: list[Names], given: argparse.Namespace, cores: set[int], out: Any
) -> None:
    """Measure the sets, one after the other; each is told before it begins and once it is over.

    Ends where the device can do nothing more for this process.
    """
    if cores and sys.platform == "linux":
        os.sched_setaffinity(0, cores)
    case = Case(name, given.device, str(given.out.absolute()) if given.slots > 1 else "")
    where = {
        "device": case.accelerator.name,
        "torch": case.torch.__version__,
        "system": platform.release(),
        "slots": given.slots,
    }
    for names in sets:
        out.put(None)
        row = case.measured(names)
        out.put(row | where)
        if "CUDA error" in row.get("error", ""):
            sys.exit(1)


class Slot:
    """Runs the cases that it is given, in processes of their own."""

    def __init__(self, given: argparse.Namespace, context: Any, cores: set[int]) -> None:
        self.given, self.context, self.cores = given, context, cores
        self.process: Any = None

    def start(self, name: str, sets: list[Names]) -> None:
        """Measure these."""
        self.name, self.sets, self.under_way = name, list(sets), False
        self.out = self.context.Queue()
        self.process = self.context.Process(
            target=_child, args=(name, self.sets, self.given, self.cores, self.out)
        )
        self.process.start()

    def tick(self, write: Any) -> bool:
        """Take what it has found; whether it still works."""
        import queue

        alive = self.process.is_alive()
        while True:
            try:
                row = self.out.get(timeout=0.05)
            except queue.Empty:
                break
            self.under_way = row is None
            if row is not None:
                write(row)
                self.sets.pop(0)
        if alive:
            return True
        if self.sets and self.under_way:
            failed = list(self.sets.pop(0))
            error = f"the process ended with {self.process.exitcode}"
            write({"case": self.name, "names": failed, "error": error})
        elif self.sets and not self.process.exitcode:
            self.sets = []
        if self.sets and self.process.exitcode:
            self.start(self.name, self.sets)
            return True
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", help="CASE, or CASE:one+two for a set of its own")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500, help="for all of it")
    parser.add_argument("--slots", type=int, default=1, help="cases at once; timed one by one")
    parser.add_argument("--compiling", choices=("none", "only", "all"), default="all")
    parser.add_argument("--device")
    given = parser.parse_args()
    began = time.monotonic()
    waiting: list[tuple[str, list[Names]]] = []
    for text in given.cases:
        name, _, names = text.partition(":")
        sets = [(), tuple(names.split("+")), ()] if names else wanted(name, given.compiling)
        waiting.append((name, sets))

    def write(row: dict[str, Any]) -> None:
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        shown = row.get("error") or f"{min(row['blocks_s']) * 1e3:.3f} ms"
        told = "+".join(row["names"]) or "(as it is)"
        print(f"{time.monotonic() - began:5.0f} s  {row['case']:14} {told:40} {shown}", flush=True)

    context = multiprocessing.get_context("spawn")
    slots = [Slot(given, context, _share_of_cores(n, given.slots)) for n in range(given.slots)]
    busy: set[int] = set()
    while waiting or busy:
        for number, slot in enumerate(slots):
            if number in busy and not slot.tick(write):
                busy.discard(number)
            if number not in busy and waiting:
                slot.start(*waiting.pop(0))
                busy.add(number)
        if time.monotonic() - began > given.seconds:
            for number in busy:
                slots[number].tick(write)
                slots[number].process.kill()
            break
        time.sleep(0.05)


def _share_of_cores(number: int, slots: int) -> set[int]:
    """Each slot has cores of its own, so that one's compiler does not slow the other's host."""
    if slots == 1 or sys.platform != "linux":
        return set()
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // slots
    return set(cores[number * size : (number + 1) * size])


if __name__ == "__main__":
    main()
