"""What other devices, rates and sizes would give, computed by the models when a report is made."""

from __future__ import annotations

from gpuscope.explain.types import Block
from gpuscope.run import Run


def what_if_blocks(run: Run) -> tuple[Block, ...]:
    """Return the live figures of the view "What if"; none for a run that was not predicted."""
    return ()
