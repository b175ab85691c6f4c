"""Triton kernels of the user's own, under a capture: followed block by block, not run.

A launch's work is counted in the kernel's own code (`gpuscope.program.triton_blocks`), for each of
the configurations that an autotuner would try; the device chooses among them when the program is
costed. What cannot be followed is noted with the tensors that it is given, each of which it reads
or writes once (a guess with a wide interval, `gpuscope.cost.fallback`). Where Triton is not
installed (it has no wheels for many machines), a stand-in lets code import it.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from gpuscope.document.text import Text, verbatim
from gpuscope.errors import CaptureError
from gpuscope.program.capture.calls import flat
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.triton_stand_in import StandIn
from gpuscope.program.script.runner import when_imported

if TYPE_CHECKING:
    from gpuscope.program.triton_blocks.work import BlockWork

__all__ = ["body", "install"]

_MOST_CONFIGS = 24
"""Configurations of an autotuner that are followed, evenly chosen where there are more."""


def install(patch: Patches, recorder: Any) -> None:
    """Follow launches, of the real Triton or of the stand-in, until the patches are undone."""
    known: dict[Any, Any] = {}

    def launched(kernel: Any, args: Any, kwargs: Any) -> None:
        _note(recorder, known, kernel, args, kwargs)

    if importlib.util.find_spec("triton") is None:
        stand_in = StandIn(launched)
        stand_in.begin()
        patch.on_undo(stand_in.end)
        patch.set(torch.utils._triton, "has_triton_package", lambda: False, only_if_present=True)
    else:
        patch.on_undo(when_imported("triton", lambda: _replace_runs(patch, launched)))
        patch.on_undo(when_imported("triton.testing", lambda: _replace_timing(patch)))
    # `wrap_triton(kernel)` is the kernel itself, as in PyTorch's own eager mode; code may hold the
    # function by name already.
    wrap = getattr(torch.library, "wrap_triton", None)
    if isinstance(wrap, types.FunctionType):
        patch.everywhere(wrap, "__code__", (lambda triton_kernel, /: triton_kernel).__code__)


def _replace_runs(patch: Patches, launched: Any) -> None:
    """`kernel[grid](...)` ends in `run` of whatever decorates the kernel."""
    from triton.runtime import autotuner, jit  # type: ignore[import-not-found,unused-ignore]

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        launched(self, args, kwargs)

    for owner in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        patch.set(owner, "run", run)


def _replace_timing(patch: Patches) -> None:
    """Triton asks its driver for a device to time on."""
    from gpuscope.program.capture.triton_bench import do_bench

    for name in ("do_bench", "do_bench_cudagraph"):
        patch.set(sys.modules["triton.testing"], name, do_bench, only_if_present=True)


def body(name: str) -> Any:
    """The Python function of a custom operator that launches Triton kernels; None for others.

    Those of `torch.library.triton_op` do so by promise; those of `torch.library.custom_op` where
    their function names a kernel.
    """
    defined = torch._library.custom_ops.OPDEFS.get(name)
    if defined is None:
        return None
    if name in getattr(torch._library.triton, "triton_ops_to_kernels", ()):
        return defined._abstract_fn
    function = inspect.unwrap(defined._init_fn)
    known = getattr(function, "__globals__", {})
    named = getattr(getattr(function, "__code__", None), "co_names", ())
    return function if any(_is_kernel(known.get(each)) for each in named) else None


def _is_kernel(value: Any) -> bool:
    kinds = {"_Kernel", "JITFunction", "Autotuner", "Heuristics"}
    return type(value).__name__ in kinds and hasattr(value, "fn")


def _note(recorder: Any, known: dict[Any, Any], kernel: Any, args: Any, kwargs: Any) -> None:
    from gpuscope.program.triton_blocks.values import NotFollowedError

    recorder.python.pause()
    function, tensors = _function(kernel), _tensors(args, kwargs)
    name = str(getattr(function, "__name__", "kernel"))
    specs = tuple(recorder.spec(tensor) for tensor in tensors)
    more: dict[str, Any] = {}
    written = specs
    try:
        works = _followed(recorder, known, kernel, function, tensors, args, kwargs)
        stored = {t.tensor for t in works[0].traffic if t.kind != "load"}
        written = tuple(spec for at, spec in enumerate(specs) if at in stored)
        more = {"work": works}
        for what in sorted(set().union(*(work.assumed for work in works))):
            recorder.values.assume(_taken(what, name))
    except NotFollowedError as error:
        if recorder.strict:
            raise CaptureError(
                Text("The Triton kernel '{name}' cannot be captured.", name=name),
                error.why,
                Text("Leave out --strict to estimate it by the bytes of its tensors."),
            ) from error
        why = verbatim(str(error.why).removesuffix("."))
        recorder.values.assume(
            Text(
                "The Triton kernel {name} is not followed ({why}): taken as moving every tensor "
                "that it is given once.",
                name=name,
                why=why,
            )
        )
    for spec in written:
        recorder.values.forget(spec.storage)
    outputs = written if more else ()
    recorder.append(f"triton::{name}", "", specs, outputs, more)
    recorder.python.resume()


def _taken(what: str, name: str) -> Text:
    """What a followed kernel's cost takes for granted."""
    if what == "masks":
        return Text("Triton kernel {name}: masks that depend on data are taken as true.", name=name)
    if what == "branches":
        return Text("Triton kernel {name}: branches that depend on data are taken.", name=name)
    return Text("Triton kernel {name}: rows picked by data are taken as evenly spread.", name=name)


def _followed(
    recorder: Any, known: dict[Any, Any], kernel: Any, function: Any, tensors: Any, args: Any,
    kwargs: Any,
) -> tuple[BlockWork, ...]:  # fmt: skip
    """What the launch does, by configuration; equal launches are followed once."""
    from gpuscope.program.capture import triton_launches as launches
    from gpuscope.program.triton_blocks.launches import FEW_SAMPLES, SAMPLES, follow
    from gpuscope.program.triton_blocks.values import NotFollowedError

    if not isinstance(function, types.FunctionType):
        raise NotFollowedError(Text("Its Python function is not there."))
    configs, heuristics = launches.choices(kernel)
    given = launches.bound(function, args, kwargs)
    arguments = tuple(launches.argument(recorder, tensor) for tensor in tensors)
    step = max(1, -(-len(configs) // _MOST_CONFIGS))
    found, failed = [], None
    for config in configs[::step]:
        try:
            launch = launches.launch(
                function, given, launches.Choice(config, heuristics, kwargs), tensors, arguments,
                FEW_SAMPLES if len(configs) > 2 else SAMPLES,
            )  # fmt: skip
            key = launches.key(launch)
            if key not in known:
                known[key] = follow(launch)
            found.append(known[key])
        except NotFollowedError as error:
            failed = error
    if failed is not None and not found:
        raise failed
    return tuple(found)


def _tensors(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors among the arguments, also those that a descriptor holds, each once."""
    given = flat((args, tuple(kwargs.values())))
    held = [v if isinstance(v, torch.Tensor) else getattr(v, "base", None) for v in given]
    return list({id(t): t for t in held if isinstance(t, torch.Tensor)}.values())


def _function(kernel: Any) -> Any:
    """The Python function below what decorates it."""
    seen = kernel
    while hasattr(seen, "fn"):
        seen = seen.fn
    return inspect.unwrap(seen) if callable(seen) else seen
