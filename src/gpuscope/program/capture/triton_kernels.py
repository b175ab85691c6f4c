"""Triton kernels of the user's own, under a capture: noted, not run.

What a kernel does with its pointers is not known without running it, so it is noted with the
tensors that it is given, each of which it reads or writes once (a guess with a wide interval,
`gpuscope.cost.fallback`). Where Triton is not installed (it has no wheels for many machines), a
stand-in lets code import it: kernels are defined, and noted when they are launched.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture.calls import flat
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.triton_stand_in import StandIn
from gpuscope.program.script.runner import when_imported

__all__ = ["install"]

_ASSUMED = Text(
    "Triton kernels of your own are not followed: each is taken as moving every tensor that it is "
    "given once."
)


def install(patch: Patches, recorder: Any) -> None:
    """Note launches, of the real Triton or of the stand-in, until the patches are undone."""

    def launched(kernel: Any, args: Any, kwargs: Any) -> None:
        _note(recorder, _name(kernel), _tensors(args, kwargs))

    if importlib.util.find_spec("triton") is None:
        stand_in = StandIn(launched)
        stand_in.begin()
        patch.on_undo(stand_in.end)
        patch.set(torch.utils._triton, "has_triton_package", lambda: False, only_if_present=True)
        return
    patch.on_undo(when_imported("triton", lambda: _replace_runs(patch, launched)))


def _replace_runs(patch: Patches, launched: Any) -> None:
    """`kernel[grid](...)` ends in `run` of whatever decorates the kernel."""
    from triton.runtime import autotuner, jit  # type: ignore[import-not-found,unused-ignore]

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        launched(self, args, kwargs)

    for owner in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        patch.set(owner, "run", run)


def _note(recorder: Any, name: str, tensors: list[torch.Tensor]) -> None:
    if recorder.strict:
        raise CaptureError(
            Text("The Triton kernel '{name}' cannot be captured.", name=name),
            Text("What it does with its tensors is not known without running it."),
            Text("Leave out --strict to estimate it by their bytes."),
        )
    recorder.values.assume(_ASSUMED)
    recorder.python.pause()
    specs = tuple(recorder.spec(tensor) for tensor in tensors)
    for spec in specs:
        recorder.values.forget(spec.storage)
    recorder.append(f"triton::{name}", "", specs, (), {})
    recorder.python.resume()


def _tensors(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors among the arguments, also those that a descriptor holds, each once."""
    given = flat((args, tuple(kwargs.values())))
    held = [v if isinstance(v, torch.Tensor) else getattr(v, "base", None) for v in given]
    return list({id(t): t for t in held if isinstance(t, torch.Tensor)}.values())


def _name(kernel: Any) -> str:
    """The function's name, below what decorates it."""
    seen = kernel
    while hasattr(seen, "fn"):
        seen = seen.fn
    return str(getattr(seen, "__name__", "kernel"))
