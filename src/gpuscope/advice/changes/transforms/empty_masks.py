"""Masks that mask nothing, left out under `torch.compile` as they are without it (transformers).

A run without the compiler looks whether a mask is needed; while it is traced, transformers does not
look (`masking_utils.is_tracing`), since an exported graph must hold for every input, and builds the
mask. A given mask rules the fastest attention kernels out, and one that is expanded or wants a
gradient all fused ones. `torch.compile` guards the sizes, so where no padding mask and no positions
were given the answer is known from sizes alone, and the same: causal or full attention.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.padding_mask import skip_empty_masks

__all__ = ["leave_masks_out"]


def leave_masks_out(live: Live) -> None:
    """Let transformers decide by sizes where no padding mask is given."""
    try:
        from transformers import masking_utils as masks
    except ImportError:
        return  # no such model can be there
    skip_empty_masks(live)
    original = getattr(masks, "find_packed_sequence_indices", None)
    if original is None:
        return
    given = _Told()
    live.on_call(given.watch)
    live.set(masks, "find_packed_sequence_indices", _packed(original, given))


class _Told:
    """Whether the model was told positions, which may pack several sequences into one row."""

    def __init__(self) -> None:
        self.positions = False

    def watch(self, module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """A model's call, looked at."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.positions = kwargs.get("position_ids") is not None or len(args) > 1
            return call(*args, **kwargs)

        return called


def _packed(original: Callable[[Any], Any], given: _Told) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def find(position_ids: Any) -> Any:
        # The model counted the positions itself: one sequence a row.
        return original(position_ids) if given.positions else None

    return find
