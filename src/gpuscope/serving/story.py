"""A serving run told: latencies, throughput, where a request's time went, what limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Block,
    Column,
    Explanation,
    Fact,
    Facts,
    Lines,
    Part,
    Role,
    Section,
    Series,
    Table,
)
from gpuscope.document.quantities import Number, Percent, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.serving.gains import Gain, gains_section
from gpuscope.serving.limiting import limiting, limits_table
from gpuscope.serving.metrics import Metrics, Spread, metrics, tpot_s, ttft_s
from gpuscope.serving.over_time import lives, over_time
from gpuscope.serving.requests import Floats
from gpuscope.serving.result import FINISHED, Serving
from gpuscope.serving.slo import Limit

CAUSES: tuple[tuple[str, Text, Role], ...] = (
    ("queue_s", Text("in the queue"), "idle"),
    ("prefill_s", Text("its own prompt"), "compute"),
    ("behind_s", Text("behind others' prompts"), "waste"),
    ("decode_device_s", Text("decoding, device"), "memory"),
    ("decode_host_s", Text("decoding, host"), "host"),
    ("preempted_s", Text("put off"), "bad"),
    ("transfer_s", Text("keys and values moved"), "communication"),
    ("decode_s", Text("decoding"), "memory"),
    ("front_s", Text("the server's front process"), "host"),
)
"""Columns of `Served` that a request's time is made of."""


def story(
    runs: Sequence[Serving],
    limits: Sequence[Limit] = (),
    charts: bool = True,
    changes: Sequence[Gain] = (),
) -> Explanation:
    """One run in depth, with charts and changes if wanted, or several loads side by side."""
    found = [metrics(run, limits) for run in runs]
    first = runs[0]
    title = Text(
        "{model} on {devices}, {engine} {version}",
        model=first.model,
        devices=first.devices,
        engine=first.engine,
        version=first.engine_version,
    )
    sections = [Section(Text("Load by load"), (_curve(runs, found), _chart(runs, found)))]
    if len(runs) == 1:
        sections = [Section(Text("Latency"), _one(first, found[0]))]
        if changes:
            sections.append(gains_section(first, changes, limits))
        drawn = over_time(first) if charts else ()
        if drawn:
            sections.append(Section(Text("Over time"), drawn))
    return Explanation(
        "serving",
        title,
        _summary(runs, found, limits),
        tuple(sections),
        assumptions=tuple(map(verbatim, first.notes)),
    )


def cause(run: Serving) -> tuple[str, Text, float] | None:
    """Column, words and share of what a request's time mostly goes to; None unknown."""
    totals = [
        (name, label, float(np.nansum(getattr(run.served, name))))
        for name, label, _ in CAUSES
        if len(getattr(run.served, name))
    ]
    whole = sum(total for _, _, total in totals)
    if whole <= 0:
        return None
    name, label, total = max(totals, key=lambda each: each[2])
    return name, label, total / whole


def kv_share(run: Serving) -> float | None:
    """Most of the blocks of keys and values that were in use at once; None unknown."""
    if not run.kv_blocks or not len(run.iterations):
        return None
    first = run.settings.get("prefill_replicas", 0)  # have rooms of their own
    used = run.iterations.kv_blocks_used[run.iterations.replica >= int(first)]
    return float(used.max()) / run.kv_blocks if len(used) else None


def _summary(
    runs: Sequence[Serving], found: Sequence[Metrics], limits: Sequence[Limit]
) -> tuple[Text, ...]:
    told: list[Text] = []
    if len(runs) == 1:
        told += _of_one(runs[0], found[0], limits)
    else:
        told.append(_knee(runs, found))
    if limits and len(runs) > 1:
        kept = [m for m in found if m.kept_share is not None and m.kept_share >= 0.99]
        if kept:
            best = max(kept, key=lambda m: m.requests_per_s or 0.0)
            told.append(Text("Within the limits: up to {rate}.", rate=_rate(best.requests_per_s)))
        else:
            told.append(_unreached(found))
    most = max((m.output_tokens_per_s or 0.0) for m in found)
    told.append(Text("Most output: {rate} tokens/s.", rate=Number(most)))
    return tuple(told)


def _knee(runs: Sequence[Serving], found: Sequence[Metrics]) -> Text:
    """Where throughput over latency is highest (Kleinrock 1979: power): beyond it latency grows
    faster than throughput."""
    power = [(m.output_tokens_per_s or 0.0) / (m.e2e.mean_s or 1.0) for m in found]
    order = sorted(range(len(found)), key=lambda at: found[at].output_tokens_per_s or 0.0)
    at = power.index(max(power))
    if at == order[-1]:
        return Text("Throughput grows faster than latency up to the last load.")
    return Text(
        "The knee is at {load}: beyond it latency grows faster than throughput.",
        load=_called(runs[at]),
    )


def _unreached(found: Sequence[Metrics]) -> Text:
    best = min(found, key=lambda m: m.tpot.p90_s or 0.0)
    return Text(
        "No load keeps the limits; the nearest has a P90 of TTFT of {ttft}, of TPOT of {tpot}.",
        ttft=Seconds(best.ttft.p90_s),
        tpot=Seconds(best.tpot.p90_s),
    )


def _rate(per_s: float | str | None) -> Text:
    return Text("{rate} requests/s", rate=Number(float(per_s or 0.0)))


def _never(run: Serving) -> Text:
    """What the limits would have to be for any request to keep them."""
    done = run.served.status == FINISHED
    if not done.any():
        return Text("No request finished.")
    return Text(
        "No request keeps the limits; the quickest took {ttft} to its first token, "
        "and {tpot} a token.",
        ttft=Seconds(float(ttft_s(run.served)[done].min())),
        tpot=Seconds(_least(tpot_s(run.served)[done])),
    )


def _least(values_s: Floats) -> float | None:
    known = values_s[np.isfinite(values_s)]
    return float(known.min()) if len(known) else None


def _of_one(run: Serving, found: Metrics, limits: Sequence[Limit]) -> list[Text]:
    told = []
    if run.saturated:
        told.append(
            Text(
                "More comes than it can serve: {capacity} at most. The queue grows for as long as "
                "the load lasts, so its mean latencies say nothing.",
                capacity=_rate(run.capacity_per_s),
            )
        )
    elif found.ttft.p50_s is not None:
        told.append(
            Text(
                "A first token after {ttft}, then one every {tpot} (medians).",
                ttft=Seconds(found.ttft.p50_s),
                tpot=Seconds(found.tpot.p50_s),
            )
        )
    if (rate := run.settings.get("highest_rate_per_s")) is not None:
        told.append(
            Text(
                "Highest rate at which 99 % keep the limits: {rate} (80 %: {low} to {high}).",
                rate=_rate(rate),
                low=_rate(run.settings.get("highest_rate_low_per_s")),
                high=_rate(run.settings.get("highest_rate_high_per_s")),
            )
        )
    if limits and found.kept_share == 0 and not run.saturated:
        told.append(_never(run))
    elif limits and found.kept_share is not None:
        told.append(
            Text(
                "{share} of the requests keep the limits: {rate} of goodput.",
                share=Percent(found.kept_share),
                rate=_rate(found.goodput_per_s),
            )
        )
    main = cause(run)
    if main is not None:
        told.append(
            Text(
                "Most of a request's time: {what} ({share}).", what=main[1], share=Percent(main[2])
            )
        )
    return told


def _one(run: Serving, found: Metrics) -> tuple[Block, ...]:
    shown: list[Block] = []
    if not run.saturated:
        shown.append(_latencies(run, found))
    facts = [
        Fact(Text("requests"), found.requests, "count"),
        Fact(Text("finished"), found.finished, "count"),
    ]
    if found.failed or found.timeouts:
        facts.append(Fact(Text("failed, or out of time"), found.failed + found.timeouts, "count"))
    facts.append(Fact(Text("requests/s"), found.requests_per_s))
    facts.append(Fact(Text("output tokens/s"), found.output_tokens_per_s))
    if run.capacity_per_s is not None:
        low, high = _around(run.capacity_per_s, run.relative_error.get("throughput"))
        facts.append(Fact(Text("capacity, requests/s"), run.capacity_per_s, "", "", low, high))
    if run.kv_blocks is not None and run.kv_block_tokens is not None:
        tokens = run.kv_blocks * run.kv_block_tokens
        facts.append(Fact(Text("room for keys and values (tokens)"), tokens, "count"))
    facts.append(Fact(Text("most of it in use"), kv_share(run), "share"))
    if len(run.served.preemptions):
        facts.append(Fact(Text("put off"), int(run.served.preemptions.sum()), "count"))
    if run.energy_j is not None:
        facts.append(Fact(Text("energy"), run.energy_j, "J", "estimated"))
        facts.append(
            Fact(Text("energy of an output token"), found.energy_per_token_j, "J", "estimated")
        )
    if found.usd_per_million is not None:
        cost = Text("cost of a million output tokens")
        facts.append(Fact(cost, found.usd_per_million, "usd", "estimated"))
    limits = limiting(run)
    shown += [Facts(tuple(facts)), *((limits_table(limits),) if limits else ()), *_causes([run])]
    single = lives(run, CAUSES)
    if single is not None and not run.saturated:
        shown.append(single)
    return tuple(shown)


def _around(value: float, wide: float | None) -> tuple[float | None, float | None]:
    return (None, None) if wide is None else (value / (1 + wide), value * (1 + wide))


def _latencies(run: Serving, found: Metrics) -> Table:
    rows = []
    for name, key, spread in (
        ("TTFT", "ttft", found.ttft),
        ("TPOT", "tpot", found.tpot),
        ("E2E", "e2e", found.e2e),
    ):
        low, high = _around(spread.p50_s or 0.0, run.relative_error.get(key))
        known = spread.p50_s is not None
        rows.append((name, *_figures(spread), low if known else None, high if known else None))
    if found.itl_p99.p50_s is not None:
        rows.append((Text("ITL, the P99 of a request"), *_figures(found.itl_p99), None, None))
    columns = ["P50", "P90", "P99"]
    return Table(
        Text("Latencies"),
        (
            Column(Text("metric")),
            Column(Text("mean"), "s"),
            *(Column(verbatim(each), "s") for each in columns),
            Column(Text("P50, 80 % from"), "s"),
            Column(Text("P50, 80 % to"), "s"),
        ),
        tuple(rows),
    )


def _figures(spread: Spread) -> tuple[float | None, ...]:
    return spread.mean_s, spread.p50_s, spread.p90_s, spread.p99_s


def _causes(runs: Sequence[Serving]) -> list[Bars]:
    bars = []
    for run in runs:
        parts = tuple(
            Part(label, float(np.nanmean(getattr(run.served, name))), role)
            for name, label, role in CAUSES
            if len(getattr(run.served, name)) and float(np.nansum(getattr(run.served, name))) > 0
        )
        if parts:
            bars.append(Bar(_called(run), parts))
    return [Bars(Text("Where a request's time goes (mean)"), "s", tuple(bars))] if bars else []


def _called(run: Serving) -> Text:
    name = run.name or run.model
    return name if isinstance(name, Text) else verbatim(name)


def _curve(runs: Sequence[Serving], found: Sequence[Metrics]) -> Table:
    rows = tuple(
        (
            run.name,
            each.ttft.p50_s,
            each.ttft.p99_s,
            each.tpot.p50_s,
            each.tpot.p99_s,
            each.requests_per_s,
            each.output_tokens_per_s,
            each.kept_share,
            kv_share(run),
        )
        for run, each in zip(runs, found, strict=True)
    )
    return Table(
        Text("Latency and throughput"),
        (
            Column(Text("load asked for")),
            Column(verbatim("TTFT P50"), "s"),
            Column(verbatim("TTFT P99"), "s"),
            Column(verbatim("TPOT P50"), "s"),
            Column(verbatim("TPOT P99"), "s"),
            Column(Text("requests/s")),
            Column(Text("output tokens/s")),
            Column(Text("within limits"), "share"),
            Column(Text("cache in use"), "share"),
        ),
        rows,
    )


def _chart(runs: Sequence[Serving], found: Sequence[Metrics]) -> Lines:
    x = tuple(each.output_tokens_per_s or 0.0 for each in found)
    y = tuple(each.tpot.p50_s for each in found)
    return Lines(
        Text("Each token later, more of them"),
        Axis(Text("output tokens/s")),
        Axis(verbatim("TPOT P50"), "s"),
        (Series(verbatim(runs[0].model), x, y, role="compute"),),
    )
