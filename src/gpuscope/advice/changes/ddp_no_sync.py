"""Gradient accumulation under DDP with one reduction a step instead of one a micro-batch.

`DistributedDataParallel.no_sync` (PyTorch documentation): backward passes inside of it only
accumulate; the first one after it reduces the sum. The mean over the ranks of a sum is the sum of
the means, so the gradients are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import collective_bytes, needs_ranks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.capture.patches import of_capture

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["DDPNoSync"]


class DDPNoSync(Change):
    """Reduce gradients with the last micro-batch of a step only."""

    name = "ddp-no-sync"
    title = Text("DDP reduces once a step (no_sync)")
    group = "distributed"
    numerics = "reordered"
    needs_gpu = False

    def fits(self, case: ChangeCase) -> Fit:
        """It needs DDP whose gradients are reduced several times a step."""
        refused = needs_ranks(case, "ddp")
        if refused is not None:
            return refused
        models = case.seen.models if case.seen is not None else ()
        elements = max((model.parameters for model in models), default=0)
        reduced = collective_bytes(case, "allreduce")
        # Gradients in float32 at most: twice their bytes cannot be one reduction.
        if not elements or reduced < 1.9 * elements * 4:
            return Fit(False, Text("Gradients are reduced once a step."))
        times = round(reduced / (elements * 4))
        return Fit(True, Text("Gradients are reduced {times} times a step.", times=times))

    def install(self, live: Live) -> None:
        """Count the backward passes of the first step; later, reduce with the last of them."""
        counting = _Counting()

        def use(kind: str, wrapper: Any) -> None:
            if kind == "ddp":
                counting.wrappers.append(wrapper)

        def count(backward: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*args: Any, **kwargs: Any) -> Any:
                done = backward(*args, **kwargs)
                counting.backward_done()
                return done

            return counted

        from torch.optim.optimizer import register_optimizer_step_pre_hook

        handle = register_optimizer_step_pre_hook(of_capture(lambda *_: counting.step_begins()))
        live.at_end(handle.remove)
        live.at_end(counting.reduce_always)
        live.on_wrapped(use)
        live.on_backward(count)

    def price(self, case: ChangeCase) -> Text:
        """Gradients that nobody reduces yet."""
        return Text("Gradients of the ranks differ until the last micro-batch.")

    def risk(self, case: ChangeCase) -> Text:
        """Gradients used in between."""
        return Text(
            "Code that reads gradients between micro-batches sees its own rank's only; a step with "
            "fewer micro-batches than the first is refused."
        )


class _Counting:
    """Backward passes since the optimizer's step before."""

    def __init__(self) -> None:
        self.wrappers: list[Any] = []
        self.done = 0
        self.a_step: int | None = None

    def backward_done(self) -> None:
        """One more; the next one reduces if it is the last."""
        self.done += 1
        if self.a_step is not None:
            self._reduce(self.done + 1 >= self.a_step)

    def step_begins(self) -> None:
        """The optimizer uses the gradients: they must have been reduced."""
        if not self.done:
            return  # a second optimizer
        if self.a_step is not None and self.done < self.a_step:
            raise WorkloadError(
                Text(
                    "A step of {done} micro-batches cannot follow one of {a_step}.",
                    done=self.done,
                    a_step=self.a_step,
                ),
                Text(
                    "Its gradients were not reduced: the last micro-batch was not known to be it."
                ),
                Text("Leave out ddp-no-sync, or write no_sync into the code."),
            )
        self.a_step, self.done = self.done, 0
        self._reduce(self.a_step == 1)

    def reduce_always(self) -> None:
        """As DDP is without this."""
        self._reduce(True)

    def _reduce(self, whether: bool) -> None:
        for wrapper in self.wrappers:
            wrapper.require_backward_grad_sync = whether


register(DDPNoSync())
