"""Batches of one size: the last, smaller batch of an epoch is left out.

A batch of another size makes `torch.compile` compile again, with sizes left open from then on, and
no CUDA graph can replay it (PyTorch, "Dynamic Shapes"). `drop_last=True` keeps all batches alike;
its samples come in another epoch, where the loader shuffles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, LoaderSeen, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["StaticShapes"]


class StaticShapes(Change):
    """Drop the last batch where it is smaller."""

    name = "drop-last"
    title = Text("batches of one size only")
    group = "compilation"
    numerics = "recipe"
    needs_gpu = False
    rank = 15

    def fits(self, case: ChangeCase) -> Fit:
        """A loader whose samples are no multiple of its batch, under a compiler or graphs."""
        if case.seen is None or not case.seen.loaders:
            return Fit(False, Text("There is no data loader."), relevant=False)
        uneven = [each for each in case.seen.loaders if _rest(each)]
        if not uneven:
            why = Text("All batches have one size already.")
            return Fit(False, why, relevant=False)
        if case.program is not None and not case.program.compiled:
            return Fit(
                False,
                Text("Nothing is compiled: a smaller last batch costs nothing."),
                relevant=False,
            )
        rest = _rest(uneven[0])
        return Fit(
            True,
            Text(
                "The last batch of an epoch has {rest} samples: the compiler starts anew for it.",
                rest=rest,
            ),
        )

    def install(self, live: Live) -> None:
        """Tell loaders that have a batch size."""

        def edit(keywords: dict[str, Any]) -> None:
            if keywords.get("batch_sampler") is None and keywords.get("batch_size", 1) is not None:
                keywords["drop_last"] = True

        live.on_loader(edit)

    def risk(self, case: ChangeCase) -> Text:
        """Samples that an epoch leaves out; none at all."""
        return Text(
            "Each epoch leaves out the samples of its last batch; a data set smaller than a batch "
            "gives none."
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`drop_last=True` in the loader's call."""
        found = [
            call_keyword(sources, each.site, "DataLoader", "drop_last", "True")
            for each in seen.loaders
            if _rest(each)
        ]
        return tuple(e for e in found if e) if found and all(found) else None


def _rest(loader: LoaderSeen) -> int:
    """Samples of a smaller last batch; 0 where all are alike, or it is not known."""
    size = loader.keywords.get("batch_size", 1)
    if loader.keywords.get("drop_last") or not isinstance(size, int) or not loader.samples:
        return 0
    return loader.samples % size if loader.samples > size else 0


register(StaticShapes())
