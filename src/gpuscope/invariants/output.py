"""A run with everything that is shown of it, as invariants look at it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuscope.analysis.breakdown import IDLE_PREFIX
from gpuscope.document.blocks import Block
from gpuscope.hardware import Device

if TYPE_CHECKING:
    from gpuscope.run import Run

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """What is shown of a run; `gpuscope.views.check.output_of` makes it.

    Attributes:
        run: the run.
        page: the data that its report is drawn from, the run first.
        screens: what the terminal shows of it, by language.
        pictures: what `--figures` draws.
        device: the catalogue's device of the run; None where it has none.
    """

    run: Run
    page: Json
    screens: Mapping[str, str]
    pictures: tuple[Block, ...] = ()
    device: Device | None = None

    @property
    def document(self) -> Json:
        """The page's part of this run."""
        found: Json = self.page["runs"][0]
        return found

    @property
    def figures(self) -> Json:
        """Rates and costs as headline, page and JSON have them."""
        found: Json = self.document["figures"]
        return found

    @property
    def use(self) -> Json:
        """The curves of the units over the step; without any, an empty list of them."""
        return self.document["use"] or {"series": ()}

    @property
    def predicted(self) -> bool:
        """Whether the models made it."""
        return self.run.origin == "predicted"

    @property
    def rank(self) -> int:
        """The rank that breakdowns describe."""
        return next(iter(self.run.analysis.time), 0)

    @property
    def idle_s(self) -> float:
        """Idle time of the step, as the breakdown by class has it."""
        return math.fsum(
            share.time_s
            for share in self.run.analysis.classes
            if share.label.startswith(IDLE_PREFIX)
        )

    @property
    def busy_s(self) -> float:
        """Device time of the step, as the breakdown by class has it."""
        return math.fsum(
            share.time_s
            for share in self.run.analysis.classes
            if not share.label.startswith(IDLE_PREFIX)
        )

    def series(self, key: str) -> Json | None:
        """One unit's curve on the page; None where it is not drawn."""
        found: Sequence[Json] = self.use["series"]
        return next((each for each in found if each["key"] == key), None)

    def blocks(self, sort: str) -> list[Json]:
        """The blocks of one sort in the page's view "What if"."""
        return [block for block in self.page["what_if"] if block.get("block") == sort]
