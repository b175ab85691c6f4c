"""Autocast: products in 16 bits on tensor cores, weights and sums in float32.

`torch.autocast` picks a dtype for each operator: products in bfloat16 or float16, what needs range
or precision (losses, norms, softmax) in float32 (PyTorch, "Automatic Mixed Precision package").
bfloat16 has float32's range. float16 has not: small gradients would become 0, so the loss is
multiplied by a large factor before the backward pass and gradients are divided by it after
(Micikevicius et al., "Mixed Precision Training", ICLR 2018), which `torch.amp.GradScaler` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.evidence import kind_s, milliseconds, percent, product_dtypes
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Numerics, Seen
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live
    from gpuscope.run import Run

__all__ = ["HALVES", "Autocast", "ScaledAutocast", "low_precision_fit"]

HALVES = frozenset({"bf16-autocast", "fp16-autocast", "bf16-weights", "fp16-weights"})
"""Names of the changes that put a model into 16 bits: one of them at a time."""

_PRODUCT_KINDS = ("matmul", "convolution", "attention", "recurrent")


def low_precision_fit(case: Case, dtype: str) -> Fit:
    """Whether there are float32 products, and the device multiplies in `dtype`."""
    if not case.device.supports(dtype):
        name = case.device.name
        return Fit(False, Words(f"{name} has no {dtype}.", f"{name} 不支持 {dtype}。"))
    dtypes = product_dtypes(case)
    if case.program is not None and "float32" not in dtypes:
        used = ", ".join(sorted(d for d in dtypes if "float" in d)) or "no float"
        why = Words(f"Products are done in {used} already.", f"乘法已经用 {used} 计算。")
        return Fit(False, why, relevant=False)
    spent_s, step_s = kind_s(case, *_PRODUCT_KINDS), case.analysis.step_s
    return Fit(
        True,
        Words(
            f"Products in float32 are part of {milliseconds(spent_s)} ({percent(spent_s, step_s)}"
            f" of the step), and every tensor of float32 moves twice the bytes of {dtype}.",
            f"float32 乘法在 {milliseconds(spent_s)}（一步的 {percent(spent_s, step_s)}）之中，"
            f"且 float32 张量的字节数是 {dtype} 的两倍。",
        ),
    )  # fmt: skip


class Autocast(Change):
    """Run forward passes and losses under bfloat16 autocast."""

    name = "bf16-autocast"
    title = Words("bfloat16 autocast", "bfloat16 自动混合精度")
    group = "precision"
    numerics: Numerics = "bf16"
    excludes = HALVES - {"bf16-autocast"}
    rank = 20
    dtype = "bfloat16"

    def fits(self, case: Case) -> Fit:
        """It needs float32 products."""
        return low_precision_fit(case, self.dtype)

    def install(self, live: Live) -> None:
        """Enter autocast at the begin of a step, and leave it before the backward pass."""
        import torch

        dtype = getattr(torch, self.dtype)
        live.around_forward(lambda: torch.autocast("cuda", dtype=dtype))

    def price(self, case: Case) -> Words | None:
        """The casts of weights, at each step."""
        return Words(
            "Weights are cast at every step; the casts are kept for the backward pass.",
            "每步要转换权重，转换结果保留到反向传播。",
        )

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """What the analysis found to be lost to float32 products."""
        found = [f for f in run.analysis.findings if f.kind == "low_precision_unused"]
        gains = [f.max_gain_s for f in found if f.max_gain_s]
        return (0.0, max(gains)) if gains else None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The forward pass and its loss under `with torch.autocast(...)`."""
        return under_context(
            sources, seen, f'with torch.autocast("cuda", dtype=torch.{self.dtype}):'
        )


def under_context(
    sources: Mapping[str, str], seen: Seen, header: str
) -> tuple[Edit, ...] | None:
    """The statements of the forward pass put under a context; None where they are not found.

    Args:
        sources, seen: as `Change.edits` gets them.
        header: of the `with`; may use torch.
    """
    from gpuscope.advice.places import forward_of, model_at
    from gpuscope.advice.source import around_statements

    text = sources.get(seen.file, "")
    if not text:
        return None
    names = [model_at(text, m.site) for m in seen.models if m.parameters and m.site]
    name = next((placed.name for placed in names if placed is not None), "")
    forward = forward_of(text, seen.function, name)
    if forward is None:
        return None
    edits: list[Edit | None] = []
    if forward.last >= forward.first:
        edits.append(
            around_statements(
                seen.file, text, forward.first, forward.last, header, ("import torch",)
            )
        )
    if forward.joined and forward.backward is not None:
        edits.append(_parted(seen.file, text, forward.backward, header))
    found = [e for e in edits if e is not None]
    return tuple(found) if found and len(found) == len(edits) else None


def _parted(file: str, text: str, line: int, header: str) -> Edit | None:
    """`model(x).loss.backward()` as a loss under the context, and its backward pass after it."""
    import ast

    from gpuscope.advice.source import replace_statement, source_of, statement_at

    node = statement_at(text, line)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    func = node.value.func
    if not isinstance(func, ast.Attribute):
        return None
    given = ", ".join(
        [ast.unparse(a) for a in node.value.args]
        + [f"{k.arg}={ast.unparse(k.value)}" if k.arg else f"**{ast.unparse(k.value)}"
           for k in node.value.keywords]
    )  # fmt: skip
    new = f"{header}\n    loss = {source_of(text, func.value)}\nloss.backward({given})\n"
    return replace_statement(file, text, line, new, ("import torch",))


class ScaledAutocast(Autocast):
    """Run forward passes under float16 autocast, with a scaled loss."""

    name = "fp16-autocast"
    title = Words("float16 autocast with loss scaling", "float16 自动混合精度（带损失缩放）")
    numerics: Numerics = "fp16"
    excludes = HALVES - {"fp16-autocast"}
    dtype = "float16"

    def fits(self, case: Case) -> Fit:
        """It needs float32 products, and no scaler of the code's own."""
        scales = case.program is not None and any("_amp_" in op.name for op in case.program.ops)
        if scales or (case.seen is not None and case.seen.scaler):
            return Fit(False, Words("The code scales its loss itself.", "代码已自带损失缩放。"))
        return low_precision_fit(case, self.dtype)

    def install(self, live: Live) -> None:
        """Autocast; the loss scaled; gradients unscaled before they are clipped or used."""
        from gpuscope.advice.loss_scaling import LossScaling

        super().install(live)
        LossScaling(live).install()

    def on_request(self, case: Case) -> bool:
        """Where bfloat16 does the same without a scaler."""
        return case.device.supports("bfloat16")

    def price(self, case: Case) -> Words:
        """The scaler reads a flag each step."""
        return Words(
            "The scaler reads a flag from the device at every step, so the host waits there.",
            "缩放器每步要从设备读取一个标志，主机在此等待。",
        )

    def risk(self, case: Case) -> Words | None:
        """Overflow; and that bfloat16 has none."""
        en = "Values above 65,504 overflow; the first steps are skipped until the scale is found."
        zh = "超过 65,504 的值会溢出；找到合适的缩放系数之前会跳过前几步。"
        if case.device.supports("bfloat16"):
            en += " bfloat16 does without all this here."
            zh += "此设备支持 bfloat16，没有这些问题。"
        return Words(en, zh)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """Not written: backward pass, clipping and update change together."""
        return None


register(Autocast())
register(ScaledAutocast())
