"""Attention written by hand, in the user's own source, becomes the fused operator.

Softmax of q k^T writes and reads a square of scores several times; a fused kernel keeps it on chip
(Dao et al., "FlashAttention", 2022). What the source says is followed exactly: see
`gpuscope.advice.attention_source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.attention_source import attention_edits, functions_with_attention
from gpuscope.advice.change import Change
from gpuscope.advice.patching import user_sources
from gpuscope.advice.registry import register
from gpuscope.advice.rewriting import rewrite
from gpuscope.advice.types import Case, Edit, Fit, Numerics, Seen
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["SdpaRewrite"]


class SdpaRewrite(Change):
    """Call the fused attention where the source spells attention out."""

    name = "sdpa-rewrite"
    title = Words("fused attention for hand-written attention", "手写注意力改用融合算子")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs source of the user's own with attention that can be followed."""
        if case.seen is None:
            why = Words("There is no source to read.", "没有可读的源代码。")
            return Fit(False, why, relevant=False)
        found = [
            function.name for text in _model_sources(user_sources(case.seen), case.seen).values()
            for function in functions_with_attention(text)
        ]  # fmt: skip
        if not found:
            return Fit(
                False,
                Words(
                    "Your own source has no hand-written attention that can be replaced safely.",
                    "您的源代码里没有可以安全替换的手写注意力。",
                ),
                relevant=False,
            )
        return Fit(
            True,
            Words(
                "Attention is written by hand: its square of scores goes through memory several"
                " times.",
                "注意力是手写的：整个分数矩阵要在显存里反复读写。",
            ),
        )

    def install(self, live: Live) -> None:
        """Rewrite the functions of the models' own files as they stand."""
        done: list[str] = []
        tried: set[int] = set()

        def edit(model: Any) -> None:
            for function in _functions(model):
                if id(function) not in tried:
                    tried.add(id(function))
                    if rewrite(live, function, attention_edits):
                        done.append(function.__qualname__)

        def check(step: Any) -> Any:
            if not done:
                raise UnsupportedError(
                    "No hand-written attention could be replaced.",
                    "The source that runs has none that can be followed.",
                    "Call torch.nn.functional.scaled_dot_product_attention yourself.",
                )
            return step

        live.on_model(edit)
        live.on_step(check)

    def risk(self, case: Case) -> Words | None:
        """Dropout draws other numbers, and rows without any key become zero."""
        return Words(
            "Dropout inside of attention draws other random numbers.",
            "注意力内部的 dropout 会取到不同的随机数。",
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The same edits, in the files that define the models."""
        found = [
            edit for file, text in _model_sources(sources, seen).items()
            for function in functions_with_attention(text)
            for edit in attention_edits(file, text, function)
        ]  # fmt: skip
        return tuple(found) or None


def _model_sources(sources: Mapping[str, str], seen: Seen) -> dict[str, str]:
    """Texts of the user's files that define classes of the models."""
    files = {file for model in seen.models for file in model.files}
    return {file: text for file, text in sources.items() if file in files}


def _functions(model: Any) -> Iterator[Any]:
    """Functions of the user's modules that define a model's classes, which could hold attention."""
    spaces = {}
    for cls in {type(m) for m in model.modules()}:
        forward: Any = getattr(cls, "forward", None)
        if _own(forward):
            spaces[id(forward.__globals__)] = forward.__globals__
    for space in spaces.values():
        for value in list(space.values()):
            if isinstance(value, type) and value.__module__ == space.get("__name__"):
                yield from (f for f in vars(value).values() if _own(f))
            elif _own(value) and value.__globals__ is space:
                yield value


def _own(function: Any) -> bool:
    import inspect

    from gpuscope.advice.seeing import is_foreign

    return inspect.isfunction(function) and not is_foreign(function.__code__.co_filename)


register(SdpaRewrite())
