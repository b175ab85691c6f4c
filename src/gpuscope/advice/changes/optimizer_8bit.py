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
from gpuscope.advice.memory_room import category_bytes, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit, Numerics
from gpuscope.analysis.wording import size
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words
from gpuscope.program.types import Op, Program, Storage, TensorSpec

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["Optimizer8bit"]

_ADAMS = frozenset({"Adam", "AdamW"})
_BLOCK = 256
_LEAST_ELEMENTS = 4096
_HOMES = (("torchao", "torchao.optim"), ("bitsandbytes", "bitsandbytes.optim"))
_KEYWORDS = frozenset({"params", "lr", "betas", "eps", "weight_decay", "amsgrad"})


class Optimizer8bit(Change):
    """Keep Adam's moments in 8 bits."""

    name = "optimizer-8bit"
    title = Words("8-bit optimizer states", "8 位优化器状态")
    group = "memory"
    numerics: Numerics = "recipe"
    excludes = frozenset({"fused-optimizer", "foreach-optimizer", "optimizer-offload"})
    rank = 19

    def fits(self, case: Case) -> Fit:
        """It needs Adam or AdamW with large states."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Words("There is no optimizer.", "没有优化器。"), relevant=False)
        if not any(o.class_name in _ADAMS for o in case.seen.optimizers):
            names = ", ".join(sorted({o.class_name for o in case.seen.optimizers}))
            return Fit(False, Words(f"{names} has no 8-bit form here.", f"{names} 没有 8 位形式。"))
        held = category_bytes(case, "optimizer_state") or 0
        if held < 1 << 20:
            told = size(held)
            return Fit(False, Words(f"Its states take {told}.", f"优化器状态只占 {told}。"))
        space = room(case)
        return Fit(
            True,
            Words(f"{space.words.en}; optimizer states hold {size(held)}.",
                  f"{space.words.zh}；优化器状态占 {size(held)}。"),
        )  # fmt: skip

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
            s.id for s in program.storages
            if s.category == "optimizer_state" and s.nbytes // 4 >= _LEAST_ELEMENTS
        }  # fmt: skip
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

    def price(self, case: Case) -> Words | None:
        """A package."""
        if _installed():
            return None
        return Words(
            'It needs a package: type "pip install torchao" or "pip install bitsandbytes".',
            "需要安装软件包：pip install torchao 或 pip install bitsandbytes。",
        )

    def risk(self, case: Case) -> Words | None:
        """Another optimizer."""
        return Words(
            "It is another optimizer: compare the loss over a longer run.",
            "这相当于换了优化器：请在更长的训练中比较损失。",
        )


def _installed() -> bool:
    return any(importlib.util.find_spec(package) is not None for package, _ in _HOMES)


def _home() -> Any:
    for package, home in _HOMES:
        if importlib.util.find_spec(package) is not None:
            return importlib.import_module(home)
    raise UnsupportedError(
        "There is no 8-bit optimizer here.", "Neither torchao nor bitsandbytes is installed.",
        "Type: pip install torchao",
    )  # fmt: skip


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

    return replace(
        op, inputs=tuple(map(spec, op.inputs)), outputs=tuple(map(spec, op.outputs))
    )


register(Optimizer8bit())
