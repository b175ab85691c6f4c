"""Adam's two moments in 8 bits: a quarter of the memory of float32 states.

Block-wise quantisation (Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2021):
blocks of 256 values share one float32 scale; tensors of fewer than 4096 elements stay as they are.
torchao and bitsandbytes both have such an AdamW.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, Numerics, clauses
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.program.types import Op, Program, Storage, TensorSpec

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Optimizer8bit"]

_ADAMS = frozenset({"Adam", "AdamW"})
_BLOCK = 256
_LEAST_ELEMENTS = 4096
_HOMES = (("torchao", "torchao.optim"), ("bitsandbytes", "bitsandbytes.optim"))
_KEYWORDS = frozenset({"params", "lr", "betas", "eps", "weight_decay", "amsgrad"})


class Optimizer8bit(Change):
    """Keep Adam's moments in 8 bits."""

    name = "optimizer-8bit"
    title = Text("8-bit optimizer states")
    group = "memory"
    numerics: Numerics = "recipe"
    excludes = frozenset({"fused-optimizer", "foreach-optimizer", "optimizer-offload"})
    rank = 19

    def fits(self, case: ChangeCase) -> Fit:
        """It needs Adam or AdamW with large states."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Text("There is no optimizer."), relevant=False)
        if not any(o.class_name in _ADAMS for o in case.seen.optimizers):
            names = ", ".join(sorted({o.class_name for o in case.seen.optimizers}))
            return Fit(False, Text("{names} has no 8-bit form here.", names=names))
        held = category_bytes(case, "optimizer_state") or 0
        if held < 1 << 20:
            return Fit(False, Text("Its states take {held}.", held=Bytes(held)))
        space = room(case)
        return Fit(
            True, clauses(space.words, Text("optimizer states hold {held}", held=Bytes(held)))
        )

    def install(self, live: Live) -> None:
        """Put the 8-bit class where torch's is looked up.

        Raises:
            UnsupportedError: neither torchao nor bitsandbytes is installed.
        """
        import torch

        home = _home()
        for name in sorted(_ADAMS):
            original = getattr(torch.optim, name)
            other = _accepting(getattr(home, f"{name}8bit"), name)
            live.set(torch.optim, name, other)
            live.set_in_user_modules(name, original, other)

    def transform(self, program: Program) -> Program | None:
        """States of a quarter of the size; the update's kernels move so much less.

        An estimate where neither package is installed; None where the code itself can be run.
        """
        if _installed():
            return None
        large = {
            s.id
            for s in program.storages
            if s.category == "optimizer_state" and s.nbytes // 4 >= _LEAST_ELEMENTS
        }
        return replace(
            program,
            storages=tuple(_smaller(s) if s.id in large else s for s in program.storages),
            ops=tuple(
                _on_bytes(op, large) if op.phase == "optimizer" else op for op in program.ops
            ),
            assumptions=(
                *program.assumptions,
                "8-bit states: the update is taken to run with the same number of kernels.",
            ),
        )

    def price(self, case: ChangeCase) -> Text | None:
        """A package."""
        if _installed():
            return None
        return Text('It needs a package: type "pip install torchao" or "pip install bitsandbytes".')

    def risk(self, case: ChangeCase) -> Text | None:
        """Another optimizer."""
        return Text("It is another optimizer: compare the loss over a longer run.")


def _installed() -> bool:
    return any(importlib.util.find_spec(package) is not None for package, _ in _HOMES)


def _home() -> Any:
    for package, home in _HOMES:
        if importlib.util.find_spec(package) is not None:
            return importlib.import_module(home)
    raise UnsupportedError(
        Text("There is no 8-bit optimizer here."),
        Text("Neither torchao nor bitsandbytes is installed."),
        Text("Type: pip install torchao"),
    )


def _accepting(cls: type, name: str) -> type:
    """The 8-bit class, which does not take all of the keywords that torch's takes."""

    def construct(self: Any, params: Any, lr: Any = 1e-3, **kwargs: Any) -> None:
        known = {k: v for k, v in kwargs.items() if k in _KEYWORDS}
        cls.__init__(self, params, lr=lr, **known)  # type: ignore[misc]

    return type(name, (cls,), {"__init__": construct, "__doc__": cls.__doc__})


def _smaller(storage: Storage) -> Storage:
    elements = storage.nbytes // 4
    scales = -(-elements // _BLOCK) * 4
    return replace(storage, nbytes=elements + scales)


def _on_bytes(op: Op, large: set[int]) -> Op:
    def spec(tensor: TensorSpec) -> TensorSpec:
        return replace(tensor, dtype="uint8") if tensor.storage in large else tensor

    return replace(op, inputs=tuple(map(spec, op.inputs)), outputs=tuple(map(spec, op.outputs)))


register(Optimizer8bit())
