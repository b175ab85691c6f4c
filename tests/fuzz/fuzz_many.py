"""All readers at once, on as many processes as there are cores, for a stated time.

Each process takes a reader for a while (a slice), then the next: a tenth of the time with inputs
made with care, the rest with those damaged byte by byte; slow readers, which gain nothing by quick
inputs, with care alone. What was found is written as it goes, so that an end at any moment loses
seconds: `tallies.jsonl` (what each process tried since its last line), `failures.jsonl` (the first
input of each mistake, in base64) and `results.jsonl` (the sums, a line a reader and sort).
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzz_run import InputOf, Tally, Trial, input_of, quick_input_of, shown
from fuzz_targets import TARGETS, Target

WITH_CARE = 0.1
"""Share of a slice's time for inputs made with care."""

SLOW = 100
"""Readers of which CI tries fewer than this are as slow with quick inputs."""

TOLD_EVERY_S = 5.0

NEEDS = {"run-pictures": "matplotlib", "config": "transformers"}
"""Readers left out where this is not installed: every input would be refused for that."""

MOST_RESIDENT_BYTES = 2 << 30
"""A process that holds more ends, and another goes on (`Trial` limits what one input adds)."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A reader's turn in one process: until when, and where what it finds is written."""

    reader: str
    seed: int
    end_s: float
    out: Path
    folder: Path


def many(seconds: float, workers: int, out: Path, folder: Path, *, seed: int = 0) -> int:
    """Try all readers for so long on so many processes; the number of failures.

    Args:
        seconds: after which it ends.
        workers: processes at once.
        out: folder for what is found.
        folder: for the inputs' files, in memory.
        seed: of the first round; each round takes the next.
    """
    out.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    begin = time.monotonic()
    end_s = begin + seconds
    readers = sorted(r for r in TARGETS if r not in NEEDS or find_spec(NEEDS[r]))
    rounds = max(1, min(8, int(seconds * workers / len(readers) / 20)))
    each_s = seconds * workers / len(readers) / rounds
    turns = _turns(readers, seed)
    running: dict[Any, Slice] = {}
    summed_s = begin
    while running or time.monotonic() < end_s:
        while len(running) < workers and (now := time.monotonic()) < end_s - 1:
            reader, its_seed = next(turns)
            own = folder / f"{reader}-{its_seed}"
            own.mkdir()
            turn = Slice(reader, its_seed, min(now + each_s, end_s), out, own)
            process = multiprocessing.get_context("fork").Process(target=_run, args=(turn,))
            process.start()
            running[process] = turn
        for process in [p for p in running if not p.is_alive()]:
            _ended(running.pop(process), process.exitcode or 0)
        for process, turn in running.items():
            if time.monotonic() > turn.end_s + 60:  # stuck where no signal of Python's gets in
                process.kill()
        if time.monotonic() > summed_s + 10:
            summed_s = time.monotonic()
            summed(out)
        time.sleep(0.05)
    return summed(out)


def _turns(readers: list[str], seed: int) -> Iterator[tuple[str, int]]:
    """Readers in turns, in another order each round: the last one is cut."""
    while True:
        yield from ((name, seed) for name in random.Random(seed).sample(readers, len(readers)))
        seed += 1


def _run(turn: Slice) -> None:
    os.nice(10)
    target = TARGETS[turn.reader]
    begin = time.monotonic()
    if target.ci < SLOW:
        _tried(turn, target, input_of, "care", turn.end_s)
        return
    _tried(turn, target, input_of, "care", begin + WITH_CARE * (turn.end_s - begin))
    _tried(turn, target, quick_input_of, "quick", turn.end_s)


def _tried(turn: Slice, target: Target, makes: InputOf, how: str, end_s: float) -> None:
    """Inputs of one sort until then; every few seconds what was found since is written."""
    trial = Trial(target, turn.seed, turn.folder)
    number = 0
    with trial.watched():
        while (begin := time.monotonic()) < end_s:
            until = min(end_s, begin + TOLD_EVERY_S)
            while time.monotonic() < until:
                data = makes(target, turn.seed, number)
                problem = trial.one(data, number)
                if problem and trial.tally.failures[problem] == [number]:
                    _fell(turn, how, number, problem, data)
                number += 1
            trial.tally.peak_bytes = _resident_bytes()
            _tell(turn.out, shown(trial.tally) | {"how": how, "seconds": time.monotonic() - begin})
            trial.tally = Tally(target.name, turn.seed, failures=trial.tally.failures)
            if _resident_bytes() > MOST_RESIDENT_BYTES:
                return


def _ended(turn: Slice, code: int) -> None:
    """A process that did not end by itself: the input is the one that lies in its file."""
    file = turn.folder / TARGETS[turn.reader].file
    if code:
        problem = f"the process ended with {code}"
        _fell(turn, "", -1, problem, file.read_bytes() if file.exists() else b"")
        _tell(turn.out, {
            "reader": turn.reader, "seed": turn.seed, "how": "quick", "tried": 1, "refused": 0,
            "failed": 1, "failures": {problem: {"count": 1, "inputs": []}},
            "slowest_s": 0.0, "slowest": -1, "peak_bytes": 0, "seconds": 0.0,
        })  # fmt: skip
    for path in turn.folder.iterdir():
        if path.is_file():
            path.unlink()


def _tell(out: Path, found: dict[str, Any]) -> None:
    with (out / "tallies.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


def _fell(turn: Slice, how: str, number: int, problem: str, data: bytes) -> None:
    line = {"reader": turn.reader, "seed": turn.seed, "how": how, "number": number}
    line |= {"problem": problem, "base64": base64.b64encode(data).decode()}
    with (turn.out / "failures.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


_NOTHING = dict.fromkeys(("tried", "refused", "failed", "seconds", "slowest_s", "peak_bytes"), 0)


def summed(out: Path) -> int:
    """Write the sums of `tallies.jsonl` to `results.jsonl`; the number of failures."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    told = out / "tallies.jsonl"
    for line in told.read_text("utf-8").splitlines() if told.exists() else ():
        part = json.loads(line)
        into = sums.setdefault((part["reader"], part["how"]), {**part, **_NOTHING, "failures": {}})
        for key in ("tried", "refused", "failed", "seconds"):
            into[key] += part[key]
        into["peak_bytes"] = max(into["peak_bytes"], part["peak_bytes"])
        if part["slowest_s"] > into["slowest_s"]:
            into["slowest_s"], into["slowest"] = part["slowest_s"], part["slowest"]
            into["slowest_seed"] = part["seed"]
        for problem, found in part["failures"].items():
            kept = into["failures"].setdefault(problem, {"count": 0})
            kept["count"] += found["count"]
    partial = out / "results.jsonl.partial"
    partial.write_text("".join(json.dumps(sums[key]) + "\n" for key in sorted(sums)), "utf-8")
    partial.replace(out / "results.jsonl")
    return sum(int(each["failed"]) for each in sums.values())


def _resident_bytes() -> int:
    import resource

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
