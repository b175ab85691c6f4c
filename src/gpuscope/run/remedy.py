"""`Remedy`: a step as a change would make it, beside the run that it is a change of."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.timeline.types import Timeline


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of a predicted run, predicted in the same way.

    Attributes:
        findings: places of the findings that it answers in `Run.analysis.findings`.
        step_time_s: of the changed step.
        timeline: of the changed step.
        change: name of the change, as `gpuscope advise` has it; "" where the program was changed,
            as a finding's own outcome is simulated, and no code.
        title: what it does, a few words; None as above.
        speedup: time of the step over that of the changed one, for the same work; low, high: its
            80 % interval; None where it was not worked out.
        diff: unified diff of the user's code; "" where it is not known.
        numerics: what it does to the results, a few words; None where the change is no code.
        price: what it costs besides; None for nothing.
    """

    findings: tuple[int, ...]
    step_time_s: float
    timeline: Timeline
    change: str = ""
    title: Text | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    diff: str = ""
    numerics: Text | None = None
    price: Text | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.change, f"step {Seconds(self.step_time_s)}")
