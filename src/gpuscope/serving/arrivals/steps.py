"""Poisson at one rate after the other; the last one goes on until all requests have come.

steps:2x30,8x30     two requests a second for 30 s, then eight
"""

from __future__ import annotations

import re

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.arrivals import Kind, Load
from gpuscope.serving.requests import Floats, Ints, Requests

_STEP = re.compile(r"^(\d*\.?\d+)x(\d*\.?\d+)$")


def parse_steps(text: str) -> list[tuple[float, float]]:
    """Requests a second, and how many seconds, of each step of "steps:2x30,8x30".

    Raises:
        InvalidValueError: something else.
    """
    steps = [_STEP.match(part) for part in text.removeprefix("steps:").split(",")]
    rates = [(float(s[1]), float(s[2])) for s in steps if s]
    if len(rates) != len(steps) or any(rate <= 0 or lasts <= 0 for rate, lasts in rates):
        raise InvalidValueError(
            Text("'{steps}' are no steps.", steps=text),
            Text("A step is a rate in requests per second, 'x', and its seconds."),
            Text("Type: --arrivals steps:2x30,8x30"),
        )
    return rates


def times_s(steps: list[tuple[float, float]], count: int, random: np.random.Generator) -> Floats:
    """Of arrivals: those at unit rate, on a clock that runs as fast as the rate of the moment."""
    unit = np.cumsum(random.exponential(1.0, count))
    ends = np.cumsum([rate * lasts for rate, lasts in steps])
    starts_s = np.cumsum([0.0, *(lasts for _, lasts in steps)])
    which = np.minimum(np.searchsorted(ends, unit), len(steps) - 1)
    begun = np.concatenate(([0.0], ends))[which]
    pace = np.array([rate for rate, _ in steps])[which]
    return np.asarray(starts_s[which] + (unit - begun) / pace, np.float64)


def _make(load: Load, inputs: Ints, outputs: Ints, random: np.random.Generator) -> Requests:
    times = times_s(parse_steps(load.arrivals), load.count, random)
    return Requests(times, inputs, outputs, name=load.arrivals)


KIND = Kind(make=_make, form="steps:2x30,8x30", rated=False)
