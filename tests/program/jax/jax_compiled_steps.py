"""Steps that jax 0.10.2 and its CUDA plugin compiled for an H200 without one; see each's code."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

from gpuscope.program.jax.compiling import Compiled
from gpuscope.program.jax.executable import as_program
from gpuscope.program.jax.lowering import Argument, Lowered
from gpuscope.program.types import Program

DATA = Path(__file__).with_name("data")

STEPS = ("loop", "images", "attention", "sharded")
"""`loop`: gradient and update of six tanh(h @ w) in a scan, [6, 512, 512] donated, 256 rows.
`images`: relu(conv(x, w)), 3 x 3, stride 2, 64 to 128 channels, 8 images of 56 x 56, NHWC.
`attention`: gradient for q of cuDNN's causal attention, [2, 256, 8, 64].
`sharded`: gradient and update of (x @ w)^2, x [4096, 1024] over two devices."""


@cache
def compiled_step(name: str) -> tuple[Compiled, Lowered]:
    """What XLA made of a step, and what it was made from."""
    read = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    sizes = (read[f"{each}_bytes"] for each in ("argument", "output", "alias", "temp"))
    arguments = tuple(Argument(*each) for each in read["arguments"])
    lowered = Lowered(name, b"", arguments, read["devices"], read["results"])
    return Compiled(read["hlo"], *sizes), lowered


@cache
def program(name: str) -> Program:
    """The step as a program."""
    return as_program(*compiled_step(name), name)
