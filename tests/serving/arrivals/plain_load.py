"""A load whose arrivals a test chooses."""

from __future__ import annotations

from gpuscope.program.lengths import parse_lengths
from gpuscope.serving.arrivals import Load

LOAD = Load(
    input=parse_lengths("100..300"), output=parse_lengths("lognormal:200,0.8"), count=20_000,
    rate_per_s=8.0,
)  # fmt: skip
