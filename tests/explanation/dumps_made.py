"""Makes dumps as FlightRecorder.hpp (version 2.10) has them, with the states that NCCL notes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

START_NS = 1_795_000_000_000_000_000


def entry(number: int, state: str, **other: Any) -> dict[str, Any]:
    """One call of all_reduce; `other` replaces fields."""
    began = None if state == "scheduled" else START_NS + number * 1000 + 10
    ended = START_NS + number * 1000 + 20 if state == "completed" else None
    return {
        "frames": [
            {
                "name": "all_reduce",
                "line": 9,
                "filename": "/e/site-packages/torch/distributed/distributed_c10d.py",
            },
            {"name": "step", "line": 40, "filename": "/home/user/train.py"},
        ],
        "record_id": number - 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": START_NS + number * 1000,
        "input_sizes": [[8, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8, 4]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": began,
        "time_discovered_completed_ns": ended,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": False,
    } | other


def calls(states: str, **other: Any) -> list[dict[str, Any]]:
    """Calls 1, 2, ... in these states: c(ompleted), s(cheduled), b(egun)."""
    names = {"c": "completed", "s": "scheduled", "b": "started"}
    return [entry(number, names[state], **other) for number, state in enumerate(states, 1)]


def p2p(number: int, name: str, state: str = "started") -> dict[str, Any]:
    """A send or receive, e.g. "send 0->1"."""
    return entry(number, state, is_p2p=True, p2p_seq_id=number, profiling_name=f"nccl:{name}")


def write(
    folder: Path,
    ranks: dict[int, list[dict[str, Any]]],
    world: int,
    version: str = "2.10",
    groups: dict[str, str] | None = None,
) -> Path:
    """Write one pickle a rank, as PyTorch names and pickles it."""
    folder.mkdir(exist_ok=True)
    named = groups or {"0": str(list(range(world)))}
    config = {name: {"name": name, "desc": "pg", "ranks": told} for name, told in named.items()}
    for rank, entries in ranks.items():
        dump = {"version": version, "pg_config": config, "pg_status": {}, "entries": entries}
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    return folder
