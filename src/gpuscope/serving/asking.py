"""What a policy asks about the requests that it may take: tokens left, blocks that they need."""

from __future__ import annotations

from gpuscope.serving.blocks import Blocks, Name
from gpuscope.serving.work import Work


class Asking:
    """Answers for one plan, in which a request counts as admitted when the next is asked about.

    Args:
        work: the requests.
        partial: those at work whose prompt is not through.
        blocks: of the replica.
        block_tokens: of its keys and values.
    """

    def __init__(
        self, work: Work, partial: dict[int, None], blocks: Blocks, block_tokens: int
    ) -> None:
        self.work, self.partial, self.blocks, self.size = work, partial, blocks, block_tokens
        self.asked: set[Name] = set()  # by requests that the plan being made admits
        self.asking = -1

    def begin(self) -> None:
        """A new plan."""
        self.asked.clear()
        self.asking = -1

    def _plain(self, each: int) -> bool:
        """Nothing of it can be there already."""
        work = self.work
        return not (work.beginnings.shared or work.record.preemptions[each] or work.brought)

    def hits(self, each: int) -> list[Name]:
        """Names of its blocks that are there, or will be."""
        names = self.work.wanted(self.work.names(each), each)
        if not names:
            return names
        count = self.blocks.found(names)
        while count < len(names) and names[count] in self.asked:
            count += 1
        return names[:count]

    def found(self, each: int) -> int:
        """Tokens of it that need no work: brought by another machine, or in the cache."""
        work, brought = self.work, self.work.brought
        if brought is not None and not work.record.preemptions[each]:
            return brought[each]
        return len(self.hits(each)) * work.beginnings.size

    def _settle(self) -> None:
        """The one asked about before was admitted."""
        self.asked.update(self.work.names(self.asking))
        self.asking = -1

    def left(self, each: int) -> int:
        """Tokens still to be worked on."""
        work = self.work
        if each in self.partial:
            return work.goal[each] - work.done[each]
        if self._plain(each):
            return work.goal[each]
        if self.asking not in (-1, each):
            self._settle()
        return work.goal[each] - self.found(each)

    def need(self, each: int, tokens: int) -> int:
        """Blocks that so many of its next tokens take."""
        size, work = self.size, self.work
        if each in self.partial:
            have = work.done[each]
            return -(-(have + tokens) // size) - -(-have // size)
        beside = work.beside(each)
        if self._plain(each):
            return -(-tokens // size) + beside
        if self.asking not in (-1, each):
            self._settle()
        self.asking = each
        if work.brought is not None and not work.record.preemptions[each]:
            return -(-(work.brought[each] + tokens) // size) + beside
        hits = self.hits(each)
        held = self.blocks.shared(hits, self.asked) if hits else 0
        return -(-(len(hits) * work.beginnings.size + tokens) // size) - held + beside

    def whole(self, each: int, share: float) -> int:
        """Blocks that it takes until it ends, with that share of what is to come."""
        return self.work.whole(each, share)
