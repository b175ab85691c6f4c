"""The published rows: facts and their source, one a line of `rows.jsonl`."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured run, as its source states it; None where it says nothing.

    Attributes:
        id: short name, unique.
        source, ref: who measured it, and where it is written.
        kind: training, finetuning or inference.
        model, hardware: as printed.
        devices: accelerators of the job.
        seq: tokens of a sequence.
        global_batch: sequences of a step of the whole job.
        micro_batch: sequences of a replica at a time.
        tp, pp, dp, cp, ep: ranks of each kind of parallelism.
        virtual: stages that a pipeline rank holds.
        microbatches: of a replica in a step.
        schedule: of the pipeline.
        params: of the model, as printed ("529.6B").
        shape: layers, hidden, heads and vocabulary, where the source gives them.
        task: what a fine-tuning does.
        release: version of the software.
        sharding, precision, recompute: as printed.
        quantity, value, unit: what was measured.
        tokens_per_step: of the whole job.
        step_time_s: where it was logged beside the quantity.
        said: the rest that matters, as printed.
        scheme, model_parallel: of the comparison of Megatron with ZeRO-3.
        system: name of the machine in a log.
    """

    id: str
    source: str
    ref: str
    kind: str
    model: str
    hardware: str
    quantity: str
    value: float
    unit: str
    devices: int | None = None
    seq: int | None = None
    global_batch: int | None = None
    micro_batch: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None
    virtual: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    params: str | None = None
    shape: tuple[int, ...] | None = None
    task: str | None = None
    release: str | None = None
    sharding: str | None = None
    precision: str | None = None
    recompute: str | None = None
    tokens_per_step: int | None = None
    step_time_s: float | None = None
    said: str | None = None
    scheme: str | None = None
    model_parallel: int | None = None
    system: str | None = None


def read_rows(path: Path = HERE / "rows.jsonl") -> tuple[Row, ...]:
    """All rows, in the order of the file.

    Raises:
        ValueError: a line that is no row, or an id that comes twice.
    """
    known = {field.name for field in fields(Row)}
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        values = json.loads(line)
        if unknown := set(values) - known:
            raise ValueError(f"{path.name}, line {number}: unknown {sorted(unknown)}")
        if "shape" in values:
            values["shape"] = tuple(values["shape"])
        rows.append(Row(**values))
    if len({row.id for row in rows}) != len(rows):
        raise ValueError(f"{path.name}: an id comes twice")
    return tuple(rows)
