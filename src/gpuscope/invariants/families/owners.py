"""Energy, power and cost of a job are of the job, those of a rank of the rank."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant


@invariant("owners")
def owners(output: Output, book: Book) -> None:
    """A job's figures are the sums of its ranks', and equal ranks have equal ones."""
    run, shown, energy = output.run, output.figures, output.run.analysis.energy
    # Tables of one rank stand beside the job's figures only where it is said whose they are.
    many = run.analysis.job is not None or len(run.analysis.time) > 1
    book.same(_of("whose", "analysis.time"), bool(output.document["whose"]), many, "")
    if not run.rank_results:
        if output.predicted:
            book.same(
                _of("figures.job_energy_j", "energy_j"), shown["job_energy_j"], run.energy_j, "J"
            )
        return
    parts = [rank.energy_j for rank in run.rank_results]
    total = None
    if None not in parts:
        total = sum((rank.energy_j or 0.0) * len(rank.members) for rank in run.rank_results)
    book.same(
        _of("figures.job_energy_j", "rank_results: energy_j"), shown["job_energy_j"], total, "J"
    )
    place = run.place
    if place is not None and place.price_usd_per_hour is not None:
        rent = place.price_usd_per_hour * run.step_time_s / 3600
        book.same(_of("figures.usd_per_step", "place"), shown["usd_per_step"], rent, "usd")
        if energy is not None and energy.cost_usd is not None:
            book.same(
                _of("analysis.energy.cost_usd", "figures.usd_per_step"),
                energy.cost_usd * shown["devices"],
                shown["usd_per_step"],
                "usd",
                within=1e-6,
            )
    if (
        run.tokens
        and shown["tokens_per_s"] is not None
        and shown["tokens_per_s_per_device"] is not None
    ):
        book.same(
            _of("figures.tokens_per_s_per_device", "tokens_per_s"),
            shown["tokens_per_s_per_device"] * shown["devices"],
            shown["tokens_per_s"],
            "",
        )


def _of(one: str, other: str) -> Text:
    return Text("{one} and {other}", one=one, other=other)
