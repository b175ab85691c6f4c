"""A loop over experts in the user's own source becomes grouped products.

The loop asks the device how many tokens each expert has (the host waits), and multiplies small
matrices one after the other. Sorted by expert, all tokens go through one grouped product a linear
layer (`torch._grouped_mm`). What the source says is followed exactly: see
`gpuscope.advice.experts_source`; what runs instead: `gpuscope.advice.grouped_loop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.experts_source import expert_edits, functions_with_experts
from gpuscope.advice.patching import user_sources
from gpuscope.advice.registry import register
from gpuscope.advice.rewriting import rewrite
from gpuscope.advice.types import Case, Edit, Fit, Numerics, Seen
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ExpertsRewrite"]


class ExpertsRewrite(Change):
    """Multiply the tokens of all experts at once where the source loops over experts."""

    name = "experts-rewrite"
    title = Words("grouped products for a loop over experts", "专家循环改用分组矩阵乘")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs source of the user's own with a loop over experts that can be followed."""
        if case.seen is None or case.program is None:
            why = Words("There is no source to read.", "没有可读的源代码。")
            return Fit(False, why, relevant=False)
        texts = _model_sources(user_sources(case.seen), case.seen).values()
        if not any(functions_with_experts(text) for text in texts):
            return Fit(
                False,
                Words(
                    "Your own source has no loop over experts that can be replaced safely.",
                    "您的源代码里没有可以安全替换的专家循环。",
                ),
                relevant=False,
            )
        waits = sum(op.sync == "nonzero" for op in case.program.ops)
        return Fit(
            True,
            Words(
                f"Experts run one after another, and the host waits {waits} times a step to learn"
                " how many tokens each one gets.",
                f"专家逐个运行，主机每步等待 {waits} 次才知道各专家分到多少词元。",
            ),
        )

    def install(self, live: Live) -> None:
        """Rewrite the functions of the models' own classes as they stand."""
        done: list[str] = []
        tried: set[int] = set()

        def edit(model: Any) -> None:
            for function in _functions(model):
                if id(function) not in tried:
                    tried.add(id(function))
                    if rewrite(live, function, expert_edits):
                        done.append(function.__qualname__)

        def check(step: Any) -> Any:
            if not done:
                raise UnsupportedError(
                    "No loop over experts could be replaced.",
                    "The source that runs has none that can be followed.",
                    "Sort tokens by expert and call torch._grouped_mm yourself.",
                )
            return step

        live.on_model(edit)
        live.on_step(check)

    def price(self, case: Case) -> Words | None:
        """The new line calls gpuscope; weights are stacked for the step."""
        return Words(
            "The new line imports gpuscope; a copy of each layer's expert weights is made a step.",
            "新的一行会导入 gpuscope；每步都会复制一份各层的专家权重。",
        )

    def risk(self, case: Case) -> Words | None:
        """An expert without tokens has gradients of zero, not none; dropout draws anew."""
        return Words(
            "An expert that gets no token has a gradient of zero where a loop that skips it leaves"
            " none; dropout inside of experts draws other random numbers.",
            "没有分到词元的专家，梯度为零（跳过它的循环则没有梯度）；专家内部的 dropout 会取到"
            "不同的随机数。",
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The same edits, in the files that define the models."""
        found = [
            edit for file, text in _model_sources(sources, seen).items()
            for function in functions_with_experts(text)
            for edit in expert_edits(file, text, function)
        ]  # fmt: skip
        return tuple(found) or None


def _model_sources(sources: Mapping[str, str], seen: Seen) -> dict[str, str]:
    """Texts of the user's files that define classes of the models."""
    files = {file for model in seen.models for file in model.files}
    return {file: text for file, text in sources.items() if file in files}


def _functions(model: Any) -> list[Any]:
    """Methods of the user's own classes in a model."""
    import inspect

    from gpuscope.advice.seeing import is_foreign

    found: dict[int, Any] = {}
    for cls in {type(module) for module in model.modules()}:
        for function in vars(cls).values():
            if inspect.isfunction(function) and not is_foreign(function.__code__.co_filename):
                found[id(function)] = function
    return list(found.values())


register(ExpertsRewrite())
