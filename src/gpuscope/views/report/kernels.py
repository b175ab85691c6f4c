"""The longest kernels of a run, each explained in blocks: tiles, waves, traffic, limiter."""

from __future__ import annotations

from gpuscope.explain.types import Block
from gpuscope.run import Run


def kernels_explained(run: Run) -> dict[str, tuple[Block, ...]]:
    """Return the blocks of each kernel group that is worth it, by its key (`Task.group`)."""
    return {}
