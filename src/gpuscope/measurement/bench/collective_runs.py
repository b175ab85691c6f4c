"""Starts the ranks of the collectives' bench, and reads what they wrote.

A process that torchrun started is one of the ranks; any other starts torchrun itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuscope import children
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError

WORKER = "gpuscope.measurement.bench.collective_worker"
_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class CollectiveSample:
    """One collective, timed.

    Attributes:
        operation: see `collective_calls.OPERATIONS`.
        ranks: in the group.
        size_bytes: of the whole message.
        state: "queued" (device only), "loop" (a plain loop).
        seconds: one figure a repetition, of the slowest rank, each a mean over `calls`.
        calls: in one repetition.
        beside: of what, when something ran beside it: "collective" beside a matrix product, or
            "product", that product's own seconds; "" when alone.
        alone_s: seconds of the same work alone, where `beside`.
    """

    operation: str
    ranks: int
    size_bytes: int
    state: str
    seconds: tuple[float, ...]
    calls: int = 1
    beside: str = ""
    alone_s: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveRun:
    """What all ranks together found.

    Attributes:
        samples: in the order of measuring.
        facts: backend, versions, environment variables that steer NCCL.
        failures: "operation, ranks, bytes: reason".
    """

    samples: tuple[CollectiveSample, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def under_torchrun() -> bool:
    """Whether this process is one rank of several."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def join_as_rank(only: tuple[str, ...] | None, device: str | None, *, quick: bool) -> bool:
    """Take part in the collectives as one of torchrun's ranks other than the first.

    The first rank runs every bench and saves; the others have work in this one only.

    Args:
        only: names of benches that were asked for; None for all.
        device: as asked for; "cpu" takes Gloo.
        quick: as the first rank.

    Returns:
        whether this process is such a rank, and has nothing more to do.
    """
    if not under_torchrun() or os.environ["RANK"] == "0":
        return False
    if only is None or "collectives" in only:
        from gpuscope.measurement.bench import collective_worker

        kind = "cpu" if device == "cpu" else "cuda"
        collective_worker.main(arguments(Path(os.devnull), kind, quick=quick))
    return True


def run_ranks(
    ranks: int,
    device: str,
    *,
    quick: bool,
    largest_bytes: int | None = None,
    timeout_s: float = _LONGEST_S,
) -> CollectiveRun:
    """Measure with `ranks` processes that torchrun starts here.

    Args:
        ranks: processes, one a device; two or more.
        device: "cuda" (NCCL) or "cpu" (Gloo).
        quick: fewer sizes, the largest group only.
        largest_bytes: of a message; 1 GiB by default, 4 MiB on a CPU.
        timeout_s: after which the ranks are stopped; what they wrote by then is kept.

    Raises:
        InvalidValueError: fewer than two ranks.
        GpuscopeError: torchrun failed before anything was measured.
    """
    if ranks < 2:
        raise InvalidValueError(
            Text("Collectives need two ranks, not {ranks}.", ranks=ranks),
            "",
            Text("Type: gpuscope bench --gpus 2"),
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "collectives.jsonl"
        given = arguments(out, device, quick=quick, largest_bytes=largest_bytes)
        command = children.torchrun(ranks, WORKER, *given)
        problem = _run(command, timeout_s)
        if out.exists():
            found = read_rows(out)
            if found.samples:
                extra = (problem,) if problem else ()
                return CollectiveRun(found.samples, found.facts, (*found.failures, *extra))
    raise GpuscopeError(
        Text("The collectives could not be measured."),
        problem or Text("The ranks wrote nothing."),
        Text("Type: torchrun --nproc-per-node 2 -m gpuscope bench --only collectives"),
    )


def arguments(
    out: Path, device: str, *, quick: bool, largest_bytes: int | None = None
) -> list[str]:
    """Arguments of `collective_worker.main`."""
    largest = largest_bytes or (1 << 22 if device == "cpu" else 1 << 30)
    given = ["--out", str(out), "--device", device, "--largest", str(largest)]
    return [*given, "--quick"] if quick else given


def _run(command: list[str], timeout_s: float) -> str:
    """What went wrong, "" for nothing."""
    environment = {"OMP_NUM_THREADS": "1", **children.environment()}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        return Text("The ranks were stopped after {timeout}.", timeout=Seconds(timeout_s))
    except KeyboardInterrupt:
        process.terminate()
        process.communicate()
        raise
    if not process.returncode:
        return ""
    lines = [line for line in errors.splitlines() if "Error" in line]
    if lines:
        return lines[0].strip()[:300]
    return Text("torchrun ended with {code}.", code=process.returncode)


def read_rows(path: Path) -> CollectiveRun:
    """What the ranks wrote; a last line that is cut off is left out.

    Raises:
        InputFileError: missing, or no line of it is a measurement.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputFileError(Text("{path} cannot be read.", path=path.name), str(error)) from error
    samples: list[CollectiveSample] = []
    failures: list[str] = []
    facts: dict[str, Any] = {}
    for line in lines:
        try:
            row = json.loads(line)
            if row.get("facts"):
                facts = {k: v for k, v in row.items() if k not in ("facts", "bench")}
            elif "failed" in row:
                where = f"{row['operation']}, {row['ranks']} ranks, {row.get('bytes', '?')} bytes"
                failures.append(f"{where}: {row['failed']}")
            else:
                samples.append(_sample(row))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    if not samples and not facts:
        raise InputFileError(Text("{path} holds no measurement of a collective.", path=path.name))
    return CollectiveRun(tuple(samples), facts, tuple(failures))


def _sample(row: dict[str, Any]) -> CollectiveSample:
    return CollectiveSample(
        str(row["operation"]),
        int(row["ranks"]),
        int(row["bytes"]),
        str(row["state"]),
        tuple(float(s) for s in row["seconds"]),
        int(row.get("calls", 1)),
        str(row.get("what", "")),
        row.get("alone_s"),
    )
