"""Ready-made parallel decoders: plans measured on two H200s, predicted from the same words.

`benchmarks/parallel_decoders.py` measured them (`recordings/h200/parallel-2.jsonl`); no constant
was fitted to any. Of memory only the first line counts: what earlier plans had allocated was not
given back before the later ones.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "validation" / "recordings" / "h200" / "parallel-2.jsonl"
MEMORY_OF_LINES = 1
"""Lines from the first on whose peak of memory is that of their plan alone."""

Found = dict[str, Any]


def recorded() -> list[Found]:
    """The lines, each with whether its memory counts."""
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return [{**line, "memory_counts": n < MEMORY_OF_LINES} for n, line in enumerate(lines)]


def name_of(line: Found) -> str:
    """A plan in one line, as a user would type it."""
    words = [line["model"].replace("llama-3.1-8b", "llama"), f"{line['blocks']} blocks"]
    words += [f"{k}={_word(v)}" for k, v in {**line["plan"], **line["software"]}.items()]
    return " ".join(words)


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def options_of(line: Found) -> Any:
    """The workload's options that say the same as the measured job."""
    from gpuscope.program.models.parallel.options import ParallelOptions, Software
    from gpuscope.program.workload import WorkloadOptions

    plan, software = dict(line["plan"]), dict(line["software"])
    each, microbatches = plan.pop("microbatch", 1), plan.pop("microbatches", 1)
    attention = software.pop("attention", None)
    known = {f.name for f in fields(ParallelOptions)} - {"software"}
    assert set(plan) <= known, set(plan) - known
    parallel = ParallelOptions(
        **plan,
        microbatch=each,
        global_batch=each * microbatches * plan.get("dp", 1),
        software=Software(**software),
    )
    return WorkloadOptions(
        task="train",
        seq=line["tokens"],
        layers=line["blocks"],
        attention=attention,
        parallel=parallel,
    )


def captured(line: Found, on: str) -> Any:
    """Every rank that differs."""
    from gpuscope.api import capture_job, resolve_target

    return capture_job(line["model"], resolve_target(on), options_of(line), False)
