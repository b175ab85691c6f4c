"""Collectives over all devices of this host: right results and bus bandwidth.

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_collectives`). Starts one
process a device (`deep_collective_rank`) and ends all of them when the time is up: a collective
that hangs is one of the things to be found. The switches' own additions (NVLink SHARP) are left
out unless NCCL_NVLS_ENABLE asks for them: they need a fabric that not every container is given.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope import children
from gpuscope.doctor.probes.deep_devices import Json, answer, say, sent
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 120.0
RANKS_S = 90.0
RANK = "gpuscope.doctor.probes.deep_collective_rank"
_GRACE_S = 3.0


def environment(rank: int, ranks: int, port: int, given: Mapping[str, str]) -> dict[str, str]:
    """What one rank gets.

    Args:
        rank: its number.
        ranks: how many there are.
        port: of the first rank's store.
        given: this process's environment.
    """
    own = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    # A launcher around us must not be taken for the launcher of these ranks.
    outside = {k: v for k, v in given.items() if not k.startswith("TORCHELASTIC_")}
    return {"NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "1", **outside, **own}


def run_ranks(ranks: int, device: str, *, size_bytes: int, limit_s: float) -> Json:
    """Start the ranks, wait for them, and gather what they found.

    Args:
        ranks: how many processes, one a device.
        device: "cuda" or "cpu".
        size_bytes: of the message that is timed.
        limit_s: seconds after which they are ended.

    Returns:
        `ranks`; `ranks_error` of the first rank that failed, or null; after a hang `stages`, the
        last one of each rank, or null; `wrong` elements by collective and rank; `times` by
        collective; `facts`.
    """
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        outs = [Path(folder) / f"rank{n}.jsonl" for n in range(ranks)]
        errors = [Path(folder) / f"rank{n}.err" for n in range(ranks)]
        port = _free_port()
        processes = []
        try:
            for rank in range(ranks):
                with errors[rank].open("w") as err:
                    processes.append(
                        subprocess.Popen(
                            children.python(RANK, str(outs[rank]), device, str(size_bytes)),
                            env=environment(rank, ranks, port, children.environment()),
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=err,
                        )
                    )
            late = _wait(processes, limit_s)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        rows = [_rows(path) for path in outs]
        found = gathered(rows)
        if late:
            found["stages"] = {str(n): _sent(rows[n]) for n in range(ranks)}
        failed = [n for n, each in enumerate(processes) if each.returncode not in (0, None)]
        if failed and not late:
            found["ranks_error"] = _why(failed, rows, errors)
        return {"ranks": ranks, "stages": None, "ranks_error": None, **found}


def _wait(processes: list[subprocess.Popen[bytes]], limit_s: float) -> bool:
    """Whether time ran out. When one rank fails the others wait for it in vain: they get little
    time then, which is no hang of theirs."""
    deadline = time.perf_counter() + limit_s
    while any(each.poll() is None for each in processes):
        if any(each.returncode not in (0, None) for each in processes):
            time.sleep(_GRACE_S)
            return False
        if time.perf_counter() > deadline:
            return True
        time.sleep(0.05)
    return False


def gathered(rows: list[list[Json]]) -> Json:
    """Put what the ranks wrote together.

    Args:
        rows: of each rank, in order.
    """
    wrong: dict[str, dict[str, int]] = {}
    times: dict[str, Json] = {}
    facts: Json = {}
    for rank, lines in enumerate(rows):
        for row in lines:
            if "wrong" in row:
                wrong.setdefault(row["operation"], {})[str(rank)] = int(row["wrong"])
            elif "seconds" in row:
                times[row["operation"]] = {k: v for k, v in row.items() if k != "operation"}
            elif row.get("facts"):
                facts = {k: v for k, v in row.items() if k != "facts"}
    return {"wrong": wrong, "times": times, "facts": facts}


def _rows(path: Path) -> list[Json]:
    if not path.exists():
        return []
    found = []
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # cut off when the rank was ended
            continue
    return found


def _sent(rows: list[Json]) -> Json:
    starting = sent(Text("starting"))
    return next((row["stage"] for row in reversed(rows) if "stage" in row), starting)


def _stage(rows: list[Json]) -> str:
    stage = _sent(rows)
    return str(stage["template"]).format(**stage["values"])


def _why(failed: list[int], rows: list[list[Json]], errors: list[Path]) -> str:
    """The reason that the first failed rank with one gives."""
    for rank in failed:
        lines = [line.strip() for line in errors[rank].read_text("utf-8", "replace").splitlines()]
        known = [line for line in lines if "Error" in line and not line.startswith("File")]
        if known:
            return f"rank {rank}, {_stage(rows[rank])}: {known[-1]}"[:500]
    return f"rank {failed[0]} ended while {_stage(rows[failed[0]])}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def collectives(accelerators: list[Accelerator]) -> Json:
    """Test the collectives over all devices; nothing with fewer than two."""
    if len(accelerators) < 2 or accelerators[0].kind != "cuda":
        return {"ranks": len(accelerators)}
    say(Text("collectives over {count} devices", count=len(accelerators)))
    return run_ranks(len(accelerators), "cuda", size_bytes=1 << 28, limit_s=RANKS_S)


if __name__ == "__main__":
    answer(collectives, limit_s=LIMIT_S)
