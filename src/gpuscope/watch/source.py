"""Where samples come from: this host, a recording, other hosts' exporters."""

from __future__ import annotations

from typing import Protocol

from gpuscope.watch.types import Sample


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
