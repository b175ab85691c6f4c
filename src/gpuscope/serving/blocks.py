"""Blocks of keys and values: taken, shared, given back, and kept by name until they are needed.

As vLLM's block pool does it (vllm/v1/core/block_pool.py): free blocks stand in a queue; who takes
one takes the first; given back, a request's last blocks join its end before its first ones. A block
whose contents have a name keeps them while it stands there, and leaves the queue when a request
with the same beginning comes. Blocks without a name stand in the queue as a number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

Name = tuple[int, int]
"""(which beginning, number of the block in it)"""


class Blocks:
    """All blocks of one engine.

    Args:
        total: how many there are.
        each: how many of them a name stands for.
    """

    def __init__(self, total: int, each: int = 1) -> None:
        self.total, self.each, self.used = total, each, 0
        self.promised = 0  # to requests at work until they end, where the policy promises
        self._users: dict[Name, int] = {}
        self._queue: OrderedDict[Name | int, int] = OrderedDict({0: total})
        self._next = 1

    @property
    def free(self) -> int:
        """Blocks that nobody uses, those with a name included."""
        return self.total - self.used

    def found(self, names: Sequence[Name]) -> int:
        """How many of them, from the first on, are there."""
        count = 0
        for name in names:
            if name not in self._users and name not in self._queue:
                break
            count += 1
        return count

    def shared(self, names: Sequence[Name], soon: Collection[Name] = ()) -> int:
        """Blocks of these names that others use now, or soon: they cost nothing."""
        return self.each * sum(name in self._users or name in soon for name in names)

    def take(self, count: int) -> None:
        """Take so many blocks; what they held is gone."""
        if count <= 0:
            return
        self.used += count
        queue = self._queue
        while count > 0 and queue:
            first = next(iter(queue))
            has = queue[first]
            if has > count and isinstance(first, int):
                queue[first] = has - count  # stays where it is
                return
            del queue[first]
            if has > count:
                key = -self._next
                self._next += 1
                queue[key] = has - count
                queue.move_to_end(key, last=False)
            count -= has

    def use(self, names: Sequence[Name]) -> None:
        """Use blocks that are there."""
        for name in names:
            if name not in self._users:
                self.used += self._queue.pop(name, self.each)
            self._users[name] = self._users.get(name, 0) + 1

    def name(self, names: Sequence[Name]) -> list[Name]:
        """Give names to blocks that are taken, and return those that no other block has."""
        new = [name for name in names if name not in self._users and name not in self._queue]
        for name in new:
            self._users[name] = 1
        return new

    def give_back(self, count: int, names: Sequence[Name], computed: int) -> None:
        """Give back what a request has.

        Args:
            count: of all its blocks.
            names: those of its first blocks that have some, in order.
            computed: how many of these hold what their name says.
        """
        self._join(self._next, count - computed * self.each)
        self._next += 1
        for at in reversed(range(len(names))):
            name = names[at]
            self._users[name] -= 1
            if self._users[name]:
                continue
            del self._users[name]
            if at < computed:
                self._join(name, self.each)

    def _join(self, key: Name | int, count: int) -> None:
        if count > 0:
            self._queue[key] = count
            self.used -= count
