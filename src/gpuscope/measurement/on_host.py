"""Run code that says "cuda" on the host's processor, for `--device cpu`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Redirect(TorchFunctionMode):
    """Every "cuda" that a PyTorch function is given becomes "cpu"; counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.redirected = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            self.redirected += 1
            return args[0]
        kwargs = dict(kwargs or {})
        if _is_gpu(kwargs.get("device")):
            self.redirected += 1
            kwargs["device"] = "cpu"
        if any(_is_gpu(arg) for arg in args if not isinstance(arg, torch.Tensor)):
            self.redirected += 1
            args = tuple("cpu" if _is_gpu(arg) else arg for arg in args)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return func(*args, **kwargs)


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


@contextmanager
def on_host() -> Iterator[Callable[[], int]]:
    """Redirect "cuda" to the host inside the block; yields how often it happened so far."""
    saved = torch.cuda.synchronize
    torch.cuda.synchronize = lambda device=None: None
    mode = _Redirect()
    try:
        with mode:
            yield lambda: mode.redirected
    finally:
        torch.cuda.synchronize = saved


class HostStep:
    """A step whose "cuda" is redirected; one that never says it runs as it is from then on."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self._calls = 0
        self.redirects = True

    def __call__(self) -> object:
        """Run the step."""
        if not self.redirects:
            return self._step()
        with on_host() as redirected:
            result = self._step()
            self._calls += 1
            # Two steps: a first one may be the only one that places anything.
            self.redirects = redirected() > 0 or self._calls < 2
        return result
