"""One program in a process of its own: captured, predicted, run for real, compared."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from validation.corpus.case import Case

TARGET = "h200"
LIMIT_S = 60.0
KERNEL = 0
DIFFERENCES = 6
PATH = re.compile(r"(?<![\w.:/~])(?:/[\w.+@~-]+){2,}")
HERE = Path(__file__).resolve().parents[2]

Row = dict[str, Any]


def without_machine(told: Any) -> Any:
    """The same without this machine's paths: from the corpus or site-packages on, else the name."""
    if isinstance(told, dict):
        return {key: without_machine(value) for key, value in told.items()}
    if isinstance(told, list):
        return [without_machine(value) for value in told]
    return PATH.sub(_from_a_root, told) if isinstance(told, str) else told


def _from_a_root(path: re.Match[str]) -> str:
    roots = {str(HERE), *(each for each in sys.path if each.endswith("-packages"))}
    for root in sorted(roots, key=len, reverse=True):
        if path[0].startswith(root + "/"):
            return path[0][len(root) + 1 :]
    return path[0].rpartition("/")[2]


def followed(case: Case) -> Row:
    """What gpuscope makes of a program: figures, or what it said."""
    import gpuscope as gs
    from gpuscope.errors import GpuscopeError

    began = time.perf_counter()
    row: Row = {"captured": False, "predicted": False}
    try:
        program = gs.capture(lambda: case.build("cuda"))
        row |= {"captured": True, "ops": len(program.ops)}
        row |= {"unknown": list(program.unsupported), "capture_s": _since(began)}
        run = gs.predict(program, on=TARGET)
        row |= {
            "predicted": True,
            "step_s": run.step_time_s,
            "interval_s": run.step_time_interval_s,
            "launches": int((run.timeline.events.kind == KERNEL).sum()),
            "launches_by": _launches_by(run.timeline.events, program),
            "peak_bytes": run.peak_memory_bytes,
        }
    except GpuscopeError as error:
        texts = [error.what, error.why, error.next_step]
        row["said"] = [str(text) for text in texts]
    except BaseException as error:
        row["crash"] = f"{type(error).__name__}: {error}"[:400]
        row["where"] = traceback.format_exc().splitlines()[-4:]
    row["seconds"] = _since(began)
    if row["captured"]:
        row["program"] = program
    return row


def _launches_by(events: Any, program: Any) -> dict[str, int]:
    """Kernels of a step by the captured operator that launches them."""
    places = events.op[events.kind == KERNEL].tolist()
    return dict(Counter(program.ops[at].name if at >= 0 else "" for at in places))


def compared(case: Case, program: Any) -> Row:
    """The same program for real on the CPU, and where the captured operators differ."""
    from validation.corpus import faithful

    began = time.perf_counter()
    try:
        real = faithful.real_calls(case.build)
    except BaseException as error:
        return {"real": f"{type(error).__name__}: {error}"[:400]}
    row: Row = {"real": "", "real_s": _since(began)}
    if program is not None:
        apart = faithful.difference(faithful.captured_calls(program), real)
        missed = {which: calls[:DIFFERENCES] for which, calls in apart.items() if calls}
        row |= {"calls": sum(real.values()), "equal": not missed, "apart": missed}
    return row


def in_child(case: Case, limit_s: float = LIMIT_S, real: bool = True) -> Row:
    """Both, in a forked process: a crash or a hang there is a row, not ours."""
    row: Row = {"name": case.name, "family": case.family}
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _silenced(lambda: _both(case, write, real))
        os._exit(0)
    os.close(write)
    ended = _lines(read, pid, limit_s, row)
    os.close(read)
    status = os.waitpid(pid, 0)[1]
    if "seconds" not in row:
        row |= {"captured": False, "predicted": False, "seconds": ended}
        row["crash"] = (
            f"no answer within {limit_s:.0f} s"
            if status == signal.SIGKILL
            else (f"ended by signal {status & 127}")
        )
    elif real and "real" not in row:
        row["real"] = f"no answer within {limit_s:.0f} s"
    return row


def _both(case: Case, write: int, real: bool) -> None:
    row = followed(case)
    program = row.pop("program", None)
    if real:
        row.pop("launches_by", None)
    os.write(write, _line(row))
    if real:
        os.write(write, _line(compared(case, program)))


def _line(row: Row) -> bytes:
    return (json.dumps(without_machine(row)) + "\n").encode()


def _lines(read: int, pid: int, limit_s: float, row: Row) -> float:
    """Take a child's lines into the row; each must come within the limit."""
    began = started = time.perf_counter()
    kept = b""
    while True:
        left = limit_s - (time.perf_counter() - started)
        ready, _, _ = select.select([read], [], [], max(left, 0))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
        some = os.read(read, 65536)
        if not some:
            break
        kept += some
        while b"\n" in kept:
            line, _, kept = kept.partition(b"\n")
            row |= json.loads(line)
            started = time.perf_counter()
    return _since(began)


def _silenced(work: Callable[[], None]) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    work()


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


def append(file: Path, row: Row) -> None:
    """Keep a row at once, so that an interrupted run goes on where it stopped."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
