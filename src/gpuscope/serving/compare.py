"""Two serving runs side by side: per metric, and where a request's time differs."""

from __future__ import annotations

import numpy as np

from gpuscope.document.blocks import Column, Explanation, Section, Table
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text, verbatim
from gpuscope.serving.metrics import Metrics, metrics
from gpuscope.serving.result import Serving
from gpuscope.serving.story import CAUSES


def compare_serving(first: Serving, second: Serving) -> Explanation:
    """How far the second is from the first, by metric and by cause."""
    one, other = metrics(first), metrics(second)
    rows = tuple(
        (name, a, b, b / a - 1 if a and b is not None else None)
        for name, a, b in zip(_NAMES, _figures(one), _figures(other), strict=True)
    )
    columns = (
        Column(Text("metric")),
        Column(_who(first), "s"),
        Column(_who(second), "s"),
        Column(Text("difference"), "share"),
    )
    rates = tuple(
        (name, a, b, b / a - 1 if a and b is not None else None)
        for name, a, b in (
            (Text("requests/s"), one.requests_per_s, other.requests_per_s),
            (Text("output tokens/s"), one.output_tokens_per_s, other.output_tokens_per_s),
            (Text("failed"), one.failed + one.timeouts, other.failed + other.timeouts),
        )
    )
    plain = (columns[0], Column(_who(first)), Column(_who(second)), columns[3])
    causes = tuple(
        (label, _mean(first, name), _mean(second, name), None)
        for name, label, _ in CAUSES
        if _mean(first, name) is not None or _mean(second, name) is not None
    )
    return Explanation(
        "serving comparison",
        Text(
            "{model}: {one} beside {other}",
            model=first.model,
            one=_who(first),
            other=_who(second),
        ),
        _summary(first, second, one, other),
        (
            Section(
                Text("By metric"),
                (Table(Text("Latencies"), columns, rows), Table(Text("Rates"), plain, rates)),
            ),
            Section(
                Text("By cause"),
                (Table(Text("Where a request's time goes (mean)"), columns[:3],
                       tuple(row[:3] for row in causes)),),
            ),
        ),
    )  # fmt: skip


_NAMES = tuple(
    name
    for metric in ("TTFT", "TPOT", "E2E")
    for name in (
        Text("{metric}, mean", metric=metric),
        *(verbatim(f"{metric} {which}") for which in ("P50", "P90", "P99")),
    )
)


def _figures(found: Metrics) -> list[float | None]:
    return [
        value
        for each in (found.ttft, found.tpot, found.e2e)
        for value in (each.mean_s, each.p50_s, each.p90_s, each.p99_s)
    ]


def _who(run: Serving) -> Text:
    origin = Text("predicted") if run.origin == "predicted" else Text("measured")
    return Text("{origin}, {devices}", origin=origin, devices=run.devices or run.engine or "?")


def _mean(run: Serving, name: str) -> float | None:
    column = getattr(run.served, name)
    known = column[np.isfinite(column)]
    return float(known.mean()) if len(known) else None


def _summary(first: Serving, second: Serving, one: Metrics, other: Metrics) -> tuple[Text, ...]:
    told = []
    for name, a, b in (
        ("TTFT", one.ttft.p50_s, other.ttft.p50_s),
        ("TPOT", one.tpot.p50_s, other.tpot.p50_s),
    ):
        if a and b:
            off = b / a - 1
            told.append(
                Text(
                    "{name}: the second is {share} longer (median).", name=name, share=Percent(off)
                )
                if off >= 0
                else Text(
                    "{name}: the second is {share} shorter (median).",
                    name=name,
                    share=Percent(-off),
                )
            )
    same = len(first.served) == len(second.served) and bool(
        (first.served.input_tokens == second.served.input_tokens).all()
    )
    if not same:
        told.append(Text("The two did not get the same requests: the loads differ, too."))
    return tuple(told)
