"""How `torch.compile` takes hold of live modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.hooks.root_modules import unwrapped

__all__ = [
    "blocks_of",
    "compile_modules",
    "limit_name",
    "losses_named",
    "marks_steps",
    "variants_of",
]

_OTHERS = 8
"""Variants of a block beside one for each: Dynamo's own limit for one function."""


def compile_modules(live: Live, modules: Iterable[Any], mode: str | None) -> None:
    """Compile the calls of modules, until the live code is closed.

    Args:
        live: whose modules they are.
        modules: those that hold a compiled one, or are one, are left alone.
        mode: of `torch.compile`; None: the default.
    """
    import torch

    modules = list(modules)
    if len(modules) > 1 and not live.pretended:
        settings: Any = torch._dynamo.config
        name = limit_name()
        live.set(settings, name, max(getattr(settings, name), variants_of(len(modules))))
    for module in modules:
        if any(_is_compiled(m) for m in module.modules()):
            continue
        # `Module.compile` leaves torch's own modules as they are (a `Sequential`, a
        # `TransformerEncoderLayer`): Dynamo skips code of torch that it is not led into.
        # `dynamic=None`: sizes are fixed until one changes; False would compile each size anew.
        compiled = torch.compile(_led_into(module), mode=mode, dynamic=None)
        module._compiled_call_impl = compiled
        live.at_end(_eager_again(module, compiled))


def limit_name() -> str:
    """What Dynamo's settings call the number of times that one function is compiled."""
    import torch

    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return "recompile_limit" if release >= (2, 7) else "cache_size_limit"


def variants_of(blocks: int) -> int:
    """So many times the code of equal blocks may be compiled.

    They share it, and where each meets something of its own (its layer of a cache, its shapes), it
    is compiled for each. Dynamo stops after 8 (`recompile_limit`, torch/_dynamo/config.py): from
    the ninth block on, a model would run as it was.
    """
    return blocks + _OTHERS


def _led_into(module: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return module._call_impl(*args, **kwargs)

    return call


def _is_compiled(module: Any) -> bool:
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or type(module).__name__ == "OptimizedModule"


def _eager_again(module: Any, compiled: Any) -> Any:
    def undo() -> None:
        if vars(module).get("_compiled_call_impl") is compiled:
            del module._compiled_call_impl

    return undo


def losses_named(module: Any) -> None:
    """Name the loss of a transformers model that has none in its table.

    It would take this very one, but warns of it, and a warning leaves the graph. Exact.
    """
    module = unwrapped(module)
    named = "loss_type" in vars(module) or hasattr(type(module), "loss_function")
    if named and getattr(module, "loss_type", "") is None:
        module.loss_type = "ForCausalLM"


def blocks_of(module: Any) -> list[Any]:
    """The blocks of the largest list of equal blocks; empty without one of at least two."""
    import torch

    best: list[Any] = []
    for holder in module.modules():
        if not isinstance(holder, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        by_class: dict[type, list[Any]] = {}
        for child in holder:
            if any(True for _ in child.children()):
                by_class.setdefault(type(child), []).append(child)
        for found in by_class.values():
            if len(found) > max(1, len(best)):
                best = found
    return best


def marks_steps(live: Live) -> None:
    """Tell graphs of `torch.compile` where a step begins, so that they may reuse its memory."""
    import torch

    def wrap(step: Any) -> Any:
        def marked() -> object:
            if not live.pretended:
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            return step()

        return marked

    live.on_step(wrap)
