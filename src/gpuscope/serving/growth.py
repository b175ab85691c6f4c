"""How many blocks decoding takes: each sequence one more whenever its last one is full."""

from __future__ import annotations

from typing import Protocol


class Growing(Protocol):
    """Knows which blocks decoding takes."""

    def add(self, step: int, tokens: int, count: int = 1) -> None:
        """A sequence begins (or, -1, ends) to decode at a step with that many tokens."""

    def taken(self, step: int, steps: int, sequences: int) -> int:
        """Blocks that so many steps take."""


class Growth:
    """Sequences by the step, modulo the tokens of a block, at which they take their next block."""

    __slots__ = ("counts", "size")

    def __init__(self, block_tokens: int) -> None:
        self.size = block_tokens
        self.counts = [0] * block_tokens

    def add(self, step: int, tokens: int, count: int = 1) -> None:
        """A sequence begins (or, -1, ends) to decode at a step with that many tokens."""
        self.counts[(step - tokens) % self.size] += count

    def taken(self, step: int, steps: int, sequences: int) -> int:
        """Blocks that so many steps take."""
        size, counts = self.size, self.counts
        if steps == 1:
            return counts[step % size]
        whole, rest = divmod(steps, size)
        begin = step % size
        beyond = max(0, begin + rest - size)
        return whole * sequences + sum(counts[begin : begin + rest]) + sum(counts[:beyond])
