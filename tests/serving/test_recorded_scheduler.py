"""vLLM's policy beside a real vLLM: the same requests, batch by batch (validation/recordings)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fresh import served

from gpuscope.serving.engine import engine
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Limits

FILE = Path(__file__).parents[2] / "validation" / "recordings" / "serving" / "vllm_cpu.jsonl.gz"

Run = tuple[dict[str, Any], list[dict[str, Any]]]


NO_WAY_IN: dict[str, Any] = {"request_s": 0.0, "accept_s": 0.0, "accept_token_s": 0.0}
"""Of requests that are handed over in the engine's own process."""


def _runs() -> Iterator[Run]:
    found: list[Run] = []
    with gzip.open(FILE, "rt") as file:
        for line in file:
            row = json.loads(line)
            if "run" in row:
                found.append((row, []))
            else:
                found[-1][1].append(row)
    yield from found


def _ours(head: dict[str, Any]) -> Record:
    settings, columns = head["settings"], head["requests"]
    asked = Requests(
        np.zeros(len(columns["prefix"])),
        np.array(columns["input_tokens"]),
        np.array(columns["output_tokens"]),
        prefix=np.array(columns["prefix"]),
        prefix_tokens=np.array(columns["prefix_tokens"]),
    )
    room = Limits(
        max_tokens=settings["max_num_batched_tokens"],
        max_sequences=settings["max_num_seqs"],
        chunked=settings["enable_chunked_prefill"],
        reserve=1.0,
        kv_blocks=settings["num_gpu_blocks"] - 1,  # vLLM keeps one that nobody gets
        block_tokens=settings["block_size"],
    )
    return served(asked, replace(engine("vllm"), **NO_WAY_IN), room, lambda *sums: 1.0)


def _batches(record: Record) -> list[tuple[int, int]]:
    """(prompt tokens, sequences that decode) of each iteration."""
    return [(row[4] if at == 0 else 0, row[5]) for row in record.each() for at in range(row[1])]


@pytest.mark.parametrize("run", list(_runs()), ids=lambda run: run[0]["run"])
def test_batches_are_those_of_a_real_engine(run: Run) -> None:
    head, rows = run
    record = _ours(head)
    ours = _batches(record)
    theirs = [(sum(row["prefill"].values()), len(row["decode"])) for row in rows]
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    assert same >= 0.98 * max(len(ours), len(theirs))
    assert sum(record.preemptions) == pytest.approx(head["preemptions"], rel=0.05)
    assert sum(record.cached) == pytest.approx(head["prefix_hit_tokens"], rel=0.01)
