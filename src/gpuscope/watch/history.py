"""The last minutes of every host, in bounded memory, and the verdicts on them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from gpuscope.watch.types import DeviceSample, Sample, Verdict
from gpuscope.watch.verdict import judge
from gpuscope.watch.window import WINDOW_S

KEPT_S = 600.0
"""Seconds that are kept."""

MOST_SAMPLES = 6000
"""Of one host: the kept seconds at the shortest interval."""

MOST_CURVES = 1000
"""Curves that are kept up to date."""

_Key = tuple[str, int | None, Callable[[DeviceSample], float | None] | None, int, float]
"""Host, device, figure, columns and seconds of a curve; a host's own has no device."""


class History:
    """Samples by host; old ones are let go."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._samples: dict[str, deque[Sample]] = {}
        self._verdicts: dict[str, tuple[Verdict, ...]] = {}
        self._last: frozenset[str] = frozenset()
        self._curves: dict[_Key, _Curve] = {}

    def add(self, samples: Sequence[Sample]) -> None:
        """Take a source's newest samples; a host whose clock went back starts anew."""
        self._last = frozenset(sample.host for sample in samples)
        for sample in samples:
            kept = self._samples.setdefault(sample.host, deque(maxlen=MOST_SAMPLES))
            if kept and sample.unix_s < kept[-1].unix_s:
                kept.clear()
                self._curves.clear()
            if kept and sample.unix_s == kept[-1].unix_s:
                kept.pop()  # an exporter that was asked twice between two samples
            kept.append(sample)
            while kept[0].unix_s < sample.unix_s - self._kept_s:
                kept.popleft()
            self._verdicts.pop(sample.host, None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Their names, in the order in which they came."""
        return tuple(self._samples)

    @property
    def silent(self) -> tuple[str, ...]:
        """Hosts that were not in the last answer: their figures are old."""
        return tuple(host for host in self._samples if host not in self._last)

    def latest(self, host: str) -> Sample:
        """The newest sample of a host."""
        return self._samples[host][-1]

    def verdicts(self, host: str) -> tuple[Verdict, ...]:
        """One a device of the newest sample, in its order; judged when first asked for."""
        if host not in self._verdicts:
            recent = self.recent(host, WINDOW_S)
            self._verdicts[host] = tuple(
                judge(recent, device.info.index) for device in recent[-1].devices
            )
        return self._verdicts[host]

    def recent(self, host: str, seconds: float) -> list[Sample]:
        """The samples of the last seconds, oldest first."""
        kept = self._samples[host]
        since_s = kept[-1].unix_s - seconds
        found = []
        for sample in reversed(kept):
            if sample.unix_s < since_s:
                break
            found.append(sample)
        return found[::-1]

    def curve(
        self,
        host: str,
        index: int,
        figure: Callable[[DeviceSample], float | None],
        columns: int,
        seconds: float,
    ) -> list[float | None]:
        """Return a figure of a device over time, as means of equal stretches.

        Args:
            host: which.
            index: of the device.
            figure: what to read from each sample.
            columns: how many stretches.
            seconds: what they span together, up to the newest sample.

        Returns:
            One mean a stretch, oldest first; None where nothing was read.
        """
        return self._columns(
            (host, index, figure, columns, seconds),
            lambda s: next((figure(d) for d in s.devices if d.info.index == index), None),
        )

    def host_curve(self, host: str, columns: int, seconds: float) -> list[float | None]:
        """As `curve`, of the host's processors."""
        return self._columns((host, None, None, columns, seconds), lambda s: s.host_cpu)

    def _columns(self, key: _Key, figure: Callable[[Sample], float | None]) -> list[float | None]:
        host, _, _, columns, seconds = key
        if columns < 1:
            return []
        if len(self._curves) > MOST_CURVES:  # of terminals of other sizes, and of other spans
            self._curves.clear()
        curve = self._curves.setdefault(key, _Curve(seconds / columns))
        return curve.follow(self._samples[host], columns, figure)


class _Curve:
    """Means of equal stretches; each sample is read once.

    Stretches begin at whole multiples of their length, so that a column does not change its height
    while it moves along.
    """

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._read_until_s = -math.inf
        self._sums: dict[int, tuple[float, int]] = {}
        self._means: list[float | None] = []
        self._last = 0

    def follow(
        self, samples: deque[Sample], columns: int, figure: Callable[[Sample], float | None]
    ) -> list[float | None]:
        """Read what is new; return the last columns."""
        last = int(samples[-1].unix_s // self._step_s)
        oldest = last - columns + 1
        gone = min(last - self._last, columns) if self._means else columns
        self._means = self._means[gone:] + [None] * gone
        self._last = last
        for sample in reversed(samples):
            place = int(sample.unix_s // self._step_s)
            if sample.unix_s <= self._read_until_s or place < oldest:
                break
            value = figure(sample)
            if value is not None:
                total, count = self._sums.get(place, (0.0, 0))
                self._sums[place] = (total + value, count + 1)
                self._means[place - oldest] = (total + value) / (count + 1)
        self._read_until_s = samples[-1].unix_s
        if len(self._sums) > 2 * columns:
            self._sums = {p: found for p, found in self._sums.items() if p >= oldest}
        return list(self._means)
