"""The last minutes of every host, in bounded memory, and the verdicts on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gpuscope.watch.types import DeviceSample, Sample, Verdict
from gpuscope.watch.verdict import judge
from gpuscope.watch.window import WINDOW_S

KEPT_S = 600.0
"""Seconds that are kept."""

MOST_SAMPLES = 6000
"""Of one host: the kept seconds at the shortest interval."""


class History:
    """Samples by host; old ones are let go."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._samples: dict[str, deque[Sample]] = {}
        self._verdicts: dict[str, tuple[Verdict, ...]] = {}
        self._last: frozenset[str] = frozenset()

    def add(self, samples: Sequence[Sample]) -> None:
        """Take a source's newest samples; a host whose clock went back starts anew."""
        self._last = frozenset(sample.host for sample in samples)
        for sample in samples:
            kept = self._samples.setdefault(sample.host, deque(maxlen=MOST_SAMPLES))
            if kept and sample.unix_s < kept[-1].unix_s:
                kept.clear()
            if kept and sample.unix_s == kept[-1].unix_s:
                kept.pop()  # an exporter that was asked twice between two samples
            kept.append(sample)
            while kept[0].unix_s < sample.unix_s - self._kept_s:
                kept.popleft()
            recent = self.recent(sample.host, WINDOW_S)
            self._verdicts[sample.host] = tuple(
                judge(recent, device.info.index) for device in sample.devices
            )

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
        """One a device of the newest sample, in its order."""
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
        self, host: str, index: int, figure: Callable[[DeviceSample], float | None], columns: int,
        seconds: float,
    ) -> list[float | None]:  # fmt: skip
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
            host, columns, seconds,
            lambda s: next((figure(d) for d in s.devices if d.info.index == index), None),
        )  # fmt: skip

    def host_curve(self, host: str, columns: int, seconds: float) -> list[float | None]:
        """As `curve`, of the host's processors."""
        return self._columns(host, columns, seconds, lambda sample: sample.host_cpu)

    def _columns(
        self, host: str, columns: int, seconds: float, figure: Callable[[Sample], float | None]
    ) -> list[float | None]:
        if columns < 1:
            return []
        step_s = seconds / columns
        # Stretches begin at whole multiples of their length, so that a column does not change
        # its height while it moves along.
        last = int(self._samples[host][-1].unix_s // step_s)
        sums, counts = [0.0] * columns, [0] * columns
        for sample in self.recent(host, seconds + step_s):
            place = columns - 1 - (last - int(sample.unix_s // step_s))
            value = figure(sample)
            if place >= 0 and value is not None:
                sums[place] += value
                counts[place] += 1
        return [total / n if n else None for total, n in zip(sums, counts, strict=True)]
