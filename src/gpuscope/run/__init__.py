"""`Run`, one type for a predicted and a measured run, and the file that it is saved in.

`types` says what a run is, `figures` what follows from it; `document` writes it as plain data
(docs/json.md), `reader` makes a run of that again.
"""

from gpuscope.run.types import (
    SCHEMA_VERSION,
    Basis,
    JobPlace,
    Measurement,
    RankResult,
    Refused,
    Remedy,
    Run,
)

__all__ = [
    "SCHEMA_VERSION",
    "Basis",
    "JobPlace",
    "Measurement",
    "RankResult",
    "Refused",
    "Remedy",
    "Run",
]
