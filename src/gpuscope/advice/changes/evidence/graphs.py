"""What is seen of a graph: products in float32, the axis of its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["batch_axis", "float32_products"]

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "convolution", "attention"})


def float32_products(case: ChangeCase, dtype: str) -> Fit:
    """Whether a graph computes in float32 what the device could compute in another dtype."""
    if not case.device.supports(dtype):
        return Fit(False, Text("{name} has no {dtype}.", name=case.device.name, dtype=dtype))
    if case.onnx is None or case.onnx.real != "float32":
        return Fit(False, Text("It is asked for in {dtype} already.", dtype=_real(case)))
    ops = case.program.ops if case.program is not None else ()
    count = sum(
        op.name.rpartition("::")[2] in _PRODUCTS and op.inputs[0].dtype == "float32" for op in ops
    )
    if not count:
        return Fit(False, Text("No product is done in float32."), relevant=False)
    return Fit(True, Text("{count} products are done in float32.", count=count))


def _real(case: ChangeCase) -> str:
    return "" if case.onnx is None else case.onnx.real


def batch_axis(build: OnnxBuild) -> str | None:
    """The dynamic axis that all inputs of several dimensions begin with; None without one."""
    firsts = {each.shape[0] for each in build.model.inputs if len(each.shape) > 1}
    axis = next(iter(firsts)) if len(firsts) == 1 else None
    return axis if isinstance(axis, str) and axis in build.sizes else None
