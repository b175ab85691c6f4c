"""A serving plan in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, exp

from gpuscope.document.blocks import Axis, Cell, Column, Explanation, Mark, Section, Table
from gpuscope.document.quantities import Joules, Number, Percent, Seconds, Usd
from gpuscope.document.text import Text
from gpuscope.planning.limits import broken
from gpuscope.planning.outlook import SIGMAS, against, amount, factor_of
from gpuscope.planning.sentences import bound_to, out, starts, tied
from gpuscope.planning.serving.near import near_serving, what_holds
from gpuscope.planning.serving.outlook import around_serving
from gpuscope.planning.serving.steady import SIMULATED_ERROR
from gpuscope.planning.serving.types import Offered, ServingPlan, ServingQuestion
from gpuscope.planning.serving.untried import SPEECH, outcome, untried_serving
from gpuscope.planning.why import what_became

__all__ = ["ASSUMPTIONS", "explained_serving", "title_of"]

ASSUMPTIONS = (
    Text(
        "Requests come at random (Poisson), with mean lengths; a latency is what nine in ten get."
    ),
    Text(
        "Errors are taken to be log-normal, 0.19 of TPOT, 0.25 of what can be served, 0.54 of "
        "TTFT, and to go together: the least probability counts."
    ),
    Text(
        "Energy: a board is taken to draw three quarters of its limit while it works, and what it "
        "draws at rest otherwise."
    ),
)


def explained_serving(
    plan: ServingPlan, why: str | None = None, framework: str | None = None
) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        why: "tp=2,fp8": also list the candidates that have these, and what became of them.
        framework: "vllm" or "sglang": also the line that starts the best.

    Raises:
        InvalidValueError: `why` names nothing that a candidate has.
        UnknownNameError, UnsupportedError: as `ServingPlan.to`.
    """
    question, shown = plan.question, plan.best or plan.nearest
    note = Text(
        "{count} candidates, of which {judged} were simulated.",
        count=plan.candidates,
        judged=len(plan.judged),
    )
    sections = [*_compared(plan), out(plan.rejected, note)]
    if why is not None:
        said = ((e.choice.cluster, e.choice.words, outcome(e)) for e in plan.judged)
        sections.append(
            what_became(why, SPEECH, said, plan.rejected, partial(untried_serving, plan))
        )
    if framework is not None and shown is not None:
        sections.append(starts(framework, plan.to(framework), "sh"))
    taken = shown.choice.cluster if shown else None
    return Explanation(
        "plan",
        title_of(question),
        _summary(plan),
        tuple(sections),
        (),
        (),
        (*ASSUMPTIONS, *bound_to(taken, question.clusters)),
    )


def title_of(question: ServingQuestion) -> Text:
    """What is asked, in a line."""
    return Text(
        "{model}: {rate} requests a second, {prompt} tokens in, {answer} out",
        model=question.model,
        rate=Number(question.rate_per_s, ".3g"),
        prompt=question.prompt,
        answer=question.answer,
    )


def _summary(plan: ServingPlan) -> tuple[Text, ...]:
    best, nearest = plan.best, plan.nearest
    lines = []
    if best is not None and not best.simulated:
        lines.append(
            Text(
                "Nothing was simulated. By the quick score alone the best is {cluster}: {plan}: on "
                "average TTFT {ttft}, TPOT {tpot}; {feasible} likely to keep every limit.",
                cluster=best.choice.cluster.name,
                plan=best.choice.words,
                ttft=Seconds(best.ttft_s),
                tpot=Seconds(best.tpot_s),
                feasible=Percent(best.feasible),
            )
        )
    elif best is not None:
        lines.append(
            Text(
                "Take {cluster}: {plan}. TTFT {ttft}, TPOT {tpot} for nine in ten requests; "
                "{feasible} likely to keep every limit; {usd} a million answer tokens.",
                cluster=best.choice.cluster.name,
                plan=best.choice.words,
                ttft=Seconds(best.ttft_s),
                tpot=Seconds(best.tpot_s),
                feasible=Percent(best.feasible),
                usd=Usd(best.usd_per_million),
            )
        )
    elif nearest is not None:
        lines.append(
            Text(
                "Nothing keeps every limit with {certainty}. The nearest is {cluster}: {plan}: "
                "TTFT {ttft}, TPOT {tpot}, {feasible} likely.",
                certainty=Percent(plan.question.certainty),
                cluster=nearest.choice.cluster.name,
                plan=nearest.choice.words,
                ttft=Seconds(nearest.ttft_s),
                tpot=Seconds(nearest.tpot_s),
                feasible=Percent(nearest.feasible),
            )
        )
    else:
        lines += _overloaded(plan)
    lines += _contradicted(plan)
    return (*lines, *_energy(plan, best or nearest), *tied((), plan.complete))


def _overloaded(plan: ServingPlan) -> tuple[Text, ...]:
    """That none keeps up, what comes nearest, and how many devices would do as well each."""
    told = Text("None of these can serve that many requests: ask for more devices.")
    most = plan.overloaded
    if most is None:
        return (told,)
    count, device = most.choice.cluster.n_devices, most.choice.cluster.device
    return (
        told,
        Text(
            "The most serves {cluster}: {plan}: {rate} a second. At that rate each, {devices} x "
            "{device} would do.",
            cluster=most.choice.cluster.name,
            plan=most.choice.words,
            rate=Number(most.headroom * plan.question.rate_per_s, ".3g"),
            devices=ceil(count / most.headroom),
            device=device.name,
        ),
    )


def _contradicted(plan: ServingPlan) -> tuple[Text, ...]:
    """Latencies and a limit that cannot be kept together."""
    each, asked = plan.beyond, plan.question
    if each is None:
        return ()
    slo = ", ".join(f"{limit.metric}<{limit.seconds:g}s" for limit in asked.limits)
    why = broken(asked.within, asked.of_a_million(each), None, known=True) or ""
    return (
        Text(
            "{slo} and {limits} contradict each other: what keeps the one is {cluster}: {plan}. "
            "{why}",
            slo=slo,
            limits=", ".join(most.written for most in asked.within),
            cluster=each.choice.cluster.name,
            plan=each.choice.words,
            why=why,
        ),
    )


def _energy(plan: ServingPlan, taken: Offered | None) -> tuple[Text, ...]:
    """What a token and a request draw, and their CO2; nothing where it is not known."""
    if taken is None or taken.energy_per_token_j is None:
        return ()
    token_j, grid = taken.energy_per_token_j, plan.question.grid
    return (
        Text(
            "An answer token draws {token}, a request {request}: a million tokens are {kg} kg of "
            "CO2 equivalent ({factor}).",
            token=Joules(token_j),
            request=Joules(token_j * plan.question.answer),
            kg=amount(grid.grams(token_j * 1e6) / 1e3),
            factor=factor_of(grid),
        ),
    )


def _table(plan: ServingPlan, rows: Sequence[Offered]) -> Table:
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("TTFT"), "s"),
        Column(Text("TPOT"), "s"),
        Column(Text("TPOT by the quick score"), "s"),
        Column(Text("can serve"), "percent"),
        Column(Text("likely to do"), "percent"),
        Column(Text("a million tokens"), "USD"),
        Column(Text("energy a token"), "J"),
    )
    named = [each.choice.words.split(", ") for each in rows]
    alike = [part for part in named[0] if all(part in parts for parts in named)] if rows[1:] else []
    cells: list[tuple[Cell, ...]] = [
        (
            each.choice.cluster.name,
            ", ".join(part for part in parts if part not in alike) or "tp 1",
            each.ttft_s,
            each.tpot_s,
            each.scored_tpot_s,
            each.headroom,
            each.feasible,
            each.usd_per_million,
            each.energy_per_token_j,
        )
        for each, parts in zip(rows, named, strict=True)
    ]
    chosen = tuple(n for n, each in enumerate(rows) if each is plan.best)
    note = Text("Can serve: requests a second at most, of those that come.")
    if alike:
        note = Text(
            "Can serve: requests a second at most, of those that come. In every row: {alike}.",
            alike=", ".join(alike),
        )
    return Table(Text("The cheapest first"), columns, tuple(cells), chosen, note=note)


def _compared(plan: ServingPlan) -> tuple[Section, ...]:
    """The choice among what was simulated; nothing where nothing was."""
    if not plan.judged:
        return ()
    simulated = Section(Text("All that were simulated"), (_table(plan, plan.judged),))
    taken = plan.best or plan.nearest
    own: tuple[Section, ...] = ()
    if taken is not None and taken.simulated:
        own = (
            near_serving(plan.question, taken, plan.judged),
            what_holds(plan.question, taken.choice),
        )
    return (*_rivals(plan), simulated, *own, *around_serving(plan))


def _rivals(plan: ServingPlan) -> tuple[Section, ...]:
    """What each costs against its TPOT, with its interval; nothing without prices."""
    rows = [each for each in plan.judged if each.usd_per_million is not None]
    taken = plan.best or plan.nearest
    if not rows or taken is None or taken.usd_per_million is None:
        return ()
    places = [(each.usd_per_million or 0.0, each.tpot_s) for each in rows]
    reach = exp(SIMULATED_ERROR * SIGMAS)
    block = against(
        Text("TPOT against cost; each bar is an 80 % interval"),
        Axis(Text("a million tokens"), "USD", True),
        Axis(Text("TPOT"), "s"),
        places,
        [(x, y / reach, y * reach) for x, y in places],
        [(each.usd_per_million or 0.0, each.tpot_s) for each in plan.front],
        (taken.usd_per_million, taken.tpot_s),
        Text("simulated"),
    )
    limits = tuple(
        Mark(Text("limit"), y=limit.seconds, role="bad")
        for limit in plan.question.limits
        if limit.metric == "tpot"
    )
    return (Section(Text("All against all"), (replace(block, marks=(*block.marks, *limits)),)),)
