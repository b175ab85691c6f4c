"""Contexts around forward passes and their losses, and the backward pass outside of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from gpuscope.advice.changes.hooks.replaced_names import Replaced
from gpuscope.program.capture.patches import of_capture

__all__ = ["ForwardPass"]

Backward = Callable[..., Any]


class ForwardPass:
    """Where a step's forward pass begins and ends.

    Attributes:
        contexts: what is entered for it, in order.
    """

    def __init__(self) -> None:
        self.contexts: list[Callable[[], AbstractContextManager[Any]]] = []
        self._entered: ExitStack | None = None
        self._in_backward = False

    def enter(self) -> None:
        """A forward pass begins; nothing to do where one has begun."""
        if self._entered is not None or not self.contexts:
            return
        self._entered = ExitStack()
        for context in self.contexts:
            self._entered.enter_context(context())

    def leave(self) -> None:
        """It is over; nothing to do where none has begun."""
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.close()

    def entering(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A module's call, with which a forward pass begins where none has."""

        def entered(*args: Any, **kwargs: Any) -> Any:
            if self._entered is None and not self._in_backward:
                self.enter()
            return call(*args, **kwargs)

        return entered

    def watch_backward(
        self, replaced: Replaced, edits: Sequence[Callable[[Backward], Backward]]
    ) -> None:
        """Backward passes and optimizer steps lie outside.

        Args:
            replaced: undoes it.
            edits: each wraps `Tensor.backward`, the last outermost.
        """
        import torch

        if edits or self.contexts:
            original: Any = torch.Tensor.backward
            called: Backward = functools.reduce(lambda made, edit: edit(made), edits, original)

            @functools.wraps(original)
            def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                if self._in_backward:  # a TorchFunctionMode sends torch's own here once more
                    return original(tensor, *args, **kwargs)
                with self._outside():
                    return called(tensor, *args, **kwargs)

            replaced.set(torch.Tensor, "backward", backward)
        if self.contexts:
            from torch.optim.optimizer import register_optimizer_step_pre_hook

            handle = register_optimizer_step_pre_hook(of_capture(lambda *_: self.leave()))
            replaced.at_end(handle.remove)

    @contextmanager
    def _outside(self) -> Iterator[None]:
        self.leave()
        before, self._in_backward = self._in_backward, True
        try:
            yield
        finally:
            self._in_backward = before
