"""At any moment as likely as at any other."""

from __future__ import annotations

import numpy as np

from gpuscope.document.text import Text
from gpuscope.serving.arrivals import Load, at_gaps
from gpuscope.serving.requests import Floats


def gaps_s(load: Load, random: np.random.Generator) -> Floats:
    """Exponential."""
    return random.exponential(1 / load.rate_per_s, load.count)


KIND = at_gaps(Text("Poisson"), gaps_s)
