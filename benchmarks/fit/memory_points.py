"""The recorded micro-benchmarks of memory-bound calls, as operators that a model can cost.

Each recorded point becomes the operators that the measured call ran, with the L2 state it was
measured in; what was measured is the sum of the call's device events. Calls of several operators
(a composed norm) become several.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuscope.measurement.calibrate.memory_operators import BUILDERS
from gpuscope.program.types import Op

DATA = Path(__file__).resolve().parents[2] / "validation/recordings/h200/micro"
L2_BYTES = 0.75 * 62_914_560
"""What the engine takes as usable L2 of an H200."""

FILES = {
    "pointwise": "pointwise",
    "working_set": "pointwise",
    "reduction": "reduction",
    "image_reduction": "reduction",
    "gather": "gather",
    "optimizer": "optimizers",
    "transfer": "transfers",
    "rnn": "recurrent",
}
"""Family of points -> recording."""

Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """One recorded call.

    Attributes:
        family: recording it is from.
        params: as recorded.
        state: "hot" or "cold".
        ops: what it ran.
        seconds: all device events of it together.
    """

    family: str
    params: Params
    state: str
    ops: tuple[Op, ...]
    seconds: float

    @property
    def held_out(self) -> bool:
        """Whether the point judges the fit (half of them, by a stable hash)."""
        key = f"{self.family}{json.dumps(self.params, sort_keys=True)}"
        return zlib.crc32(key.encode()) % 2 == 1

    def hot(self, op: Op) -> tuple[bool, ...]:
        """Which inputs the engine would take to be in L2."""
        if self.state != "hot":
            return (False,) * len(op.inputs)
        held = sum({s.storage: s.touched_bytes for s in (*op.inputs, *op.outputs)}.values())
        return tuple(held + spec.touched_bytes <= L2_BYTES for spec in op.inputs)


def measured() -> Iterator[Measured]:
    """Every recorded call that some operators stand for."""
    for path in sorted(set(FILES.values())):
        totals: dict[tuple[str, str, str], float] = defaultdict(float)
        with gzip.open(DATA / f"{path}.csv.gz", "rt") as stream:
            for row in csv.DictReader(stream):
                key = row["bench"], row["params"], row["state"]
                totals[key] += float(row["median_us"]) * int(row["count"]) * 1e-6
        for (bench, params, state), seconds in totals.items():
            if bench not in BUILDERS:
                continue
            ops = BUILDERS[bench](json.loads(params))
            if ops:
                yield Measured(bench, json.loads(params), state, ops, seconds)
