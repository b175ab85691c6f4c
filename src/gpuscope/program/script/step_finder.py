"""Find where a program's steps begin, without its help and without slowing it down.

Training: a step ends when its optimizer has stepped (of several, the one that was seen first); a
program that makes no optimizer and updates its weights itself, when its backward pass is over.
Inference: a step begins when the root module is called without gradients: a module that no other
module called. Roots are found with one global hook that is armed only between root calls, so that
no module inside a model ever meets it; once a root has come up three times, only its own hook is
left. When an optimizer steps, all module hooks go.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal

Source = Literal["optimizer", "backward", "forward", "call"]
Boundary = Callable[[Source], None]

ROOT_CALLS = 3
"""Calls after which a root is taken for the one that makes the steps."""


class StepFinder:
    """Calls `boundary(source)` between steps, from `start` to `stop`."""

    def __init__(
        self, boundary: Boundary, *, by: Source | None = None, fresh: bool = False
    ) -> None:
        """Prepare.

        Args:
            boundary: called between two steps; must not raise.
            by: only this kind of boundary; None takes an optimizer's where there is one, else the
                backward passes', else the forward calls'.
            fresh: the program has not begun yet, so an optimizer that is not seen being made is
                not there; else backward passes are no boundaries unless asked for.

        Attributes:
            optimizers: made since the start.
        """
        self._boundary = boundary
        self._by = by
        self._fresh = fresh
        self._optimizer: int | None = None
        self._roots: dict[int, int] = {}
        self._known: dict[int, Any] = {}
        self._chosen: int | None = None
        self._handles: dict[str, Any] = {}
        self._inside = 0
        self._backwards = 0
        self.optimizers = 0

    @property
    def settled(self) -> bool:
        """Whether it is known whose calls are the steps of inference."""
        return self._chosen is not None

    def start(self) -> None:
        """Install the hooks (torch must be imported)."""
        if self._by in (None, "optimizer"):
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._handles["optimizer"] = register_optimizer_step_post_hook(self._stepped)
        if self._by == "backward" or (self._by is None and self._fresh):
            import torch

            self._handles["made"] = _Wrapped(torch.optim.Optimizer, "__init__", self._made)
            self._handles["backward"] = _Wrapped(torch.autograd, "backward", self._went_back)
        if self._by in (None, "forward"):
            # Said about hooks on compiled modules; ours is gone before the module's own code runs.
            warnings.filterwarnings("ignore", message=".*there are global hooks on modules.*")
            self._arm()

    def stop(self) -> None:
        """Remove every hook."""
        for name in list(self._handles):
            self._remove(name)

    # -- training ---------------------------------------------------------------------------------

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if _not_really():
            return
        if self._optimizer is None:
            self._optimizer = id(optimizer)
            self._drop_modules()
        if id(optimizer) == self._optimizer:
            self._boundary("optimizer")

    def _made(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.optimizers += 1
        self._remove("backward")
        return original(*args, **kwargs)

    def _went_back(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A backward pass, and by it the end of a step where no optimizer will tell."""
        result = original(*args, **kwargs)
        if self._optimizer is None and not _not_really():
            self._backwards += 1
            if self._backwards == ROOT_CALLS:
                self._drop_modules()
            self._boundary("backward")
        return result

    # -- inference --------------------------------------------------------------------------------

    def _arm(self) -> None:
        from torch.nn.modules.module import register_module_forward_pre_hook

        known = self._optimizer is not None or self._backwards >= ROOT_CALLS
        if "global" not in self._handles and not known and self._chosen is None:
            self._handles["global"] = register_module_forward_pre_hook(self._any_call)

    def _any_call(self, module: Any, args: Any) -> None:
        """The first call after a root returned: this module is a root."""
        if _not_really():
            return
        self._remove("global")
        if id(module) in self._known:
            return  # its own hook comes next
        self._known[id(module)] = module
        self._handles[f"pre {id(module)}"] = module.register_forward_pre_hook(self._root_call)
        self._handles[f"post {id(module)}"] = module.register_forward_hook(
            self._root_return, always_call=True
        )
        self._root_call(module, args)

    def _root_call(self, module: Any, args: Any) -> None:
        if _not_really():
            return
        self._inside += 1
        if self._inside > 1 or not _inference(module):
            return
        key = id(module)
        self._roots[key] = self._roots.get(key, 0) + 1
        if self._chosen is None and self._roots[key] >= ROOT_CALLS:
            self._choose(key)
        if self._chosen in (None, key):
            self._boundary("forward")

    def _root_return(self, module: Any, args: Any, output: Any) -> None:
        if _not_really():
            return
        self._inside = max(0, self._inside - 1)
        if self._inside == 0:
            self._arm()

    def _choose(self, key: int) -> None:
        self._chosen = key
        self._remove("global")
        for name in list(self._handles):
            if name.startswith(("pre ", "post ")) and not name.endswith(f" {key}"):
                self._remove(name)

    def _drop_modules(self) -> None:
        for name in list(self._handles):
            if name.startswith(("global", "pre ", "post ")):
                self._remove(name)
        self._known.clear()

    def _remove(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.remove()


class _Wrapped:
    """A function that is called through another one, until `remove`."""

    def __init__(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        self._owner, self._name, self._original, self._wrapped = owner, name, original, wrapped
        setattr(owner, name, wrapped)

    def remove(self) -> None:
        """Put the original back, unless somebody else has replaced it since."""
        if getattr(self._owner, self._name) is self._wrapped:
            setattr(self._owner, self._name, self._original)


def _inference(module: Any) -> bool:
    """Whether a call is no part of training: no gradients, or a module set to evaluate."""
    import torch

    return not torch.is_grad_enabled() or not module.training


def _not_really() -> bool:
    """Whether the code is only traced by a compiler, or captured into a CUDA graph, not run."""
    import torch

    if torch.compiler.is_compiling():
        return True
    cuda: Any = torch.cuda  # untyped in torch
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())
