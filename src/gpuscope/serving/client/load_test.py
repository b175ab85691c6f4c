"""`gs.load_test`: a load by its figures, on a server by its address."""

from __future__ import annotations

import math
import re
from math import ceil

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.lengths import parse_lengths
from gpuscope.serving.arrivals import MOST_REQUESTS, Load, kind_named, make_requests
from gpuscope.serving.client.prompts import Api, Sort
from gpuscope.serving.client.run import Asked, Tell, run_load
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import Serving

_APIS: tuple[Api, ...] = ("completions", "chat", "triton")
_SORTS: tuple[Sort, ...] = ("ids", "words")

_TIME = re.compile(r"^(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|min|h|)$")
_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

FOR_S = 60.0
"""Length of a run where nothing is said of it."""


def parse_time(text: str) -> float:
    """Seconds of "60s", "2m", "500ms", "90".

    Raises:
        InvalidValueError: something else, or no time at all.
    """
    found = _TIME.match(text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= 86_400:
        raise InvalidValueError(
            Text("'{text}' is no time.", text=text),
            Text("It lies between 0 and 24 hours."),
            Text("Type: 60s, 2m or 500ms"),
        )
    return seconds


def load_test(
    url: str,
    *,
    model: str = "",
    rate: float | None = None,
    concurrency: int | None = None,
    for_s: float | None = None,
    count: int | None = None,
    input: str | int = 512,
    output: str | int = 128,
    arrivals: str = "poisson",
    burstiness: float = 1.0,
    shared: int = 0,
    groups: int = 1,
    requests: Requests | None = None,
    seed: int = 0,
    api: str = "completions",
    prompts: str | None = None,
    tokenizer: str | None = None,
    timeout_s: float = 600.0,
    engine_log: str | None = None,
    dcgm: str | None = None,
    otlp: int | None = None,
    on_progress: Tell = lambda done: None,
) -> Serving:
    """Load a running OpenAI-compatible server, and measure what it does.

    Args:
        url: of the server: "http://localhost:8000".
        model: the name that it is asked for; "" for the one that it has.
        rate: requests a second on average (open loop: sent at their times, whatever comes back).
        concurrency: so many requests in flight (closed loop), instead of a rate.
        for_s: how long requests are sent; 60 s where neither this nor `count` is given.
        count: how many at most.
        input, output: tokens of a prompt and an answer: 512, "256..1024" or "lognormal:512,0.8".
        arrivals: "poisson", "gamma", "constant", "steps:2x30,8x30" or
            "conversations:5x20" (turns x seconds between them).
        burstiness: of gamma arrivals.
        shared, groups: tokens of their beginning that prompts share, and how many beginnings.
        requests: a load of your own, instead of all above.
        seed: same seed, same requests, here and in the simulator.
        api: "completions" or "chat"; "triton" for a model of Triton Inference Server, asked by its
            tensors (KServe's v2 over HTTP), whose answers are whole.
        prompts: "ids" (of tokens) or "words"; None for what the server takes.
        tokenizer: file or folder of a local one, for prompts of exact lengths.
        timeout_s: the longest that an answer may take.
        engine_log: file with vLLM's log of iterations.
        dcgm: address of NVIDIA's DCGM exporter beside the server: "http://host:9400".
        otlp: port on this machine to which the server exports its spans, OTLP over HTTP.
        on_progress: called with how many requests are done.

    Returns:
        A `Serving` of origin "measured"; `client["void"]` is there if the client was the limit.

    Raises:
        ServerError: the server cannot be asked, or answered nothing.
        UnknownNameError: it has no such model.
        InvalidValueError: a load that cannot be.
    """
    if api not in _APIS:
        raise UnknownNameError("api", api, _APIS)
    if prompts is not None and prompts not in _SORTS:
        raise UnknownNameError(Text("sort of prompts"), prompts, _SORTS)
    if api == "triton":
        output = 1
    if for_s is None and count is None and requests is None:
        for_s = FOR_S
    if requests is None:
        _check(rate, concurrency, arrivals)
        load = Load(
            input=parse_lengths(str(input)),
            output=parse_lengths(str(output)),
            count=_count(rate, concurrency, arrivals, for_s, count),
            rate_per_s=rate or 0.0,
            arrivals=arrivals,
            burstiness=burstiness,
            concurrency=concurrency or 0,
            shared_tokens=shared,
            shared_groups=groups,
            seed=seed,
        )
        requests = make_requests(load)
    return run_load(
        Asked(
            url=url,
            requests=requests,
            model=model,
            api=api,
            prompts=prompts,
            tokenizer=tokenizer,
            timeout_s=timeout_s,
            for_s=for_s,
            engine_log=engine_log,
            dcgm=dcgm,
            otlp=otlp,
        ),
        on_progress,
    )


def _check(rate: float | None, concurrency: int | None, arrivals: str) -> None:
    given = (rate is not None) + (concurrency is not None) + (not kind_named(arrivals).rated)
    if given != 1:
        raise InvalidValueError(
            Text("One of a rate, a concurrency and steps says how much is asked."),
            "",
            Text("Type: --rate 2, or --concurrency 8, or --arrivals steps:2x30,8x30"),
        )
    if concurrency is not None and concurrency < 1:
        raise InvalidValueError(
            Text("A concurrency of {count} asks for nothing.", count=concurrency),
            "",
            Text("Type: --concurrency 1"),
        )


def _count(
    rate: float | None,
    concurrency: int | None,
    arrivals: str,
    for_s: float | None,
    count: int | None,
) -> int:
    """Requests to make: more than can come within the time; those beyond it are not sent."""
    if count is not None:
        return count
    assert for_s is not None
    if concurrency is not None:
        return min(MOST_REQUESTS, max(1000, ceil(concurrency * for_s * 20)))
    if not kind_named(arrivals).rated:
        return 100_000
    expected = (rate or 0.0) * for_s
    return min(MOST_REQUESTS, ceil(expected + 10 * math.sqrt(expected) + 10))
