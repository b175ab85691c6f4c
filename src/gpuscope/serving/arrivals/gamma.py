"""In bursts, or more evenly than Poisson, as `burstiness` has it."""

from __future__ import annotations

import numpy as np

from gpuscope.document.text import Text
from gpuscope.serving.arrivals import Load, at_gaps
from gpuscope.serving.requests import Floats


def gaps_s(load: Load, random: np.random.Generator) -> Floats:
    """Gamma; their squared coefficient of variation is the burstiness."""
    shape = 1 / load.burstiness
    return random.gamma(shape, 1 / (load.rate_per_s * shape), load.count)


KIND = at_gaps(Text("gamma"), gaps_s)
