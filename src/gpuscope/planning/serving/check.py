"""An existing server judged: itself simulated, and what is one decision away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.document.blocks import Explanation
from gpuscope.document.quantities import Number, Percent, Seconds, Usd
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.planning.limits import broken
from gpuscope.planning.sentences import bound_to
from gpuscope.planning.serving.existing import Server
from gpuscope.planning.serving.explanation import ASSUMPTIONS, title_of
from gpuscope.planning.serving.near import away_from, near_serving, what_holds
from gpuscope.planning.serving.search import order_of, scored, simulated
from gpuscope.planning.serving.types import Offered, ServingChoice

__all__ = ["CheckedServer", "check_server", "explained_server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedServer:
    """A server and its neighbours.

    Attributes:
        server: what its line says.
        own: itself, simulated.
        neighbours: those one decision away that were simulated, the best first.
        complete: False where it was interrupted.
    """

    server: Server
    own: Offered
    neighbours: tuple[Offered, ...]
    complete: bool = True

    @property
    def keeps(self) -> bool:
        """Whether it is sure enough to keep up and to keep every limit."""
        return self._sure(self.own)

    @property
    def better(self) -> Offered | None:
        """The surest neighbour that is sure enough where the server is not."""
        sure = [each for each in self.neighbours if self._sure(each)]
        return None if self.keeps else max(sure, key=lambda each: each.feasible, default=None)

    def _sure(self, each: Offered) -> bool:
        question = self.server.question
        over = broken(question.within, question.of_a_million(each), None)
        return each.headroom >= 1 and each.feasible >= question.certainty and over is None


def check_server(
    server: Server, on_choice: Callable[[int, int, ServingChoice], None] | None = None
) -> CheckedServer:
    """Judge a server and the best of its neighbours; interrupted, with those so far.

    Args:
        server: as `gpuscope.planning.serving.existing.existing_server` gives it.
        on_choice: told of each before it is simulated: number, how many, which.

    Raises:
        DoesNotFitError: the model has no room there.
    """
    question = server.question
    most = question.simulated
    if on_choice:
        on_choice(1, 1 + most, server.choice)
    own = simulated(question, scored(question, server.choice))
    away = [each.offered for each in away_from(question, own, (own,)) if each.offered is not None]
    found: list[Offered] = []
    try:
        for each in sorted(away, key=lambda each: order_of(question, each))[:most]:
            if on_choice:
                on_choice(2 + len(found), 1 + most, each.choice)
            try:
                found.append(simulated(question, scored(question, each.choice)))
            except GpuscopeError:  # no room for a request
                continue
    except KeyboardInterrupt:
        return CheckedServer(server=server, own=own, neighbours=tuple(found), complete=False)
    found.sort(key=lambda each: order_of(question, each))
    return CheckedServer(server=server, own=own, neighbours=tuple(found))


def explained_server(checked: CheckedServer) -> Explanation:
    """The judgement for a reader."""
    server, own = checked.server, checked.own
    question, choice = server.question, server.choice
    told = [
        Text(
            "{cluster}: {plan}. TTFT {ttft}, TPOT {tpot} for nine in ten requests; {feasible} "
            "likely to keep every limit; {usd} a million answer tokens.",
            cluster=choice.cluster.name,
            plan=choice.words,
            ttft=Seconds(own.ttft_s),
            tpot=Seconds(own.tpot_s),
            feasible=Percent(own.feasible),
            usd=Usd(own.usd_per_million),
        ),
        Text(
            "It serves {most} requests a second at most, of which {rate} come.",
            most=Number(own.headroom * question.rate_per_s, ".3g"),
            rate=Number(question.rate_per_s, ".3g"),
        ),
    ]
    over = broken(question.within, question.of_a_million(own), None)
    told += [over] if over is not None else []
    better = checked.better
    if better is not None:
        told.append(
            Text(
                "Better: {plan}: {feasible} likely to keep every limit.",
                plan=better.choice.words,
                feasible=Percent(better.feasible),
            )
        )
    if not checked.complete:
        told.append(Text("It was interrupted: this is the best so far."))
    if server.ignored:
        told.append(Text("Not in it: {names}.", names=", ".join(server.ignored)))
    judged = (own, *checked.neighbours)
    return Explanation(
        "plan-check",
        title_of(question),
        tuple(told),
        (near_serving(question, own, judged), what_holds(question, choice)),
        (),
        (),
        (*ASSUMPTIONS, *bound_to(choice.cluster, question.clusters)),
    )
