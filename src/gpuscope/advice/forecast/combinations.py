"""From forecasts to advice: each change alone, then the best combination, one change at a time.

Gains do not add up: a change may make another needless (a fused optimizer under CUDA graphs) or
worth it (graphs, once the kernels are short). So the combination is found best first, each
candidate predicted together with all that were chosen before. Gains mostly shrink as others are
made, so the gain a candidate had when it was last predicted serves as a bound, and only those that
could be best are predicted anew (Minoux, "Accelerated greedy algorithms", 1978). Since now and then
a gain grows, all that is left is tried once more at the end, then what excludes a chosen change in
its place, then the combination without what has become needless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import get_args

from gpuscope.advice.change import ON_REQUEST
from gpuscope.advice.forecast.forecaster import NOISE, Forecaster
from gpuscope.advice.registry import changes, find
from gpuscope.advice.results import Advice, Forecast, Refusal
from gpuscope.advice.types import ChangeCase, Numerics
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError

__all__ = ["advice_of", "allowed", "check_names"]

_HARMLESS = 0.9
"""A change that alone is worse than this is not tried in combinations."""

_MAY_GROW = 0.985
"""A change whose last gain was below this is not tried once more at the end."""

_FAR = 0.8
"""In a chosen change's place is tried what alone reaches this share of its gain; the compiler's
modes differ by less; a capture of each that lies further back is time without a gain."""

_NEEDLESS = 1 + NOISE / 2
"""A chosen change that gains less than this over the rest is left out again."""

_ORDER = ("helps", "little", "hurts", "does not fit", "fails")

Say = Callable[[str], None]


def advice_of(
    forecaster: Forecaster,
    names: Collection[str],
    *,
    allow: Collection[str] = (),
    only: Collection[str] = (),
    without: Collection[str] = (),
    say: Say = lambda text: None,
    over: Callable[[], bool] = lambda: False,
) -> Advice:
    """All of these changes alone, and the best of them together.

    Args:
        forecaster: predicts.
        names: of the changes.
        allow, only, without: see `gpuscope.advice.forecast.advise.advise`.
        say: told what is being done.
        over: whether the time for predicting is over: what was not predicted by then is in none of
            what is returned, and the combination stays as it is.

    Raises:
        UnknownNameError: a change or a numerics is not known.
    """
    check_names(allow, only, without)
    wanted = [n for n in names if (not only or n in only) and n not in without]
    forecaster.expect(len(wanted) // 3)  # of those known about a third fit a workload
    case, start = forecaster.case, forecaster.forecast(())
    fits = {name: forecaster.fit(name) for name in wanted}
    able = [name for name in wanted if fits[name].applies]
    forecaster.prepare([(name,) for name in able], over)
    reached = [name for name in able if not over() or forecaster.known((name,))]
    singles = [forecaster.forecast((name,)) for name in reached]
    singles.sort(key=lambda f: (_ORDER.index(f.effect), -_score(forecaster, f, start)[0], f.names))
    asked = (*allow, *only)
    free = [f for f in singles if f.effect != "fails" and allowed(f.names[0], case, asked)]
    path = _Combination(forecaster, start, free, say, over).path()
    refused = tuple(Refusal(name, fits[name]) for name in wanted if not fits[name].applies)
    return Advice(
        case,
        forecaster.objective,
        tuple(singles),
        path,
        refused,
        notes=_notes(forecaster, singles, path, asked),
    )


def check_names(allow: Collection[str], only: Collection[str], without: Collection[str]) -> None:
    """Refuse names of changes and numerics that there are not.

    Raises:
        UnknownNameError: one is not known.
    """
    known = {change.name for change in changes()}
    for word in allow:
        if word not in ON_REQUEST and word not in known:
            raise UnknownNameError(
                "numerics or change", word, (*ON_REQUEST, *known), Text("Type: --allow fp8,int8")
            )
    for name in (*only, *without):
        find(name)


def _asked_by(name: str) -> str:
    """What to allow, so that a change is made."""
    numerics = find(name).numerics
    return numerics if numerics in ON_REQUEST else name


def allowed(name: str, case: ChangeCase, allow: Collection[str]) -> bool:
    """Whether a change may go into a combination: by itself, or since it was asked for.

    Args:
        allow: numerics and names that were asked for.
    """
    change = find(name)
    return name in allow or change.numerics in allow or not change.on_request(case)


Score = tuple[float, float]
"""How many times better, and among those that are infinitely better (they fit at last) the pace."""


def _score(forecaster: Forecaster, forecast: Forecast, than: Forecast) -> Score:
    return forecaster.better(forecast, than), forecast.speedup or 0.0


def _unrest(name: str) -> tuple[int, bool, bool]:
    """How far results may move, then whether and how long it compiles: of two that gain the same,
    the lower."""
    change = find(name)
    return get_args(Numerics).index(change.numerics), change.compiles, change.searches


@dataclass
class _Combination:
    """A combination that grows by one change at a time."""

    forecaster: Forecaster
    start: Forecast
    singles: Sequence[Forecast]
    say: Say
    over: Callable[[], bool] = lambda: False
    chosen: list[str] = field(default_factory=list)

    def path(self) -> tuple[Forecast, ...]:
        """The combination, built up; () where nothing helps."""
        bounds = {f.names[0]: _score(self.forecaster, f, self.start) for f in self.singles}
        bounds = {name: score for name, score in bounds.items() if score[0] >= _HARMLESS}
        while not self.over() and self._grow(bounds):
            pass
        if not self.over():
            self._swap(bounds)
            self._thin()
        return tuple(
            self.forecaster.forecast(self.chosen[:count])
            for count in range(1, len(self.chosen) + 1)
        )

    def _prefix(self, count: int) -> Forecast:
        return self._quick(self.chosen[:count]) if count else self.start

    def _quick(self, names: Sequence[str]) -> Forecast:
        return self.forecaster.forecast(names, interval=False)

    @property
    def _now(self) -> Forecast:
        return self._prefix(len(self.chosen))

    def _grow(self, bounds: dict[str, Score]) -> bool:
        """Add the best change there is; whether there was one."""
        now, fresh = self._now, set[str]()
        able = [name for name in bounds if not self._excluded(name)]
        while able:
            best = max(able, key=lambda name: (bounds[name], name))
            if self.over():
                break
            if bounds[best][0] < 1 + NOISE and best not in fresh:
                # No bound promises a gain: whether one has grown is for a last look at all to say.
                stale = [
                    name for name in able if name not in fresh and bounds[name][0] >= _MAY_GROW
                ]
                if not stale:
                    break
                self.forecaster.prepare([(*self.chosen, name) for name in stale])
                for name in stale:
                    bounds[name] = self._tried(name, now)
                fresh |= set(stale)
                continue
            if best in fresh:
                break
            at_once = sorted(
                (n for n in able if n not in fresh and bounds[n][0] >= 1 + NOISE),
                key=lambda name: (bounds[name], name),
            )[-self.forecaster.processes :]
            if len(at_once) > 1:
                self.forecaster.prepare([(*self.chosen, name) for name in at_once])
            for name in at_once:
                bounds[name] = self._tried(name, now)
            fresh |= set(at_once)
        if not able or best not in fresh or bounds[best][0] < 1 + NOISE:
            return False
        self.chosen.append(best)
        del bounds[best]
        if now.run is not None and now.run.fits is False and self._now.run is not None:
            for name in bounds:  # what was measured by memory until now counts by time
                bounds[name] = (float("inf"), 0.0)
        return True

    def _tried(self, name: str, now: Forecast) -> Score:
        return _score(self.forecaster, self._quick((*self.chosen, name)), now)

    def _excluded(self, name: str, beside: Sequence[str] | None = None) -> bool:
        own = find(name)
        others = [find(n) for n in (self.chosen if beside is None else beside)]
        return name in (o.name for o in others) or any(
            o.name in own.excludes or name in o.excludes for o in others
        )

    def _swap(self, bounds: dict[str, Score]) -> None:
        """Put in a chosen change's place what excludes it, where that is better, or as good and
        calmer: nearer to the same results, or without compiling."""
        best = self._now
        for name in list(bounds):
            out = [at for at, c in enumerate(self.chosen) if self._excluded(name, [c])]
            if len(out) != 1 or self._far(name, self.chosen[out[0]]):
                continue
            other = [*self.chosen[: out[0]], name, *self.chosen[out[0] + 1 :]]
            forecast = self._quick(other)
            calmer = _unrest(name) < _unrest(self.chosen[out[0]])
            if _score(self.forecaster, forecast, self._now)[0] >= 1 + NOISE:
                self.chosen, best = other, forecast
            elif calmer and _score(self.forecaster, forecast, best)[0] >= 1 - NOISE:
                self.chosen = other

    def _far(self, name: str, chosen: str) -> bool:
        """Whether alone it gains so much less that it need not be tried in the other's place.

        Where memory decides first, what others free can turn that round.
        """
        if self.start.run is not None and self.start.run.fits is False:
            return False
        alone = {f.names[0]: self.forecaster.better(f, self.start) for f in self.singles}
        return alone[name] < _FAR * alone[chosen]

    def _thin(self) -> None:
        """Leave out what has become needless by what was added later."""
        for name in list(self.chosen[:-1]):
            at = self.chosen.index(name)
            gained = _score(self.forecaster, self._prefix(at + 1), self._prefix(at))[0]
            if gained >= 1.1 and find(name).numerics in ("exact", "reordered"):
                continue
            rest = [n for n in self.chosen if n != name]
            without = self._quick(rest)
            if _score(self.forecaster, self._now, without)[0] < _NEEDLESS:
                self.chosen = rest


def _notes(
    forecaster: Forecaster,
    singles: Sequence[Forecast],
    path: Sequence[Forecast],
    allow: Collection[str],
) -> tuple[Text, ...]:
    notes = []
    if forecaster.case.run.fits is False:
        notes.append(
            Text(
                "As it is, the step does not fit the device's memory; what makes it fit comes "
                "first."
            )
        )
    case = forecaster.case
    helpful = (f.names[0] for f in singles if f.effect == "helps")
    held = sorted(name for name in helpful if not allowed(name, case, allow))
    if held:
        named = ", ".join(held)
        kinds = ",".join(sorted({_asked_by(name) for name in held}))
        notes.append(
            Text(
                "Not in the combination, since it changes what is computed: {named}. To include: "
                "--allow {kinds}",
                named=named,
                kinds=kinds,
            )
        )
    if not path:
        free = [f for f in singles if allowed(f.names[0], case, allow)]
        most = max((forecaster.better(f, forecaster.forecast(())) for f in free), default=1.0)
        notes.append(
            Text(
                "Nothing gains more than {noise}: this is good as it is.",
                noise=Number(max(NOISE, most - 1), ".0%"),
            )
        )
    return tuple(notes)
