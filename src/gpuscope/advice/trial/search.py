"""The search for the best set of changes: prediction leads, few real trials decide.

The predicted best combination is tried at once (with little time, first what of it needs no
compiler). Where it wins, its steps are measured one by one, and what adds nothing is left out;
where it fails, halves of it are tried until the culprit is known. What waits is tried in the order
of what it promises for its time, the logarithm of the predicted gain a second: a budget that ends
early has then bought the most. A change that breaks parity is never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, prod
from typing import Protocol

from gpuscope.advice.results import Forecast, Purpose, Stopped, Trial
from gpuscope.advice.trial.budget import Budget
from gpuscope.advice.trial.outcomes import OVER
from gpuscope.advice.trial.paired_gain import Gain, paired_gain
from gpuscope.document.text import Text, sentences

__all__ = ["Rules", "Search", "Wanted"]

_WORTH = 1.01
"""Predicted gain from which one more change is tried by itself."""
_TIGHT = 3.0
"""With less time than for so many trials that compile, what needs no compiler is tried first: how
long a host compiles is not known (ladders on H200 hosts: 7 to 137 s beside the guess of 60)."""
_SECURES = 1.1
"""Predicted gain from which that is worth a trial of its own."""
_NO_LOSS = 0.99
"""A change is left out where, without it, the whole interval is above this."""
_BROKEN = ("parity", "crashed", "short", "hung", "memory", "impossible")
_HOPELESS = ("fails", "does not fit")

_ALONE = Text("Predicted is what each gains by itself, against the code as it is.")

_GROWING: tuple[Purpose, ...] = ("jump", "part", "more", "other")
"""Trials that become the best where they win."""

Names = tuple[str, ...]


class Rules(Protocol):
    """What the search has to know of changes."""

    def conflict(self, one: str, other: str) -> bool:
        """Whether two changes cannot go together."""
        ...

    def compiles(self, name: str) -> bool:
        """Whether a change makes a trial much longer: it compiles."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to try.

    Attributes:
        path: the predicted best combination, in the order in which it was built up.
        singles: each possible change alone, as predicted, the best first.
        others: how many changes of which little is expected are tried all the same.
        alone: also try each possible change by itself against the original code.
    """

    path: Names
    singles: tuple[Forecast, ...] = ()
    others: int = 2
    alone: bool = False


class Search:
    """One search; its state can be read at any time, also after an interruption.

    Args:
        contest: really runs a set of changes (second) against the best until now (first).
        forecast: predicts a set of changes; None where that cannot be done.
        wanted: what to try.
        rules: see `Rules`.
        budget: for all trials.
        tell: is given each trial once it is over.
        cheap: whether predicting a set takes no time to speak of; else it is only predicted where
            the prediction decides, or belongs to a rung of the ladder.
        patched: what is kept is run once more at the end, as a patch: time is left for that.

    Attributes:
        best: names that are kept until now.
        trials: in order.
    """

    def __init__(
        self,
        contest: Callable[[Names, Names], Trial],
        forecast: Callable[[Names], Forecast | None],
        wanted: Wanted,
        rules: Rules,
        budget: Budget,
        tell: Callable[[Trial], None] = lambda trial: None,
        cheap: Callable[[Names], bool] = lambda names: True,
        patched: bool = False,
    ) -> None:
        self.best: Names = ()
        self.trials: list[Trial] = []
        self._contest, self._forecast, self._tell = contest, forecast, tell
        self._wanted, self._rules, self._budget, self._cheap = wanted, rules, budget, cheap
        self._patched = patched
        self._chain: list[Trial] = []

    def run(self) -> None:
        """Search until nothing is left to try, or the budget is over."""
        self._secure()
        self._grow(self._wanted.path, "jump")
        self._more()
        self._steps()
        self._without()
        self._others()
        self._final()
        if self._wanted.alone:
            self._alone()
        self._untried()

    def gain(self) -> Gain | None:
        """The original over the best (low, middle, high): measured in pairs where that was done,
        else the product of what was won step by step; None where nothing was won."""
        if not self.best:
            return None
        direct = paired_gain(self.trials, self.best)
        if direct is not None:
            return direct
        low, middle, high = 1.0, 1.0, 1.0
        for trial in self._chain:
            if trial.speedup is None or trial.low is None or trial.high is None:
                return None
            low, middle, high = low * trial.low, middle * trial.speedup, high * trial.high
        return low, middle, high

    def step_s(self) -> float | None:
        """The step of the best, as it was last measured; None where it was not."""
        found = [
            t.measured.step_s
            for t in self.trials
            if set(t.names) == set(self.best) and t.measured is not None
        ]
        return found[-1] if found else None

    def closing_s(self) -> float:
        """Seconds that running what is kept until now as a patch will take; 0 without one."""
        if not (self._patched and self.best):
            return 0.0
        return self._budget.expected_s(compiles=any(map(self._rules.compiles, self.best)))

    def in_pairs(self) -> bool:
        """Whether `gain` was measured directly, original against best."""
        return paired_gain(self.trials, self.best) is not None

    # -- phases ----------------------------------------------------------------------------------

    def _secure(self) -> None:
        """With little time: what needs no compiler first, so that something is found in any case.

        The whole set has then only to beat this one; where it does, original and best are
        compared at the end.
        """
        path = self._wanted.path
        quick = tuple(name for name in path if not self._rules.compiles(name))
        slow = self._budget.expected_s(compiles=True)
        tight = self._budget.left_s <= _TIGHT * slow
        if not tight or quick in ((), path) or not self._affords(compiles=False, purpose="part"):
            return
        expected = self._expected(quick, ()) if self._cheap(quick) else None
        if expected is None or expected >= _SECURES:
            self._grow(quick)

    def _grow(self, group: Names, purpose: Purpose = "part") -> None:
        """Add a group of changes; where that fails, its halves, and where there is no time for
        what compiles of it, the rest: always what promises most for its time first."""
        waiting = [group]
        while waiting:
            taken = max(waiting, key=self._worth)
            waiting.remove(taken)
            group = tuple(n for n in taken if n not in self.best and not self._is_bad(n))
            if not group:
                continue
            if len(group) == 1 and self._is_broken((*self.best, *group)):
                self._convict(group[0])
                continue
            trial = self._try((*self.best, *group), purpose)
            purpose = "part"
            if trial is None:
                quick = tuple(n for n in group if not self._rules.compiles(n))
                waiting += [quick] if quick not in ((), group) else []
            elif not self._accept(trial) and len(group) > 1 and trial.outcome != "short":
                middle = (len(group) + 1) // 2
                waiting += [group[:middle], group[middle:]]

    def _worth(self, group: Names) -> float:
        """What a group promises, by the time that its trial will take: the logarithm of its gain a
        second. By the gains of each alone: those on top of the best would take predicting."""
        added = tuple(n for n in group if n not in self.best)
        compiles = any(map(self._rules.compiles, (*self.best, *added)))
        seconds = max(self._budget.expected_s(compiles=compiles), 1e-9)
        return log(self._alone_gain(added) or 1.0) / seconds

    def _alone_gain(self, names: Names) -> float | None:
        """What changes gain each by itself, as predicted, multiplied; None where one is unknown."""
        alone = {f.names[-1]: f.speedup for f in self._wanted.singles}
        gains = [alone.get(name) for name in names]
        return prod(g for g in gains if g) if gains and all(gains) else None

    def _convict(self, name: str) -> None:
        """The set failed with this change, and all the others are good together: it is this one."""
        names = (*self.best, name)
        failed = self._last(names)
        why = sentences(Text("It works without '{change}'.", change=name), failed.why)
        trial = replace(
            failed,
            names=names,
            added=(name,),
            against=self.best,
            purpose="part",
            seconds=0.0,
            speedup=None,
            low=None,
            high=None,
            why=why,
        )
        self.trials.append(self._predicted(trial))
        self._tell(self.trials[-1])

    def _more(self) -> None:
        """Add single changes that are predicted to gain on top of the best."""
        if set(self.best) == set(self._wanted.path):
            return  # the path ended where nothing gains any more
        waiting = [f.names[-1] for f in self._wanted.singles if (f.speedup or 0) >= _WORTH]
        while waiting:
            name = max(waiting, key=lambda name: self._worth((name,)))
            waiting.remove(name)
            if name in self.best or self._is_bad(name):
                continue
            names = self._with(name)
            expected = self._expected(names, self.best)
            if expected is not None and expected >= _WORTH:
                trial = self._try(names, "more")
                if trial is not None:
                    self._accept(trial)

    def _steps(self) -> None:
        """Measure each change of the best against those before it."""
        names = self._ordered(self.best)
        for at in range(len(names)):
            known = self._measured(names[: at + 1], names[:at])
            if known is not None:
                self.trials.append(replace(known, purpose="step", seconds=0.0))
                self._tell(self.trials[-1])
            else:
                self._try(names[: at + 1], "step", against=names[:at])

    def _without(self) -> None:
        """Leave out what gained nothing in its step and is not missed."""
        idle = [
            t.added[0]
            for t in self.trials
            if t.purpose == "step" and t.outcome in ("even", "slower")
        ]
        for name in idle:
            if name not in self.best:
                continue
            fewer = tuple(n for n in self.best if n != name)
            if not fewer:
                continue  # it was measured against the original: the jump has said so
            trial = self._try(fewer, "without")
            if trial is None or trial.speedup is None or not _sound(trial):
                continue
            if trial.outcome == "kept" or (trial.low is not None and trial.low >= _NO_LOSS):
                self.best = fewer
                self._chain.append(trial)

    def _others(self) -> None:
        """Try what little is expected of: the prediction may be wrong."""
        tried = {name for trial in self.trials for name in trial.names}
        doubtful = [
            f
            for f in self._wanted.singles
            if f.names[-1] not in tried
            and f.effect not in _HOPELESS
            and (f.high or f.speedup or 0.0) >= 1.0
        ]
        doubtful.sort(key=lambda f: -(f.speedup or 0.0))
        for single in doubtful[: self._wanted.others]:
            trial = self._try(self._with(single.names[-1]), "other")
            if trial is not None:
                self._accept(trial)

    def _final(self) -> None:
        """Hold the best against the original in pairs, where that was not done."""
        if self.best and not self.in_pairs():
            self._try(self.best, "final", against=())

    def _alone(self) -> None:
        """Try each possible change by itself, for the evidence."""
        for single in self._wanted.singles:
            if single.effect in _HOPELESS or self._tried(single.names, ()):
                continue
            self._try(single.names, "alone", against=())

    def _untried(self) -> None:
        """Write down what was not tried, and what is expected of it."""
        judged = {trial.added for trial in self.trials}
        for single in self._wanted.singles:
            if single.names not in judged and single.names[-1] not in self.best:
                untried = Trial(single.names, single.names, (), "skipped", why=single.why)
                self.trials.append(replace(untried, forecast=single, expected=single.speedup))

    # -- one trial -------------------------------------------------------------------------------

    def _try(self, names: Names, purpose: Purpose, against: Names | None = None) -> Trial | None:
        """Run a set against the best, or another; None where it is not run."""
        against = self.best if against is None else against
        if self._tried(names, against) or (purpose != "alone" and self._is_broken(names)):
            return self._last(names)
        added = tuple(n for n in names if n not in against)
        compiles = any(self._rules.compiles(n) for n in names)
        if not self._affords(compiles, purpose):
            if not any(t.outcome == "skipped" and set(t.names) == set(names) for t in self.trials):
                skipped = Trial(names, added, against, "skipped", why=OVER, purpose=purpose)
                self.trials.append(self._predicted(skipped))
            return None
        try:
            trial = self._contest(against, names)
        except Stopped as stop:
            self.trials.append(replace(stop.trial, purpose=purpose))
            raise
        trial = replace(trial, names=names, added=added, against=against, purpose=purpose)
        trial = self._predicted(trial)
        self._budget.saw(trial.seconds, compiles=compiles)
        self.trials.append(trial)
        if purpose in _GROWING:
            self._accept(trial)  # before it is told, so that what is written down knows the best
        self._tell(trial)
        return trial

    def _accept(self, trial: Trial) -> bool:
        """Make it the best where it won."""
        if self._chain and self._chain[-1] is trial:
            return True
        if trial.outcome != "kept" or not _sound(trial) or set(trial.against) != set(self.best):
            return False
        self.best = trial.names
        self._chain.append(trial)
        return True

    def _predicted(self, trial: Trial) -> Trial:
        """The trial with its forecast; of one that was not run and whose set would take long to
        predict, with what its changes were predicted to gain alone."""
        if trial.purpose in ("jump", "step") or self._known(trial.names, trial.against):
            forecast = self._forecast(trial.names)
            expected = self._expected(trial.names, trial.against)
            trial = replace(trial, forecast=forecast, expected=expected)
        if trial.outcome != "skipped" or trial.expected is not None:
            return trial
        alone = self._alone_gain(trial.added)
        if alone is None:
            return trial
        return replace(trial, expected=alone, why=sentences(trial.why, _ALONE))

    def _known(self, *sets: Names) -> bool:
        """Whether sets are predicted already, or in no time to speak of."""
        return all(map(self._cheap, sets))

    def _expected(self, names: Names, against: Names) -> float | None:
        """Predicted speedup of one set over another."""
        after, before = self._forecast(names), self._forecast(against) if against else None
        if after is None or after.speedup is None:
            return None
        if not against:
            return after.speedup
        return after.speedup / before.speedup if before and before.speedup else None

    def _affords(self, compiles: bool, purpose: Purpose) -> bool:
        """Whether there is time for it; what comes at the end is kept in mind."""
        left = self._budget.left_s - self.closing_s()
        if purpose == "jump":
            return left > 0
        needed = self._budget.expected_s(compiles=compiles)
        if purpose != "final" and self.best and not self.in_pairs():
            slow = any(self._rules.compiles(n) for n in self.best)
            needed += self._budget.expected_s(compiles=slow)
        return left >= needed

    # -- what is known ---------------------------------------------------------------------------

    def _with(self, name: str) -> Names:
        """The best with one more change, in place of those that it excludes."""
        kept = (n for n in self.best if not self._rules.conflict(n, name))
        return (*kept, name)

    def _ordered(self, names: Names) -> Names:
        """As they were built up, but what compiles last: so that few steps have to compile."""
        return tuple(sorted(names, key=self._rules.compiles))

    def _measured(self, names: Names, against: Names) -> Trial | None:
        return next(
            (
                t
                for t in reversed(self.trials)
                if set(t.names) == set(names)
                and set(t.against) == set(against)
                and t.speedup is not None
            ),
            None,
        )

    def _tried(self, names: Names, against: Names) -> bool:
        return any(
            set(t.names) == set(names) and set(t.against) == set(against) and t.outcome != "skipped"
            for t in self.trials
        )

    def _last(self, names: Names) -> Trial:
        return next(
            t
            for t in reversed(self.trials)
            if set(t.names) == set(names) and t.outcome != "skipped"
        )

    def _is_broken(self, names: Names) -> bool:
        """The very same set failed by itself, whatever it was held against."""
        return any(set(t.names) == set(names) and t.outcome in _BROKEN for t in self.trials)

    def _is_bad(self, name: str) -> bool:
        """It was tried by itself on top of something, and did not win."""
        return any(t.added == (name,) and t.outcome not in ("kept", "skipped") for t in self.trials)


def _sound(trial: Trial) -> bool:
    """Parity holds, or was not asked for."""
    return trial.outcome not in _BROKEN and (trial.parity is None or trial.parity.good)
