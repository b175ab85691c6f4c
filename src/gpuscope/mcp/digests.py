"""Results in short: the figures that decide, and where the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuscope.document.quantities import Bytes, Joules, Number, Quantity, Seconds
from gpuscope.mcp.types import (
    AdviceDigest,
    ChangeDigest,
    ComparisonDigest,
    Figure,
    Found,
    Health,
    HealthDigest,
    LadderDigest,
    PlanDigest,
    Row,
    RunDigest,
    ServingDigest,
    Told,
)

if TYPE_CHECKING:
    from gpuscope.advice.results import Advice, Forecast, Ladder
    from gpuscope.analysis.compare import Comparison
    from gpuscope.doctor.types import Diagnosis
    from gpuscope.document.blocks import Explanation
    from gpuscope.planning.types import Plan
    from gpuscope.run import Run
    from gpuscope.serving.result import Serving

MOST_FINDINGS, MOST_ROWS, MOST_CHANGES, MOST_TIES, MOST_HEALTH = 5, 8, 8, 5, 10
"""Of a digest; all of them are in the document, which `details` reads."""

_UNITS: dict[type[Quantity], str] = {Seconds: "s", Bytes: "bytes", Joules: "J", Number: "1"}


def figure(
    sort: type[Quantity],
    value: float | None,
    interval: tuple[float | None, float | None] | None = None,
    origin: str = "computed",
    unit: str = "",
) -> Figure:
    """Return a figure as tools tell it.

    Args:
        sort: its quantity.
        value: None: not available.
        interval: low, high.
        origin: where it comes from; "computed": it follows from others.
        unit: where it is not the quantity's own.
    """
    low, high = interval or (None, None)
    known = origin if value is not None else ""
    return Figure(value, unit or _UNITS[sort], low, high, known, sort(value).shown())


def run_digest(name: str, run: Run) -> RunDigest:
    """Return a run in short.

    Args:
        name: that it is kept under.
        run: predicted or measured.
    """
    from gpuscope.run.figures import figures

    derived, origins, account = figures(run), run.origins, run.analysis.account
    shown = {
        "step_time": figure(
            Seconds,
            run.step_time_s,
            run.step_time_interval_s,
            origins.get("step_time_s", run.origin),
        ),
        **{
            label: figure(sort, getattr(run, field), None, origins.get(field, run.origin))
            for label, field, sort in (
                ("device_busy", "device_busy_s", Seconds),
                ("host_busy", "host_busy_s", Seconds),
                ("peak_memory", "peak_memory_bytes", Bytes),
                ("reserved_memory", "reserved_memory_bytes", Bytes),
                ("energy", "energy_j", Joules),
            )
        },
        "tokens_per_s": figure(Number, derived.tokens_per_s, unit="tokens/s"),
        "model_flops_utilisation": figure(Number, derived.mfu),
    }
    terms = account.terms if account is not None else ()
    return RunDigest(
        id=name,
        name=run.name,
        target=run.target,
        origin=run.origin,
        figures=shown,
        account={term.key: figure(Seconds, term.time_s) for term in terms},
        findings=tuple(
            Found(
                each.kind,
                str(each.title),
                str(each.hint),
                figure(Seconds, each.max_gain_s, None, "estimated"),
                tuple(each.about.lines) if each.about else (),
            )
            for each in run.analysis.findings[:MOST_FINDINGS]
        ),
        assumptions=tuple(str(each) for each in run.assumptions),
        more=(
            "analysis.operators", "analysis.modules", "analysis.classes", "analysis.findings",
            "analysis.idle_spots", "analysis.launches", "analysis.memory",
            "analysis.communication", "analysis.critical_path", "figures", "program",
        ),
    )  # fmt: skip


def comparison_digest(name: str, found: Comparison) -> ComparisonDigest:
    """Return a comparison in short."""
    return ComparisonDigest(
        name,
        str(found.summary),
        figure(Number, found.speedup, unit="a/b"),
        figure(Seconds, found.difference_s),
        tuple(
            Row(row.label, figure(Seconds, row.a_s), figure(Seconds, row.b_s), str(row.reason))
            for row in found.operators[:MOST_ROWS]
        ),
        ("classes", "kinds", "operators", "phases", "modules"),
    )


def advice_digest(name: str, advice: Advice) -> AdviceDigest:
    """Return advice in short."""
    run = advice.case.run
    return AdviceDigest(
        name,
        figure(
            Seconds, run.step_time_s, run.step_time_interval_s, run.origins.get("step_time_s", "")
        ),
        tuple(map(_forecast, advice.path)),
        tuple(map(_forecast, advice.singles[:MOST_CHANGES])),
        ("singles", "path", "refused", "notes"),
    )


def _forecast(each: Forecast) -> ChangeDigest:
    gain = figure(Number, each.speedup, (each.low, each.high), "estimated", "before/after")
    return ChangeDigest(each.names, each.effect, gain, str(each.why))


def ladder_digest(name: str, ladder: Ladder) -> LadderDigest:
    """Return what was tried, with its patch."""

    def gain(it: object) -> Figure:
        interval = (getattr(it, "low", None), getattr(it, "high", None))
        return figure(Number, getattr(it, "speedup", None), interval, "measured", "before/after")

    return LadderDigest(
        name,
        ladder.device,
        ladder.best,
        gain(ladder),
        tuple(
            ChangeDigest(each.names, each.outcome, gain(each), str(each.why))
            for each in ladder.trials[-MOST_CHANGES:]
        ),
        ladder.patch,
        tuple(map(str, ladder.notes)),
        ("trials", "baseline", "patch"),
    )


def told(name: str, found: Explanation) -> Told:
    """Return an explanation in its first sentences."""
    return Told(
        name,
        str(found.title),
        tuple(map(str, found.summary)),
        tuple(f"sections.{number}" for number in range(len(found.sections))),
    )


def plan_digest(name: str, found: Plan) -> PlanDigest:
    """Return a choice in short."""
    best = found.best
    return PlanDigest(
        name,
        _words(best.candidate),
        {
            "step_time": figure(Seconds, best.step_s, (best.low_s, best.high_s), "estimated"),
            "peak_memory": figure(Bytes, best.peak_bytes, None, "estimated"),
            "usable_memory": figure(Bytes, best.usable_bytes, None, "datasheet"),
            "fits": figure(Number, best.fits, unit="probability"),
            "energy": figure(Joules, best.energy_j, None, "estimated"),
            "price": figure(Number, best.usd, None, "estimated", "USD"),
        },
        tuple(_words(each.candidate) for each in found.ties[:MOST_TIES]),
        found.candidates,
        ("judged", "front", "ties", "rejected"),
    )


def _words(candidate: object) -> str:
    return f"{candidate.cluster.name}: {candidate.words}"  # type: ignore[attr-defined]


def health_digest(name: str, found: Diagnosis) -> HealthDigest:
    """Return a diagnosis in short: what is not well."""
    wrong = [each for each in found.findings if each.severity not in ("ok", "note")]
    return HealthDigest(
        name,
        found.worst,
        tuple(
            Health(each.check, each.severity, str(each.title), str(each.fix or ""))
            for each in wrong[:MOST_HEALTH]
        ),
        ("findings", "machine", "counts"),
    )


def serving_digest(name: str, found: Sequence[Serving]) -> ServingDigest:
    """Return a service, predicted or measured, in short, one entry a load."""
    from gpuscope.serving.metrics import metrics

    loads = []
    for run in found:
        made, origin = metrics(run), "measured" if run.origin == "measured" else "estimated"
        loads.append(
            {
                "requests": figure(Number, made.requests),
                "finished": figure(Number, made.finished),
                "ttft_p50": figure(Seconds, made.ttft.p50_s, None, origin),
                "ttft_p99": figure(Seconds, made.ttft.p99_s, None, origin),
                "tpot_p50": figure(Seconds, made.tpot.p50_s, None, origin),
                "tpot_p99": figure(Seconds, made.tpot.p99_s, None, origin),
                "output_tokens_per_s": figure(
                    Number, made.output_tokens_per_s, None, origin, "tokens/s"
                ),
            }
        )
    notes = tuple(dict.fromkeys(str(note) for run in found for note in run.notes))
    return ServingDigest(name, tuple(loads), notes, ("runs",))
