"""What is asked of a server: columns of requests, in the order in which they arrive."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gpuscope.document.printable import counted, short_repr
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.lengths import MOST_TOKENS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests, one a row, sorted by arrival.

    Attributes:
        arrival_s: when each is meant to be sent, from the start. In a closed loop: the earliest
            moment, since a request waits for one of the `concurrency` places.
        input_tokens: of the prompt, shared ones included.
        output_tokens: asked for; generation does not end before.
        session: conversation that it belongs to; empty where there are none, -1 for none.
        prefix: which beginning it shares with others, -1 for none; empty where none is shared.
        prefix_tokens: tokens of that beginning; empty as `prefix`.
        blocks: names of the prompt's blocks, one request after the other (a trace's block hashes);
            equal beginnings have equal names. Empty where the trace has none.
        block_start: where each request's names begin in `blocks`, and the end: one more than rows.
        block_tokens: tokens of such a block; 0 without.
        concurrency: requests in flight at most (closed loop); 0: open loop.
        priority: the smaller, the sooner, where the engine looks at it; empty: all are equal.
        seed: that they were made from.
        name: how they were asked for ("poisson, 8 requests/s"), for titles.
    """

    arrival_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    session: Ints = field(default_factory=_none)
    prefix: Ints = field(default_factory=_none)
    prefix_tokens: Ints = field(default_factory=_none)
    blocks: Ints = field(default_factory=_none)
    block_start: Ints = field(default_factory=_none)
    block_tokens: int = 0
    concurrency: int = 0
    priority: Ints = field(default_factory=_none)
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what no server can be asked.

        Raises:
            InvalidValueError: no request, unequal columns, times or sizes that cannot be.
        """
        rows = len(self.arrival_s)
        if not rows:
            raise InvalidValueError(
                Text("There is no request."), "", Text("Give a trace with at least one line.")
            )
        columns = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        for name in ("session", "prefix", "prefix_tokens", "priority"):
            if len(getattr(self, name)):
                columns[name] = getattr(self, name)
        if len(self.blocks):
            columns["block_start"] = self.block_start[:-1]
        for name, column in columns.items():
            if len(column) != rows:
                raise _cannot_be(name, len(column), Text("there are {rows} requests", rows=rows))
        self._check_times()
        for name, least in (("input_tokens", 1), ("output_tokens", 1)):
            wrong = np.flatnonzero((columns[name] < least) | (columns[name] > MOST_TOKENS))
            if len(wrong):
                value = int(columns[name][wrong[0]])
                raise _cannot_be(name, value, Text("request {row}", row=int(wrong[0]) + 1))
        if self.concurrency < 0:
            raise _cannot_be("concurrency", self.concurrency, Text("it counts requests"))

    def _check_times(self) -> None:
        times = self.arrival_s
        if not np.isfinite(times).all() or (times < 0).any():
            at = int(np.flatnonzero(~np.isfinite(times) | (times < 0))[0])
            raise _cannot_be("arrival_s", str(times[at]), Text("request {row}", row=at + 1))
        back = np.flatnonzero(np.diff(times) < 0)
        if len(back):
            raise InvalidValueError(
                Text("Request {row} arrives before the one in front of it.", row=int(back[0]) + 2),
                Text("Requests are sorted by their time."),
                Text("Sort the trace by its first column."),
            )

    def __len__(self) -> int:
        return len(self.arrival_s)

    def __repr__(self) -> str:
        return short_repr(self, self.name, counted(len(self), "request"))

    def at_concurrency(self, concurrency: int) -> Requests:
        """The same requests, all at hand from the start, so many in flight at a time."""
        if concurrency < 1:
            raise _cannot_be("concurrency", concurrency, Text("it counts requests"))
        return replace(
            self,
            arrival_s=np.zeros(len(self)),
            concurrency=concurrency,
            name=in_flight(concurrency),
        )


def in_flight(concurrency: int) -> Text:
    """The name of a closed loop."""
    return Text("concurrency {places}", places=concurrency)


def _cannot_be(name: str, value: int | str, why: str) -> InvalidValueError:
    return InvalidValueError(
        Text("{name} cannot be {value}: {why}.", name=name, value=value, why=why),
        "",
        Text("Give every request a time of 0 s or later, and 1 token or more in and out."),
    )
