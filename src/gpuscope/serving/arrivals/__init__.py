"""When requests come: one file a kind of arrivals, or a closed loop. Seeded.

A kind is a `Kind`, the `KIND` of a file here; it is asked for by the file's name, and what follows
a colon says how much of what. The same seed gives the same requests to the simulator and to the
load client: arrivals, prompts' and answers' lengths are drawn from streams of their own (PCG64
seeded with the seed and 1, 2, 3), so that another rate keeps the lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files

import numpy as np

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.lengths import Lengths
from gpuscope.serving.requests import Floats, Ints, Requests, in_flight

MOST_REQUESTS = 10_000_000
"""That are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A made-up load.

    Attributes:
        input, output: lengths.
        count: requests.
        rate_per_s: on average; 0 in a closed loop.
        arrivals: one of `kinds`, as it is typed: "poisson", "steps:2x30,8x30".
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A way to come.

    Attributes:
        make: requests of these lengths (tokens in and out, one of each a request).
        form: how it is typed, where it says how much of what; "": by its name alone.
        rated: they come at the load's rate.
        plain: they may wait for places, and share a beginning that the load names.
    """

    make: Callable[[Load, Ints, Ints, np.random.Generator], Requests]
    form: str = ""
    rated: bool = True
    plain: bool = True


def at_gaps(called: Text, gaps_s: Callable[[Load, np.random.Generator], Floats]) -> Kind:
    """The kind of requests that come so many seconds one after the other."""

    def make(load: Load, inputs: Ints, outputs: Ints, random: np.random.Generator) -> Requests:
        times = np.cumsum(gaps_s(load, random))
        name = Text("{kind}, {rate} requests/s", kind=called, rate=Number(load.rate_per_s))
        return Requests(times - times[0], inputs, outputs, name=name)

    return Kind(make=make)


@cache
def kinds() -> dict[str, Kind]:
    """All, by name."""
    found = sorted(each.name for each in files(__name__).iterdir())
    names = [each[:-3] for each in found if each[-3:] == ".py" and each[0] != "_"]
    return {each: import_module(f"{__name__}.{each}").KIND for each in names}


def kind_named(arrivals: str) -> Kind:
    """The kind of "poisson" or "steps:2x30,8x30".

    Raises:
        UnknownNameError: no such kind.
    """
    name, colon, _ = arrivals.partition(":")
    kind = kinds().get(name)
    if kind is None or bool(colon) != bool(kind.form):
        known = [each.form or name for name, each in kinds().items()]
        raise UnknownNameError(Text("kind of arrivals"), arrivals, known)
    return kind


def make_requests(load: Load) -> Requests:
    """The requests of a load.

    Raises:
        InvalidValueError: a rate, count or concurrency that cannot be.
        UnknownNameError: no such kind of arrivals.
    """
    kind = kind_named(load.arrivals)
    _check(load, kind)
    drawn = [np.random.Generator(np.random.PCG64([load.seed, n])) for n in (1, 2, 3, 4)]
    inputs = load.input.draw(load.count, drawn[1])
    outputs = load.output.draw(load.count, drawn[2])
    if load.concurrency:
        made = Requests(np.zeros(load.count), inputs, outputs, name=in_flight(load.concurrency))
    else:
        made = kind.make(load, inputs, outputs, drawn[0])
    if load.shared_tokens:
        made = replace(
            made,
            prefix=drawn[3].integers(0, load.shared_groups, load.count),
            prefix_tokens=np.minimum(load.shared_tokens, inputs),
        )
    return replace(made, concurrency=load.concurrency, seed=load.seed)


def _check(load: Load, kind: Kind) -> None:
    if not kind.plain and (load.concurrency or load.shared_tokens):
        raise InvalidValueError(
            Text("Conversations come at a rate, and begin with what was said before."),
            Text("They have no places to wait for, and no other beginning."),
            Text("Type: --rate 8 --arrivals conversations:5x20"),
        )
    unrated = bool(load.concurrency) or not kind.rated
    checks = (
        ("requests", load.count, 1 <= load.count <= MOST_REQUESTS),
        ("concurrency", load.concurrency, load.concurrency >= 0),
        ("rate", load.rate_per_s, unrated or 0 < load.rate_per_s <= 1e7),
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
