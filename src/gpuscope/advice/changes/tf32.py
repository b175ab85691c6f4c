"""TF32: products of float32 matrices on tensor cores, with 10 bits of mantissa.

Float32 products use no tensor core on NVIDIA GPUs unless that is allowed; TF32 reads float32,
rounds to 10 bits of mantissa and accumulates in float32 (NVIDIA, "A100 Tensor Core GPU
Architecture", 2020). PyTorch allows it for convolutions by default and not for matrix products
(`torch.backends.cuda.matmul.allow_tf32`, since 1.12).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Numerics, Seen
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["TF32"]

_PRODUCTS = frozenset("mm addmm _addmm_activation bmm baddbmm convolution attention".split())


class TF32(Change):
    """Let float32 products run on tensor cores."""

    name = "tf32"
    title = Text("TF32 for float32 products")
    group = "precision"
    numerics: Numerics = "tf32"
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 products and a device with TF32."""
        if not case.device.supports("tf32"):
            name = case.device.name
            return Fit(False, Text("{name} has no TF32.", name=name))
        if case.program is not None and _allowed(case.program):
            return Fit(False, Text("TF32 is on already."))
        if case.program is not None and not _has_float32_products(case.program):
            why = Text("No product is done in float32.")
            return Fit(False, why, relevant=False)
        return Fit(True, Text("Products run in float32, without tensor cores."))

    def install(self, live: Live) -> None:
        """Allow it, in products and convolutions."""
        import torch

        live.set(torch.backends.cuda.matmul, "allow_tf32", True)
        live.set(torch.backends.cudnn, "allow_tf32", True)

    def transform(self, program: Program) -> Program:
        """The same operators; kernels are chosen by the switches."""
        switches = {**program.settings, "tf32_matmul": True, "tf32_cudnn": True}
        return replace(program, settings=switches)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """One line after the imports; lines that forbid it are turned over."""
        from gpuscope.advice.source.edits import after_imports, replace_node

        if seen.file not in sources:
            return None
        line = 'torch.set_float32_matmul_precision("high")\n'
        found = [after_imports(seen.file, sources[seen.file], line, needs=("import torch",))]
        for path, text in sources.items():
            found += [replace_node(path, text, node, "True") for node in _forbidden(text)]
        return tuple(found)


def _forbidden(text: str) -> list[ast.expr]:
    """The `False` of each `....allow_tf32 = False`."""
    return [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value is False
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == "allow_tf32"
    ]


def _allowed(program: Program) -> bool:
    return bool(program.settings.get("tf32_matmul")) and bool(program.settings.get("tf32_cudnn"))


def _has_float32_products(program: Program) -> bool:
    return any(
        op.name.rpartition("::")[2] in _PRODUCTS and op.inputs and op.inputs[0].dtype == "float32"
        for op in program.ops
    )


register(TF32())
