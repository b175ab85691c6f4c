"""Functional collectives: their results are waited for when they are used, as in a real run.

Tensors that hold fakes (`AsyncCollectiveTensor`, `DTensor`) say to Python what the fakes say.
"""

from __future__ import annotations

import sys
from typing import Any

from gpuscope.program.capture.patches import Patches


def install(patch: Patches) -> None:
    """Wrapped tensors say what they hold, and a fake mode is taken for no trace."""
    from torch.distributed import _functional_collectives as functional

    says_what_it_holds(patch, functional.AsyncCollectiveTensor, "elem")
    active = [True]
    patch.on_undo(active.clear)
    original = functional._are_we_tracing

    def tracing() -> bool:
        return not active and bool(original())

    tracing.original = original  # type: ignore[attr-defined]
    patch.set(functional, "_are_we_tracing", tracing)
    not_tracing(patch)


def not_tracing(patch: Patches) -> None:
    """Modules that have the question by name get the answer, too."""
    from torch.distributed import _functional_collectives as functional

    tracing: Any = functional._are_we_tracing
    original = getattr(tracing, "original", None)
    for name, module in list(sys.modules.items()):
        inside = name.startswith("torch.distributed.tensor") and module is not None
        if inside and vars(module).get("_are_we_tracing") is original:
            patch.set(module, "_are_we_tracing", tracing)


def says_what_it_holds(patch: Patches, kind: type, held: str) -> None:
    """A wrapper's device is that of the tensor in its attribute `held`."""
    for name in ("device", "is_cuda", "is_cpu"):

        def answer(self: Any, name: str = name) -> Any:
            return getattr(getattr(self, held), name)

        patch.set(kind, name, property(answer))
