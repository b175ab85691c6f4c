"""`Change`: something a user can do. One small file each in `gpuscope/advice/changes/`.

A change acts on the user's own code while it runs (`install`), under a capture's fakes and on a
real device alike: so the same lines that are priced by `predict` are tried by `optimize`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.types import ChangeCase, Door, Edit, Fit, Group, Numerics, Seen
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.run import Run

__all__ = ["ON_REQUEST", "Change"]

ON_REQUEST: tuple[Numerics, ...] = ("fp8", "int8", "int4", "recipe")
"""Numerics that are not tried unless asked for."""


class Change(ABC):
    """Something a user can do to make a workload faster, smaller or cheaper.

    Attributes:
        name: what it is called on the command line and in plans: "tf32", "fused-optimizer".
        title: what it does, a few words.
        group: where it belongs.
        numerics: what it may do to results.
        excludes: names of changes that cannot go with it (two precisions, two compile modes); it
            is enough that one of two says so.
        needs_gpu: it acts only on a real GPU, so a trial on a processor is without meaning.
        compiles: it compiles or records, so that trials with it take longer; those of the group
            "compilation" do unless they say otherwise.
        searches: it also tries forms of kernels on the device while it compiles, often for
            minutes; of two that gain the same, the other is taken.
        redraws: other random numbers are drawn than in the original (by a loader's workers), so
            that results are compared over several seeds.
        variant_of: name of a change that does the same to the code of a step that trains, so that
            `transform` makes this one's program of that one's; "" for none.
        saves: a word for the time of a recording that `saving_s` is about; changes of one word
            would save the same time. "" for none.
        door: what programs it is for: "torch" (code), "onnx" (graphs) or "jax" (compiled steps).
        rank: order of installation; lower first (layout 10, precision 20, attention 30,
            recomputation 50, compilation 80, graphs 90).
    """

    name: str
    title: Text
    group: Group
    numerics: Numerics = "exact"
    excludes: frozenset[str] = frozenset()
    needs_gpu: bool = True
    compiles: bool = False
    searches: bool = False
    redraws: bool = False
    variant_of: str = ""
    saves: str = ""
    door: Door = "torch"
    rank: int = 20

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "compiles" not in cls.__dict__ and "group" in cls.__dict__:
            cls.compiles = cls.group == "compilation"

    @abstractmethod
    def fits(self, case: ChangeCase) -> Fit:
        """Whether it can be made here, and why (not). Cheap: nothing is captured or simulated."""

    @abstractmethod
    def install(self, live: Live) -> None:
        """Tell the live code what to do differently; everything is undone by `Live.close`.

        Raises:
            UnsupportedError: it turns out that it cannot be made (a package is missing, ...).
        """

    def environment(self) -> Mapping[str, str]:
        """Variables that a process must have before it starts (the allocator's settings, ...)."""
        return {}

    def transform(self, program: Program) -> Program | None:
        """The changed program, where that is certain without running the code again; else None.

        Args:
            program: without this change; with `variant_of` in its place, where there is one.

        A twin test holds it equal to what a capture with `install` gives.
        """
        return None

    def again(self, plain: Program, alone: Program, other: Program) -> Program | None:
        """What it makes of a program under other changes, as it did of the plain one; else None.

        Only where that is certain without running the code; a twin test holds it equal to a
        capture.

        Args:
            plain, alone: the program as it stands, and with this change alone.
            other: with other changes, without this one.
        """
        return None

    def price(self, case: ChangeCase) -> Text | None:
        """What it costs besides its risk (compile time, memory, a dependency); None for nothing."""
        return None

    def on_request(self, case: ChangeCase) -> bool:
        """Whether it is made only when asked for: it changes what is computed."""
        return self.numerics in ON_REQUEST

    def unforeseen(self, case: ChangeCase) -> bool:
        """Whether what it gains cannot be predicted (how long the host takes to make a batch), so
        that it is tried whatever the prediction says."""
        return False

    def risk(self, case: ChangeCase) -> Text | None:
        """What could go wrong for the results, beyond `numerics`; None for nothing."""
        return None

    def work_factor(self, case: ChangeCase) -> float:
        """Work of a changed step over the work of a step as it was: 2 for a batch twice as large.

        Speedups are for the same work: times are divided by it.
        """
        return 1.0

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """Seconds a step that it might save, (low, high), from a timeline alone.

        For traces and recordings, whose code cannot be captured; None where that cannot be said.
        """
        return None

    def typed(self, case: ChangeCase) -> Text | None:
        """What the user types or writes to make it, where neither `gs.apply` nor a patch can."""
        return None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """How to write it into the user's own source; None where only `gs.apply` can.

        Args:
            sources: path -> text of the user's files.
            seen: call sites of the live code.
        """
        return None

    def __repr__(self) -> str:
        return f"<change {self.name}>"
