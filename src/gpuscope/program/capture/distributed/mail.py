"""Python objects that ranks send each other, kept from one rank's capture for the next one's.

Ranks are captured one after the other. What a rank sends with `send_object_list` (pipeline stages
tell each other shapes so) waits here for the rank that receives it. Where it is not there yet, the
capture stops and says whom it waits for; it is begun anew when that rank has got further.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError

__all__ = ["Mail", "PeerFirstError", "delivered", "office"]


class PeerFirstError(CaptureError):
    """A rank needs what another sends, which was not captured yet.

    Attributes:
        rank: the other rank.
    """

    def __init__(self, rank: int, receiver: int) -> None:
        self.rank = rank
        super().__init__(
            Text(
                "Rank {receiver} receives an object from rank {rank}, which sends none.",
                receiver=receiver,
                rank=rank,
            ),
            Text("What is sent is learnt by capturing the sender."),
            Text("Check that the ranks send and receive in the same order."),
        )


class Mail:
    """Objects under way, by sender and receiver, in order."""

    def __init__(self) -> None:
        self._posted: dict[tuple[int, int], list[Any]] = {}
        self._sent: dict[tuple[int, int], int] = {}
        self._read: dict[tuple[int, int], int] = {}

    @property
    def count(self) -> int:
        """How many were posted in all."""
        return sum(map(len, self._posted.values()))

    def begins(self, rank: int) -> None:
        """A capture of `rank` begins: it sends and reads again from the first on."""
        for pair in [p for p in self._sent if p[0] == rank]:
            self._sent[pair] = 0
        for pair in [p for p in self._read if p[1] == rank]:
            self._read[pair] = 0

    def send(self, sender: int, receiver: int, objects: Any) -> None:
        """Post objects, unless a capture before did."""
        pair = (sender, receiver)
        number = self._sent.get(pair, 0)
        self._sent[pair] = number + 1
        posted = self._posted.setdefault(pair, [])
        if number == len(posted):
            posted.append(copy.deepcopy(objects))

    def receive(self, sender: int, receiver: int) -> Any:
        """The next objects.

        Raises:
            PeerFirstError: they are not there yet.
        """
        pair = (sender, receiver)
        number = self._read.get(pair, 0)
        if number >= len(self._posted.get(pair, ())):
            raise PeerFirstError(sender, receiver)
        self._read[pair] = number + 1
        return copy.deepcopy(self._posted[pair][number])


_open: list[Mail] = []


def office() -> Mail | None:
    """Where this capture's mail goes; None where ranks are captured alone."""
    return _open[-1] if _open else None


@contextmanager
def delivered(mail: Mail, rank: int) -> Iterator[None]:
    """Captures inside of the block are of `rank`, with its mail."""
    mail.begins(rank)
    _open.append(mail)
    try:
        yield
    finally:
        _open.pop()
