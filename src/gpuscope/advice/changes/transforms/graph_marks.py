"""Tell a capture that what runs is replayed from a CUDA graph, which it does not record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["compiles", "copied", "note_graph"]


def note_graph(compiled: bool, whole_step: bool = False) -> None:
    """Say so by the functions of torch that the capture listens to.

    Args:
        compiled: the graph is of fused kernels.
        whole_step: one graph replays all of the step, its optimizer included.
    """
    import torch

    note: Any = torch.cuda.make_graphed_callables  # a capture's stand-in, which knows whole steps
    note(_nothing, (), **({"whole_step": True} if whole_step else {}))
    if compiled:
        torch.compile(_nothing, mode="reduce-overhead")()


def compiles(live: Live) -> bool:
    """Whether one of the changes at work compiles the code."""
    return any(change.name.startswith("compile") for change in live.changes)


def copied(out: Any) -> Any:
    """Tensors of a result in memory of their own: the next replay overwrites the graph's."""
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, out)


def _nothing() -> None:
    """What is "compiled" or "graphed" for the note alone."""
