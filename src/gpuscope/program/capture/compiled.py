"""`torch.compile` while capturing: the model runs eagerly, and the mode that was asked is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuscope.program.capture.patches import Patches


def install(patch: Patches, recorder: Any) -> None:
    """Make `torch.compile` and `Module.compile` hand back what they got; note the mode."""
    recorder.compiled = ""

    def note(mode: str | None) -> None:
        recorder.compiled = mode or "default"

    def compile_(model: Any = None, *, mode: str | None = None, **kwargs: Any) -> Any:
        note(mode)
        if model is None:
            return lambda function: function
        return model

    def module_compile(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        note(kwargs.get("mode"))

    def graphed(callables: Any, *args: Any, **kwargs: Any) -> Any:
        note("cudagraphs")
        return callables

    patch.set(torch, "compile", compile_)
    patch.set(torch.nn.Module, "compile", module_compile, only_if_present=True)
    patch.set(torch.cuda, "make_graphed_callables", graphed, only_if_present=True)


Decorator = Callable[[Any], Any]
