"""Cost: US dollars of a step, or of all steps."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.document.quantities import Usd
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import Cluster
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured, read


def _read(text: str) -> float:
    written = f"{text[1:]}$" if text.startswith("$") else text
    return read(written, {"usd": 1.0, "$": 1.0}, Text("Prices are in US dollars."), "cost<5000usd")


def _of(each: Measured, steps: float) -> float | None:
    return None if each.usd is None else each.usd * steps


def _needs(clusters: Sequence[Cluster]) -> None:
    """Refuse devices without a price.

    Raises:
        InvalidValueError: with the first of them.
    """
    for cluster in clusters:
        if cluster.price_usd_per_hour is None:
            raise InvalidValueError(
                Text("The price of {device} is not known.", device=cluster.device.name),
                Text("What a plan costs is asked about."),
                Text("Give it with --prices FILE, leave that device out, or type: --goal time"),
            )


FIGURES.add(
    "cost",
    Figure(
        name="cost",
        title=Text("cost"),
        read=_read,
        shown=Usd,
        of=_of,
        needs=_needs,
        goal=True,
        timed=True,
    ),
)
