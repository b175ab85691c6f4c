"""A Triton kernel whose block needs more than the device has."""

from __future__ import annotations

from gpuscope.document.blocks import Fact
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Diagnosis


def read_out_of_resources(log: Log) -> Diagnosis | None:
    """Read a Triton kernel whose block needs more than the device has."""
    found = log.search(
        r"out of resources?: (?P<what>[\w ]+?), Required: (?P<need>\d+),[ ,]*Hardware "
        r"limit\w*: (?P<have>\d+)"
    )
    if found is None:
        return None
    need, have = int(found["need"]), int(found["have"])
    shared = "shared" in found["what"]
    unit = "bytes" if shared or "memory" in found["what"] else "count"
    return Diagnosis(
        "triton_out_of_resources",
        Text("A Triton kernel needs too much {what}", what=found["what"]),
        Text(
            "Its block needs {need} times what this device gives one block. Block sizes and "
            "num_stages were chosen for a larger device.",
            need=Number(need / have, ".2f"),
        ),
        "certain",
        (
            Text(
                "Lower num_stages first (shared memory grows in step with it), then BLOCK_M, "
                "BLOCK_N or BLOCK_K; with autotune add smaller configurations."
            ),
            Text("In a library: update it, or choose another attention or quantization backend."),
        ),
        log.line_of(found),
        30,
        (Fact(Text("needed"), float(need), unit), Fact(Text("the device has"), float(have), unit)),
        commands=(
            (f"gpuscope explain occupancy --threads 256 --shared {need} --on h200",)
            if shared
            else ()
        ),
        sources=("triton-lang/triton, runtime/errors.py.",),
    )
