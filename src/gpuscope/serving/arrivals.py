"""When requests come: Poisson, gamma, constant, steps, turns, or in a closed loop. Seeded.

The same seed gives the same requests to the simulator and to the load client: arrivals, prompts'
and answers' lengths are drawn from streams of their own (PCG64 seeded with the seed and 1, 2, 3),
so that another rate keeps the lengths.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.lengths import Lengths
from gpuscope.serving.conversations import PREFIX as CONVERSATIONS
from gpuscope.serving.conversations import converse
from gpuscope.serving.requests import Floats, Requests, in_flight

MOST_REQUESTS = 10_000_000
"""That are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A made-up load.

    Attributes:
        input, output: lengths.
        count: requests.
        rate_per_s: on average; 0 in a closed loop.
        arrivals: "poisson", "gamma", "constant", steps as "steps:2x30,8x30" (rate x seconds), or
            conversations as "conversations:5x20" (turns x seconds between them).
        burstiness: of gamma arrivals, the squared coefficient of variation; 1 is Poisson.
        concurrency: closed loop with that many places; 0: open loop.
        shared_tokens: of each prompt's beginning that it shares with others.
        shared_groups: how many such beginnings there are.
        seed: of all that is drawn.
    """

    input: Lengths
    output: Lengths
    count: int
    rate_per_s: float = 0.0
    arrivals: str = "poisson"
    burstiness: float = 1.0
    concurrency: int = 0
    shared_tokens: int = 0
    shared_groups: int = 1
    seed: int = 0


def make_requests(load: Load) -> Requests:
    """The requests of a load.

    Raises:
        InvalidValueError: a rate, count or concurrency that cannot be.
        UnknownNameError: no such kind of arrivals.
    """
    _check(load)
    drawn = [np.random.Generator(np.random.PCG64([load.seed, n])) for n in (1, 2, 3, 4)]
    inputs = load.input.draw(load.count, drawn[1])
    outputs = load.output.draw(load.count, drawn[2])
    if load.arrivals.startswith(CONVERSATIONS):
        talk = converse(load.arrivals, load.rate_per_s, inputs, outputs, drawn[0])
        return replace(talk, seed=load.seed)
    times, name = _times(load, drawn[0])
    none = np.zeros(0, np.int64)
    prefix, tokens = none, none
    if load.shared_tokens:
        prefix = drawn[3].integers(0, load.shared_groups, load.count)
        tokens = np.minimum(load.shared_tokens, inputs)
    return Requests(
        arrival_s=times,
        input_tokens=inputs,
        output_tokens=outputs,
        prefix=prefix,
        prefix_tokens=tokens,
        concurrency=load.concurrency,
        seed=load.seed,
        name=name,
    )


def _times(load: Load, random: np.random.Generator) -> tuple[Floats, str]:
    if load.concurrency:
        return np.zeros(load.count), in_flight(load.concurrency)
    if load.arrivals.startswith("steps:"):
        return _steps(load, random), load.arrivals
    kind = KINDS.get(load.arrivals)
    if kind is None:
        raise UnknownNameError(Text("kind of arrivals"), load.arrivals, [*KINDS, *FORMS])
    times = np.cumsum(kind(load, random))
    return times - times[0], Text(
        "{kind}, {rate} requests/s", kind=_CALLED[load.arrivals], rate=Number(load.rate_per_s)
    )


def _poisson(load: Load, random: np.random.Generator) -> Floats:
    return random.exponential(1 / load.rate_per_s, load.count)


def _gamma(load: Load, random: np.random.Generator) -> Floats:
    shape = 1 / load.burstiness
    return random.gamma(shape, 1 / (load.rate_per_s * shape), load.count)


def _constant(load: Load, random: np.random.Generator) -> Floats:
    return np.full(load.count, 1 / load.rate_per_s)


KINDS: dict[str, Callable[[Load, np.random.Generator], Floats]] = {
    "poisson": _poisson,
    "gamma": _gamma,
    "constant": _constant,
}
"""Gaps between arrivals, by name."""

FORMS = ("steps:2x30,8x30", "conversations:5x20")
"""Kinds that say how much of what."""

_CALLED = {"poisson": Text("Poisson"), "gamma": Text("gamma"), "constant": Text("evenly spaced")}

_STEP = re.compile(r"^(\d*\.?\d+)x(\d*\.?\d+)$")


def _steps(load: Load, random: np.random.Generator) -> Floats:
    """Poisson at one rate after the other; the last one goes on until all requests have come."""
    steps = [_STEP.match(part) for part in load.arrivals.removeprefix("steps:").split(",")]
    rates = [(float(s[1]), float(s[2])) for s in steps if s]
    if len(rates) != len(steps) or any(rate <= 0 or lasts <= 0 for rate, lasts in rates):
        raise InvalidValueError(
            Text("'{steps}' are no steps.", steps=load.arrivals),
            Text("A step is a rate in requests per second, 'x', and its seconds."),
            Text("Type: --arrivals steps:2x30,8x30"),
        )
    # Unit-rate arrivals, on a clock that runs as fast as the rate of the moment.
    unit = np.cumsum(random.exponential(1.0, load.count))
    ends = np.cumsum([rate * lasts for rate, lasts in rates])
    starts_s = np.cumsum([0.0, *(lasts for _, lasts in rates)])
    which = np.minimum(np.searchsorted(ends, unit), len(rates) - 1)
    begun = np.concatenate(([0.0], ends))[which]
    pace = np.array([rate for rate, _ in rates])[which]
    return np.asarray(starts_s[which] + (unit - begun) / pace, np.float64)


def _check(load: Load) -> None:
    steps, talk = load.arrivals.startswith("steps:"), load.arrivals.startswith(CONVERSATIONS)
    if talk and (load.concurrency or load.shared_tokens):
        raise InvalidValueError(
            Text("Conversations come at a rate, and begin with what was said before."),
            Text("They have no places to wait for, and no other beginning."),
            Text("Type: --rate 8 --arrivals conversations:5x20"),
        )
    checks = (
        ("requests", load.count, 1 <= load.count <= MOST_REQUESTS),
        ("concurrency", load.concurrency, load.concurrency >= 0),
        ("rate", load.rate_per_s, bool(load.concurrency or steps) or 0 < load.rate_per_s <= 1e7),
        ("burstiness", load.burstiness, 0 < load.burstiness <= 1e4),
        ("shared", load.shared_tokens, load.shared_tokens >= 0),
        ("groups", load.shared_groups, load.shared_groups >= 1),
        ("seed", load.seed, load.seed >= 0),
    )
    for name, value, fits in checks:
        if not fits:
            raise InvalidValueError(
                Text("A load with {name} = {value} cannot be.", name=name, value=f"{value:g}"),
                "",
                Text("Give a rate in requests per second, or a concurrency of 1 or more.")
                if name in ("rate", "concurrency")
                else Text("Give {name} a positive number.", name=name),
            )
