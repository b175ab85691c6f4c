"""Selective checkpointing asks by operator what to keep: it must hear the operators of a GPU.

A policy names `aten::_scaled_dot_product_flash_attention` and the like; a capture runs operators of
its own in their place (`gpuscope.program.capture.operators`), which no policy knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint as checkpoint

from gpuscope.program.capture.patches import Patches

__all__ = ["install", "named_on_gpu"]

_ATTENTION = {
    "flash": "_scaled_dot_product_flash_attention",
    "efficient": "_scaled_dot_product_efficient_attention",
    "cudnn": "_scaled_dot_product_cudnn_attention",
}
_OTHERS = {"rms_norm": "_fused_rms_norm", "rnn": "_cudnn_rnn"}
_BACKEND_AT = 7
"""Place of the implementation's name among attention's arguments."""


def install(patch: Patches) -> None:
    """Policies are asked about the operators that a GPU would run.

    Which attention that is follows PyTorch's choice for most devices; where a Hopper or Blackwell
    device prefers cuDNN's, a policy that tells them apart would answer otherwise.
    """
    for name in ("_CachingTorchDispatchMode", "_CachedTorchDispatchMode"):
        mode: Any = getattr(checkpoint, name, None)
        if mode is not None:
            patch.set(mode, "__init__", _asking(mode.__init__))


def _asking(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, policy_fn: Any, *args: Any, **kwargs: Any) -> None:
        def asked(context: Any, func: Any, *given: Any, **named: Any) -> Any:
            return policy_fn(context, named_on_gpu(func, given), *given, **named)

        original(self, asked, *args, **kwargs)

    return init


def named_on_gpu(func: Any, args: tuple[Any, ...]) -> Any:
    """The operator of PyTorch that one of a capture's own stands for.

    Args:
        func: an operator's overload.
        args: of the call.

    Returns:
        the overload of `aten`; `func` itself where it is no stand-in, or torch has no such one.
    """
    namespace, _, name = str(getattr(func, "_schema", func)).partition("(")[0].partition("::")
    if namespace != "gpuscope":
        return func
    given = args[_BACKEND_AT] if len(args) > _BACKEND_AT else "flash"
    known = _ATTENTION.get(str(given).removesuffix("_only")) if name == "attention" else None
    packet = getattr(torch.ops.aten, known or _OTHERS.get(name, ""), None)
    return getattr(packet, "default", func)
