"""The distance between a step and its best possible time, shared out among its findings.

Every nanosecond of it goes to one finding at most: a `Ledger` holds what each device event loses
and each idle cause takes, and gives a finding what of its own nobody has had yet. Two things are
shared out so: what the findings speak for (`Account.explained_s`), and what they promise
(`with_gains`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.account import Losses
from gpuscope.analysis.account_types import Account
from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.columns import Floats
from gpuscope.analysis.critical_path import CriticalPath
from gpuscope.analysis.steps import StepTime
from gpuscope.analysis.types import About, Finding

WORTH_SAYING = 0.01
"""What another finding has of a finding's time, as a share of the step, from which it is said."""

FEWER = frozenset({"pointwise_bound", "launch_bound", "small_kernels", "bandwidth_bound"})
"""Kinds of findings whose advice makes fewer kernels, so that the host is done sooner, too; other
kernels can only get shorter, and save no more than what they outlast the host."""

MOST_OTHERS = 2
"""Findings that are named as having it."""

KNOWN_BETTER = 0.98
"""A step below this part of its timeline's was measured without the recorder: then the recording's
path, drawn with a slowed host, does not say what a faster kernel gains."""


@dataclass(slots=True)
class Ledger:
    """What of a step nobody has taken yet.

    Attributes:
        step_s: the step.
        place: index of a device event by its row in `Timeline.events`.
        own_s, peak_s: what each event loses, and what it takes at its best.
        of_loss, of_peak: the part of both that is left, 0..1.
        kernel: which events are kernels.
        shorter_s, fewer_s: what shorter kernels can still save, and what fewer of them can.
        idle_s: idle seconds by cause.
        of_idle: the part of each that is left.
    """

    step_s: float
    place: dict[int, int]
    own_s: Floats
    peak_s: Floats
    of_loss: Floats
    of_peak: Floats
    kernel: npt.NDArray[np.bool_]
    shorter_s: float
    fewer_s: float
    idle_s: dict[str, float]
    of_idle: dict[str, float]

    @classmethod
    def of(
        cls, lost: Losses, rows: Rows, timed: StepTime, path: CriticalPath | None = None
    ) -> Ledger:
        """Return the ledger of a step that nothing was taken from.

        Args:
            lost, rows: the device events and their losses.
            timed: the step with its idle time by cause.
            path: where it is given, shorter kernels save no more than it says: none of what a late
                host hides.
        """
        shorter_s = fewer_s = float("inf")
        if path is not None and path.end_ns > path.start_ns:
            length_s = (path.end_ns - path.start_ns) * 1e-9 / path.steps
            if timed.step_s >= KNOWN_BETTER * length_s:
                shorter_s, fewer_s = path.gain_s.get("kernel", 0.0), path.fused_gain_s
        count = len(lost.loss_s)
        return cls(
            step_s=timed.step_s,
            place={event: at for at, event in enumerate(rows.work.event.tolist())},
            own_s=lost.loss_s,
            peak_s=lost.peak_s,
            of_loss=np.ones(count),
            of_peak=np.ones(count),
            kernel=lost.matrix | lost.streaming | lost.unknown,
            shorter_s=shorter_s,
            fewer_s=fewer_s,
            idle_s=dict(timed.idle_s),
            of_idle=dict.fromkeys(timed.idle_s, 1.0),
        )

    def at(self, about: About) -> npt.NDArray[np.int64]:
        """Return the indices of the device events that a finding names."""
        return np.array([self.place[event] for event in about.events], np.int64)

    def works(self, about: About) -> bool:
        """Return whether a finding is about kernels."""
        return bool(self.kernel[self.at(about)].any())

    def work_s(self, about: About) -> float:
        """Return all the seconds of the events that a finding names, and what others of it lose."""
        at = self.at(about)
        return float((self.own_s[at] + self.peak_s[at]).sum()) + self._unnamed_s(about)

    def _unnamed_s(self, about: About) -> float:
        """What events lose that a finding is about but, being very many, does not name."""
        return max(0.0, about.explains_s - about.idle_s - float(self.own_s[self.at(about)].sum()))

    def take(self, about: About, wanted_s: float) -> float:
        """Give a finding so many seconds of what it names, as far as they are there."""
        idle_s = min(wanted_s, about.idle_s)
        return self.take_idle(about, idle_s) + self.take_work(about, wanted_s - idle_s)[0]

    def take_idle(self, about: About, wanted_s: float) -> float:
        """Give a finding so much of the idle time that it names, of each cause in proportion."""
        part = _part(wanted_s, sum(self.idle_s.get(cause, 0.0) for cause in about.idle))
        taken_s = 0.0
        for cause in about.idle:
            own = min(part, self.of_idle[cause])
            taken_s += own * self.idle_s[cause]
            self.of_idle[cause] -= own
        return taken_s

    def kernels_s(self, fewer: bool) -> float:
        """Return what kernels can still save, getting fewer or only shorter."""
        return self.fewer_s if fewer else min(self.shorter_s, self.fewer_s)

    def take_work(self, about: About, wanted_s: float, fewer: bool = False) -> tuple[float, float]:
        """Give a finding so much of the device time that it names.

        What its events lose, of each in proportion; what is wanted beyond all of that (of kernels
        that another dtype would take below their roofline) of their best time.

        Args:
            about: what it names.
            wanted_s: how much.
            fewer: its kernels get fewer, not only shorter.

        Returns:
            What it got, and what it did not only because shorter kernels save nothing.
        """
        at = self.at(about)
        loss_s, peak_s = float(self.own_s[at].sum()), float(self.peak_s[at].sum())
        unnamed_s = self._unnamed_s(about)
        loss = np.minimum(_part(wanted_s, loss_s), self.of_loss[at])
        peak = np.minimum(_part(wanted_s - loss_s - unnamed_s, peak_s), self.of_peak[at])
        there_s = float((loss * self.own_s[at] + peak * self.peak_s[at])[self.kernel[at]].sum())
        most_s = self.kernels_s(fewer)
        hidden_s = max(0.0, there_s - most_s)
        if hidden_s > 0 and there_s > 0:
            kept = np.where(self.kernel[at], most_s / there_s, 1.0)
            loss, peak = loss * kept, peak * kept
        self._spend(there_s - hidden_s, fewer)
        self.of_loss[at] -= loss
        self.of_peak[at] -= peak
        taken_s = float((loss * self.own_s[at] + peak * self.peak_s[at]).sum())
        more_s = self._take_unnamed(at, min(unnamed_s, wanted_s - loss_s), fewer)
        return taken_s + more_s, hidden_s

    def _spend(self, time_s: float, fewer: bool) -> None:
        self.fewer_s = max(0.0, self.fewer_s - time_s)
        if not fewer:
            self.shorter_s = max(0.0, self.shorter_s - time_s)

    def _take_unnamed(self, named: npt.NDArray[np.int64], wanted_s: float, fewer: bool) -> float:
        """Of a finding that is about more events than it names, what the others of them lose."""
        if wanted_s <= 0:
            return 0.0
        others = self.of_loss * self.own_s
        others[named] = 0.0
        part = _part(min(wanted_s, self.kernels_s(fewer)), float(others.sum()))
        self.of_loss -= np.where(others > 0, self.of_loss * part, 0.0)
        self._spend(float(others[self.kernel].sum()) * part, fewer)
        return float(others.sum()) * part

    def take_rest(self, wanted_s: float) -> float:
        """Give a finding so much of the distance that is left, of everything in proportion."""
        idle_s = sum(self.idle_s[cause] * part for cause, part in self.of_idle.items())
        left_s = idle_s + float((self.of_loss * self.own_s).sum())
        part = _part(wanted_s, left_s)
        self.of_loss *= 1.0 - part
        self.of_idle = {cause: left * (1.0 - part) for cause, left in self.of_idle.items()}
        return part * left_s


def _part(wanted_s: float, of_s: float) -> float:
    return min(1.0, max(0.0, wanted_s / of_s)) if of_s > 0 else 0.0


def with_explained(
    found: Account | None, lost: Losses, rows: Rows, timed: StepTime, abouts: Iterable[About | None]
) -> Account | None:
    """Return the account with `explained_s`.

    Several findings may be about one event, each for a part of its loss: together they explain no
    more than all of it. An idle cause that one finding names is explained.

    Args:
        found: the account without it.
        lost, rows: the device events and their losses.
        timed: the step with its idle time by cause.
        abouts: of the findings.
    """
    if found is None or not found.distance_s:
        return found
    ledger = Ledger.of(lost, rows, timed)
    told = (about for about in abouts if about is not None)
    explained_s = sum(ledger.take(about, about.explains_s) for about in told)
    return replace(found, explained_s=min(found.distance_s, explained_s))


def with_gains(found: Sequence[Finding], ledger: Ledger) -> tuple[Finding, ...]:
    """Return findings whose gains are disjoint, in the same order.

    Who names least is served first, of equals the later one: what is said of a few products is a
    cause, what is said of all kernels or of all idle time has the rest. What a finding wants beyond
    all that it names (slow steps name nothing) comes last, out of what is left of the distance.

    Args:
        found: with the most that each could save, were it the only one; the broadest sorts first.
        ledger: of the step.
    """
    wanted = {at: each.max_gain_s for at, each in enumerate(found) if each.max_gain_s}
    abouts = {at: found[at].about or About() for at in wanted}
    got, hidden = dict.fromkeys(wanted, 0.0), dict.fromkeys(wanted, 0.0)
    for at in sorted(wanted, key=lambda at: (abouts[at].idle_s, -at)):
        got[at] = ledger.take_idle(abouts[at], min(wanted[at], abouts[at].idle_s))
    work_s = {at: ledger.work_s(about) for at, about in abouts.items()}
    for at in sorted(wanted, key=lambda at: (work_s[at], -at)):
        rest_s, fewer = wanted[at] - abouts[at].idle_s, found[at].kind in FEWER
        own_s, hidden[at] = ledger.take_work(abouts[at], rest_s, fewer)
        got[at] += own_s
    for at in wanted:
        got[at] += ledger.take_rest(wanted[at] - abouts[at].idle_s - work_s[at])
    settled = [
        replace(each, max_gain_s=min(wanted[at], got[at])) if at in wanted else each
        for at, each in enumerate(found)
    ]
    return tuple(
        replace(each, rest_with=_rest_with(at, settled, ledger, 2 * hidden[at] > missing_s))
        if at in wanted and (missing_s := wanted[at] - got[at]) >= WORTH_SAYING * ledger.step_s
        else each
        for at, each in enumerate(settled)
    )


def _rest_with(
    at: int, settled: Sequence[Finding], ledger: Ledger, hidden: bool
) -> tuple[str, ...]:
    """Kinds of the findings that gain what one finding does not, the largest gain first.

    Args:
        at: which finding.
        settled: all of them.
        ledger: of the step.
        hidden: shorter kernels save nothing before the device waits no more.
    """
    own = settled[at].about or About()
    others = [
        other
        for n, other in enumerate(settled)
        if n != at and other.max_gain_s and other.about is not None
    ]
    if hidden:
        holders = [other for other in others if other.about and not ledger.works(other.about)]
    else:
        holders = [other for other in others if other.about and _meet(own, other.about)]
    holders.sort(key=lambda other: -(other.max_gain_s or 0.0))
    return tuple(dict.fromkeys(other.kind for other in holders[:MOST_OTHERS]))


def _meet(one: About, other: About) -> bool:
    """Whether two findings name the same event or cause of idle time."""
    return bool(set(one.idle) & set(other.idle) or set(one.events) & set(other.events))
