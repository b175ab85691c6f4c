"""Names of the blocks of prompts that others may have too."""

from __future__ import annotations

from gpuscope.serving.blocks import Name
from gpuscope.serving.requests import Requests


class Beginnings:
    """Names of the blocks of prompts that others may have too.

    Args:
        requests: whose.
        block_tokens: of the engine.
        kept: whether the engine keeps them at all.
    """

    def __init__(self, requests: Requests, block_tokens: int, kept: bool) -> None:
        self.requests, self.kept = requests, kept
        self.shared = kept and bool(len(requests.blocks) or len(requests.prefix))
        self.size = requests.block_tokens if len(requests.blocks) else block_tokens
        self.each = max(1, self.size // block_tokens)
        self.chains = _chains(requests) if self.shared and len(requests.blocks) else []

    def names(self, each: int, own_tokens: int = 0) -> list[Name]:
        """Names of the full blocks of its shareable beginning.

        Args:
            each: the request.
            own_tokens: of a request that comes back: what it had is there under its own name.
        """
        if not self.kept:
            return []
        asked, found = self.requests, list[Name]()
        if len(asked.blocks):
            low, high = asked.block_start[each], asked.block_start[each + 1]
            found = [(-1, name) for name in self.chains[low:high]]
        elif len(asked.prefix) and asked.prefix[each] >= 0:
            count = int(asked.prefix_tokens[each]) // self.size
            found = [(int(asked.prefix[each]), at) for at in range(count)]
        return found + [(-2 - each, at) for at in range(len(found), own_tokens // self.size)]


def _chains(requests: Requests) -> list[int]:
    """A number for each block's name and all before it in its prompt.

    A block's keys depend on all tokens before it; a trace's names should say so, and may not.
    """
    known: dict[tuple[int, int], int] = {}
    names, starts = requests.blocks.tolist(), set(requests.block_start.tolist())
    found, last = [], -1
    for at, name in enumerate(names):
        last = known.setdefault((-1 if at in starts else last, name), len(known))
        found.append(last)
    return found
