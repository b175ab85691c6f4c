"""Progress of a plan: which candidate is being simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuscope.cli.progress import progress

if TYPE_CHECKING:
    from gpuscope.planning.own.types import Changed
    from gpuscope.planning.serving.sliced_types import Way
    from gpuscope.planning.serving.types import ServingChoice
    from gpuscope.planning.tuning.types import Tuned
    from gpuscope.planning.types import Candidate

    Planned = Candidate | Changed | Tuned | ServingChoice | Way
    Tell = Callable[[int, int, Planned], None]


@contextmanager
def simulating(quiet: bool, lang: str) -> Iterator[Tell]:
    """Give what tells the number of a candidate, of how many, and the candidate."""
    from gpuscope.views.i18n import tr

    with progress(quiet) as say:

        def tell(number: int, total: int, candidate: Planned) -> None:
            say(
                tr(
                    "Simulating {plan} ({number} of {total}) …",
                    lang,
                    plan=f"{candidate.cluster.name}: {candidate.words}",
                    number=number,
                    total=total,
                )
            )

        yield tell
