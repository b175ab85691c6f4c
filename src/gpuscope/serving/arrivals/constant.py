"""Evenly spaced."""

from __future__ import annotations

import numpy as np

from gpuscope.document.text import Text
from gpuscope.serving.arrivals import Load, at_gaps
from gpuscope.serving.requests import Floats


def gaps_s(load: Load, random: np.random.Generator) -> Floats:
    """All alike; nothing is drawn."""
    return np.full(load.count, 1 / load.rate_per_s)


KIND = at_gaps(Text("evenly spaced"), gaps_s)
