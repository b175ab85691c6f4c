"""Where samples come from: this host, a recording, other hosts' exporters."""

from __future__ import annotations

from typing import Protocol

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.watch.types import Sample

LEAST_INTERVAL_S = 0.1
"""Drivers renew most readings no faster."""


class Source(Protocol):
    """Something that is asked again and again for the newest samples.

    `Sampler`, `Replay` and `Hosts` are sources: what shows, records or exports samples cannot tell
    which it got.
    """

    @property
    def interval_s(self) -> float:
        """Seconds from one question to the next; at least this long."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read, and why; in English."""

    def read(self) -> tuple[Sample, ...]:
        """Return the samples of now, one a host; may take some hundredths of a second.

        Raises:
            EndOfSamples: there are no more.
        """

    def close(self) -> None:
        """Let go of everything; reading afterwards is an error."""


class EndOfSamples(Exception):  # noqa: N818 - an end, no error
    """A source has nothing more to give: the recording is played."""


def check_interval(interval_s: float) -> None:
    """Refuse an interval that is too short to mean anything.

    Raises:
        InvalidValueError: it is shorter than `LEAST_INTERVAL_S`.
    """
    if not interval_s >= LEAST_INTERVAL_S:
        raise InvalidValueError(
            Text("An interval of {interval} s is too short.", interval=Number(interval_s, "g")),
            Text(
                "Drivers renew their readings every {least_interval} s at best.",
                least_interval=Number(LEAST_INTERVAL_S, "g"),
            ),
            Text(
                "Type: --interval {least_interval}, or longer.",
                least_interval=Number(LEAST_INTERVAL_S, "g"),
            ),
        )
