"""Regional compilation: the blocks of a model are compiled, one for all (they are equal).

The compiler sees one block instead of the whole model, so it is ready many times sooner (PyTorch's
recipe "Reducing torch.compile cold start compilation time with regional compilation"); what lies
between blocks, and the loss, stays as it is, and each block is a call of its own on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.compile_model import COMPILED_MODELS, after_each_model
from gpuscope.advice.changes.evidence.compilation_fit import cannot_compile, compile_why
from gpuscope.advice.changes.transforms.compilation import (
    compile_modules,
    limit_name,
    losses_named,
    variants_of,
)
from gpuscope.advice.changes.transforms.repeated_blocks import repeated_blocks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["CompileBlocks"]


class CompileBlocks(Change):
    """Compile each block of the largest list of equal blocks."""

    name = "compile-regional"
    title = Text("torch.compile of each block")
    group = "compilation"
    numerics = "reordered"
    excludes = COMPILED_MODELS - {"compile-regional"}
    rank = 80

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a model made of equal blocks."""
        against = cannot_compile(case)
        if against is not None:
            return against
        blocks = _repeated(case.seen) if case.seen is not None else None
        if case.seen is not None and blocks is None:
            return Fit(False, Text("No list of equal blocks."))
        why = compile_why(case, graphs=False)
        if blocks is None:
            return Fit(True, why)
        name, count = blocks
        return Fit(
            True,
            Text(
                "{count} equal blocks ({name}) are compiled as one. {why}",
                count=count,
                name=name,
                why=why,
            ),
        )

    def install(self, live: Live) -> None:
        """Compile the blocks of each root module."""

        def edit(module: Any) -> None:
            losses_named(module)
            compile_modules(live, repeated_blocks(module), None)

        live.on_model(edit)

    def price(self, case: ChangeCase) -> Text:
        """Less than the whole model's compilation."""
        return Text(
            "Compiles one block in the first steps, a fraction of the whole model's time; blocks "
            "that meet something of their own (their layer of a cache) are compiled each."
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """A loop over the blocks, after the model stands ready."""
        blocks = _repeated(seen)
        if blocks is None:
            return None
        name, count = blocks
        limit = f"torch._dynamo.config.{limit_name()}"
        loop = (
            f"{limit} = max({limit}, {variants_of(count)})\n"
            "for block in {name}.modules():\n"
            f'    if type(block).__name__ == "{name}":\n'
            "        block.forward = torch.compile(block.forward)\n"
        )
        return after_each_model(sources, seen, loop, ("import torch", "import torch._dynamo"))


def _repeated(seen: Seen) -> tuple[str, int] | None:
    found = [m.repeated for m in seen.models if m.repeated is not None]
    return max(found, key=lambda each: each[1], default=None)


register(CompileBlocks())
