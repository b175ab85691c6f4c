"""What surrounds a serving plan's choice: what would halve its cost, or make the second win."""

from __future__ import annotations

from gpuscope.document.blocks import Paragraph, Section
from gpuscope.document.quantities import Number, Percent, Usd
from gpuscope.document.text import Text
from gpuscope.planning.serving.types import Offered, ServingPlan

__all__ = ["around_serving"]


def around_serving(plan: ServingPlan) -> tuple[Section, ...]:
    """Both; nothing where no choice was simulated or no price is known."""
    best = plan.best
    if best is None or not best.simulated or best.usd_per_million is None:
        return ()
    others = [e for e in plan.judged if e is not best and e.usd_per_million is not None]
    elsewhere = [e for e in others if e.choice.cluster != best.choice.cluster]
    cheapest = min(elsewhere, key=lambda each: each.usd_per_million or 0.0, default=None)
    found = [Section(Text("What would halve the cost"), _halved(plan, best, cheapest))]
    if cheapest is not None:
        title = Text("What would have to be true for the runner-up to win")
        found.append(Section(title, _second(plan, best, cheapest)))
    return tuple(found)


def _halved(plan: ServingPlan, best: Offered, cheapest: Offered | None) -> tuple[Paragraph, ...]:
    cluster, usd = best.choice.cluster, best.usd_per_million or 0.0
    rate = plan.question.rate_per_s
    told = []
    if cheapest is not None and (cheapest.usd_per_million or usd) < usd:
        told.append(
            Text(
                "{cluster}: {plan} costs {usd} a million answer tokens; it is {feasible} likely to "
                "keep every limit.",
                cluster=cheapest.choice.cluster.name,
                plan=cheapest.choice.words,
                usd=Usd(cheapest.usd_per_million),
                feasible=Percent(cheapest.feasible),
            )
        )
    if best.headroom >= 2:
        told.append(
            Text(
                "Twice the requests on as many devices: it serves {most} a second at most, of "
                "which {rate} come.",
                most=Number(best.headroom * rate, ".3g"),
                rate=Number(rate, ".3g"),
            )
        )
    told.append(
        Text(
            "Or an hour of {device} at {usd}.",
            device=cluster.device.name,
            usd=Usd((cluster.device.price_usd_per_hour or 0.0) / 2),
        )
    )
    return tuple(Paragraph(each) for each in told)


def _second(plan: ServingPlan, best: Offered, second: Offered) -> tuple[Paragraph, ...]:
    """The cheapest on other devices: surer, or cheaper."""
    device, usd = second.choice.cluster.device, second.usd_per_million or 0.0
    more = usd / (best.usd_per_million or usd) - 1
    told = [
        Text(
            "{cluster}: {plan} costs {more} % and is {feasible} likely to keep every limit.",
            cluster=second.choice.cluster.name,
            plan=second.choice.words,
            more=Number(100 * more, "+.1f"),
            feasible=Percent(second.feasible),
        )
    ]
    if second.feasible < plan.question.certainty:
        told.append(
            Text("It would have to be {share} likely.", share=Percent(plan.question.certainty))
        )
    price = device.price_usd_per_hour
    if more > 0 and price is not None:
        told.append(
            Text(
                "It wins if an hour of {device} costs less than {limit} ({price} is taken).",
                device=device.name,
                limit=Usd(price / (1 + more)),
                price=Usd(price),
            )
        )
    return tuple(Paragraph(each) for each in told)
