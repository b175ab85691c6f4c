"""Serving: candidates, their quick score, the best of them simulated, one chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuscope.document.quantities import Number, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, InvalidValueError
from gpuscope.hardware import Cluster, Device
from gpuscope.hardware.grid import grid_factor
from gpuscope.hardware.shares import error_factor
from gpuscope.planning.choice import undominated
from gpuscope.planning.limits import Most, broken, limits_of, nothing_within
from gpuscope.planning.question import clusters_of, size_of
from gpuscope.planning.serving.space import choices, deployed, layouts
from gpuscope.planning.serving.steady import (
    ERROR,
    SIMULATED_ERROR,
    TTFT_ERROR,
    Steady,
    at_concurrency,
    at_rate,
    probability_below,
    prompts_per_s,
)
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingPlan, ServingQuestion
from gpuscope.planning.serving.users import at_once
from gpuscope.planning.types import Rejected
from gpuscope.program.lengths import parse_lengths
from gpuscope.program.models.settings import positive
from gpuscope.serving.engine import engine as profile_of
from gpuscope.serving.metrics import metrics
from gpuscope.serving.simulate import Deployment, serve_requests
from gpuscope.serving.slo import parse_slo
from gpuscope.serving.verb import cache_bytes_of, load_of

__all__ = ["feasible", "order_of", "question_of_serving", "scored", "search_serving", "simulated"]

MOST_DEVICES = 64
"""That are tried where a model has no room on those that were named."""

REQUESTS = 300
"""Requests that a simulation serves."""

OnChoice = Callable[[int, int, ServingChoice], None]


def question_of_serving(
    model: str,
    *,
    on: str | Sequence[str] = "h200",
    devices: str | int | Sequence[int] = 8,
    rate: float = 0.0,
    input: str = "1024",
    answer: str = "256",
    slo: str | None = None,
    engine: str = "vllm",
    dtype: str = "bfloat16",
    kv_dtype: str = "bfloat16",
    simulate: int = 3,
    prices: Path | None = None,
    grid: str | None = None,
    device_set: str | None = None,
    users: int | None = None,
    speed: float | None = None,
    limit: str | None = None,
) -> ServingQuestion:
    """Check everything.

    Args:
        model: name of a built-in decoder.
        on, devices, prices, grid, device_set: as `gpuscope.planning.question.question_of` takes
            them.
        rate: requests each second.
        input, answer: tokens of a prompt and of an answer, as `serve` takes them.
        slo: limits: "ttft<1s,tpot<20ms".
        engine: name of the profile.
        dtype, kv_dtype: that may be taken, separated by commas.
        simulate: how many candidates are simulated.
        users, speed: in place of `rate`: so many users who read at once, at so many tokens a
            second each (`at_once`).
        limit: what a million answer tokens may come to at most, and power and memory:
            "cost<2usd,power<6kW,memory<60GiB".

    Raises:
        UnknownNameError, InvalidValueError, UnsupportedError: as there.
    """
    positive("simulate", simulate)
    mean = max(1, round(parse_lengths(answer).mean))
    if users is not None or speed is not None:
        rate, slo = at_once(users, speed, mean, rate, slo)
    if not 0 < rate < float("inf"):
        raise InvalidValueError(
            Text("No load is given."),
            Text("What has to be served decides how many devices it takes."),
            Text("Type for example: --rate 6"),
        )
    profile_of(engine)
    for kept in _words(kv_dtype):
        cache_bytes_of(kept)
    within = _within(limit)
    return ServingQuestion(
        model=model,
        size=size_of(model),
        clusters=clusters_of(on, devices, prices, device_set=device_set, limits=within),
        engine=engine,
        prompt=max(1, round(parse_lengths(input).mean)),
        answer=mean,
        rate_per_s=rate,
        limits=parse_slo(slo) if slo else (),
        dtypes=_words(dtype),
        kv_dtypes=_words(kv_dtype),
        simulated=simulate,
        grid=grid_factor(grid),
        within=within,
    )


def _within(limit: str | None) -> tuple[Most, ...]:
    """What was asked for beside latencies.

    Raises:
        InvalidValueError: a limit of time, which a latency has.
    """
    found = limits_of(limit)
    for most in found:
        if most.figure.name == "time":
            raise InvalidValueError(
                Text("{limit} belongs to trainings.", limit=most.written),
                Text("A request's times are limited by --slo."),
                Text('Type for example: --slo "ttft<1s,tpot<20ms"'),
            )
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) or (text,)


def search_serving(question: ServingQuestion, on_choice: OnChoice | None = None) -> ServingPlan:
    """Answer a checked question; interrupted, with the best so far.

    Before one was simulated, that is the best by the quick score.

    Args:
        question: what `question_of_serving` gave.
        on_choice: told of each before it is simulated: number, how many, which.

    Raises:
        DoesNotFitError: the model fits on none of the devices. Nothing that keeps up keeps every
            limit (`OverLimitError`).
    """
    offered, over, overloaded, rejected, complete = _offered(question)
    judged, beyond, complete = _judged(question, offered if complete else (), complete, on_choice)
    told = judged if judged or complete else offered[:1]
    if not told and not complete:
        raise KeyboardInterrupt
    over += beyond
    if over and not told:
        tried = [(_name(each.choice), question.of_a_million(each)) for each in over]
        raise nothing_within(question.model, question.within, tried, None)
    rejected += [_beyond(question, each) for each in over]
    left = offered[len(told) + len(beyond) :]
    rejected += [Rejected(_name(each.choice), "not_simulated", _left(each)) for each in left]
    judged.sort(key=lambda each: order_of(question, each))
    sure = [each for each in told if each.feasible >= question.certainty]
    front = undominated(
        judged, lambda e: (e.usd_per_million, e.tpot_s, e.ttft_s, e.energy_per_token_j)
    )
    if sure and sure[0] not in front:  # the simplest of a tie may be beaten by next to nothing
        front = tuple(sorted((sure[0], *front), key=lambda e: e.usd_per_million or 0.0))
    otherwise = [each for each in over if each.feasible >= question.certainty]
    return ServingPlan(
        question=question,
        best=sure[0] if sure else None,
        nearest=None if sure else max(told, key=lambda each: each.feasible, default=None),
        ties=tuple(each for each in sure if each.choice.cluster == sure[0].choice.cluster),
        front=front,
        judged=tuple(judged),
        rejected=tuple(rejected),
        candidates=len(offered) + len(rejected) - len(left) - len(beyond),
        complete=complete,
        beyond=None
        if sure or not otherwise
        else min(otherwise, key=lambda e: order_of(question, e)),
        overloaded=None if told else max(overloaded, key=lambda e: e.headroom, default=None),
    )


def _judged(
    question: ServingQuestion,
    offered: Sequence[Offered],
    complete: bool,
    on_choice: OnChoice | None,
) -> tuple[list[Offered], list[Offered], bool]:
    """The best simulated: those within the limits, those beyond, and whether all were."""
    judged, beyond = list[Offered](), list[Offered]()
    for number, each in enumerate(offered[: question.simulated], start=1):
        try:
            if on_choice:
                on_choice(number, question.simulated, each.choice)
            found = simulated(question, each)
        except KeyboardInterrupt:
            return judged, beyond, False
        over = broken(question.within, question.of_a_million(found), None)
        (judged if over is None else beyond).append(found)
    return judged, beyond, complete


def _beyond(question: ServingQuestion, each: Offered) -> Rejected:
    """What breaks a limit, with the figure that does."""
    why = broken(question.within, question.of_a_million(each), None, known=not each.simulated)
    return Rejected(_name(each.choice), "limit", why or "")


def _offered(
    question: ServingQuestion,
) -> tuple[list[Offered], list[Offered], list[Offered], list[Rejected], bool]:
    """What can keep up by the quick score, the best first, and what does beyond a limit; what
    cannot keep up; what is out; whether all were scored.

    Raises:
        DoesNotFitError: the model fits on none of the devices.
    """
    offered, over, overloaded = list[Offered](), list[Offered](), list[Offered]()
    rejected: list[Rejected] = []
    why: GpuscopeError | None = None
    complete = True
    for choice in choices(question):
        try:
            each = scored(question, choice)
        except KeyboardInterrupt:
            complete = False
            break
        except GpuscopeError as error:
            kind = "memory" if isinstance(error, DoesNotFitError) else "layout"
            rejected.append(Rejected(_name(choice), kind, error.what))
            why = error
            continue
        if each.headroom < 1:
            overloaded.append(each)
            rejected.append(Rejected(_name(choice), "overloaded", _overloaded(question, each)))
        else:
            known = question.of_a_million(each)
            beyond = broken(question.within, known, None, known=True)
            (offered if beyond is None else over).append(each)
    if complete and not (offered or over) and why is not None and not overloaded:
        raise _with_room(question, why)
    ordered = sorted(offered, key=lambda each: order_of(question, each))
    return _each_layout_first(ordered), over, overloaded, rejected, complete


def _with_room(question: ServingQuestion, why: GpuscopeError) -> GpuscopeError:
    """The error with the least number of devices that have room, where a power of two has."""
    if not isinstance(why, DoesNotFitError):
        return why
    device = question.clusters[-1].device
    most = max(each.n_devices for each in question.clusters)
    for count in (2**n for n in range(most.bit_length(), MOST_DEVICES.bit_length())):
        made = tuple(each.with_device(device) for each in clusters_of(device.id, count))
        larger = replace(question, clusters=made)
        for layout in layouts(larger):
            try:
                deployed(larger, layout)
            except GpuscopeError:
                continue
            return DoesNotFitError(
                why.what, why.why, Text("Type: --devices {counts}", counts=str(count))
            )
    return why


def scored(
    question: ServingQuestion, choice: ServingChoice, found: Deployment | None = None
) -> Offered:
    """By a steady iteration: mean latencies, and what it could serve at most.

    Args:
        question: what is asked.
        choice: the candidate.
        found: the same deployed, where it is known.
    """
    found = found or deployed(question, choice)
    prompt, answer = question.prompt, question.answer
    full = at_concurrency(found, prompt, answer, 4.0 * choice.max_sequences)
    own = question.rate_per_s / choice.replicas
    headroom = full.tokens_per_s / answer / own
    if choice.prefill:
        headroom = min(headroom, prompts_per_s(found, prompt) / question.rate_per_s)
    steady = at_rate(found, prompt, answer, own) or full
    return Offered(
        choice=choice,
        ttft_s=steady.ttft_s,
        tpot_s=steady.tpot_s,
        headroom=headroom,
        feasible=feasible(question, steady, headroom, ERROR, choice.cluster.device),
        usd_per_million=_usd(question, choice.cluster),
        scored_tpot_s=steady.tpot_s,
    )


def simulated(question: ServingQuestion, each: Offered) -> Offered:
    """The same request by request: what nine in ten of them get."""
    found = deployed(question, each.choice)
    (load,) = load_of(
        "poisson", rate=question.rate_per_s, concurrency=(), input=str(question.prompt),
        output=str(question.answer), requests=REQUESTS, seed=0,
    )  # fmt: skip
    told = metrics(serve_requests(found, load))
    tpot_s, ttft_s = told.tpot.p90_s or each.tpot_s, told.ttft.p90_s or each.ttft_s
    steady = Steady(0.0, tpot_s, ttft_s, 0.0)
    return replace(
        each,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        feasible=feasible(
            question, steady, each.headroom, SIMULATED_ERROR, each.choice.cluster.device
        ),
        energy_per_token_j=told.energy_per_token_j,
        simulated=True,
    )


def feasible(
    question: ServingQuestion, steady: Steady, headroom: float, tpot_error: float, device: Device
) -> float:
    """The least of the probabilities: errors of one deployment are taken to go together.

    On a share of a device they are wider (`gpuscope.hardware.shares`).
    """
    by = error_factor(device.id)
    whole_s = steady.ttft_s + question.answer * steady.tpot_s
    kept = [probability_below(1.0, headroom, ERROR * by)]
    for limit in question.limits:
        predicted = {"ttft": steady.ttft_s, "tpot": steady.tpot_s, "e2e": whole_s}[limit.metric]
        error = TTFT_ERROR if limit.metric == "ttft" else tpot_error
        kept.append(probability_below(predicted, limit.seconds, error * by))
    return min(kept)


def _usd(question: ServingQuestion, cluster: Cluster) -> float | None:
    price = cluster.price_usd_per_hour
    tokens = question.rate_per_s * question.answer * 3600
    return None if price is None else price / tokens * 1e6


def order_of(question: ServingQuestion, each: Offered) -> tuple[object, ...]:
    """What is sure enough first, then the cheapest, the fewest devices, the surest."""
    sure = each.feasible >= question.certainty
    price = each.usd_per_million
    cost = (price is None, price or 0.0) if sure else (False, -each.feasible)
    profile, choice = profile_of(question.engine), each.choice
    other = (choice.max_tokens != profile.max_tokens) + (
        choice.max_sequences != profile.max_sequences
    )
    return (
        not sure, *cost, choice.cluster.n_devices, -round(each.feasible, 2), choice.kinds, other,
        choice.words,
    )  # fmt: skip


def _each_layout_first(offered: Sequence[Offered]) -> list[Offered]:
    """The best settings of each layout before all others."""
    first: dict[object, Offered] = {}
    for each in offered:
        choice = each.choice
        layout = replace(choice, max_tokens=0, max_sequences=0)
        first.setdefault(layout, each)
    heads = list(first.values())
    return heads + [each for each in offered if each not in heads]


def _name(choice: ServingChoice) -> str:
    return f"{choice.cluster.name}: {choice.words}"


def _overloaded(question: ServingQuestion, each: Offered) -> Text:
    return Text(
        "It serves {most} requests a second at most; {rate} come.",
        most=Number(each.headroom * question.rate_per_s, ".3g"),
        rate=Number(question.rate_per_s, ".3g"),
    )


def _left(each: Offered) -> Text:
    return Text(
        "Not simulated: by the quick score TPOT {tpot}, TTFT {ttft}, {feasible} likely to do.",
        tpot=Seconds(each.tpot_s),
        ttft=Seconds(each.ttft_s),
        feasible=Percent(each.feasible),
    )
