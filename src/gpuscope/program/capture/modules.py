"""Which module an operator belongs to, in the forward pass and in the backward pass.

Forward: global module hooks keep a stack of paths. Backward: autograd numbers its nodes in the
order in which the forward pass made them (`sequence_nr`); the module on the stack when a number
was current owns the node, and so the operators that the node runs.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from gpuscope.program.capture.patches import here
from gpuscope.program.types import ModuleInfo


class _Running(threading.local):
    def __init__(self) -> None:
        self.stack: list[str] = []


class ModuleTracker:
    """Module paths by hook; install with `start`, remove with `stop`."""

    def __init__(self) -> None:
        self._running = _Running()
        self.calls = 0
        self.roots: list[tuple[str, torch.nn.Module]] = []
        self._paths: dict[int, str] = {}
        self._numbers: list[int] = []
        self._owners: list[str] = []
        self._handles: list[Any] = []
        self._passing: list[tuple[str, torch.nn.Module]] = []

    @property
    def stack(self) -> list[str]:
        """Paths of the modules that the calling thread runs, outermost first."""
        return self._running.stack

    def start(self) -> None:
        """Install the hooks."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def new_step(self) -> None:
        """Forget the autograd numbers of the step before, and modules made inside of it."""
        for root in self._passing:
            self.roots.remove(root)
            for child in root[1].modules():
                self._paths.pop(id(child), None)
        self._passing.clear()
        self._numbers.clear()
        self._owners.clear()
        self.stack.clear()

    @property
    def current(self) -> str:
        """Path of the innermost module being run, "" outside of all."""
        return self.stack[-1] if self.stack else ""

    def path(self, module: torch.nn.Module) -> str:
        """Path of a module; "" where nothing has been seen of it."""
        return self._paths.get(id(module), "")

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if not here():
            return
        path = self._paths.get(id(module))
        if path is None:
            path = self._adopt(module)
        self._mark()
        self.stack.append(path)
        self._mark()
        self.calls += 1

    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not here():
            return
        self._mark()
        if self.stack:
            self.stack.pop()
        self._mark()

    def _mark(self) -> None:
        """From this autograd number on, nodes belong to the current module."""
        number = torch._C._autograd._get_sequence_nr()
        if self._numbers and self._numbers[-1] == number:
            self._owners[-1] = self.current
        else:
            self._numbers.append(number)
            self._owners.append(self.current)

    def _adopt(self, module: torch.nn.Module) -> str:
        prefix = self.stack[-1] if self.stack else ""
        if self.stack or self.roots:
            prefix = f"{prefix}.{type(module).__name__}".lstrip(".")
            taken = set(self._paths.values())
            base, n = prefix, 1
            while prefix in taken:
                n += 1
                prefix = f"{base}_{n}"
        self.roots.append((prefix, module))
        if self.stack:  # made inside of another module's forward: not part of the model
            self._passing.append((prefix, module))
        for name, child in module.named_modules():
            path = ".".join(part for part in (prefix, name) if part)
            self._paths.setdefault(id(child), path)
        return self._paths[id(module)]

    def owner(self, node: Any) -> str:
        """Module path of the forward operator that an autograd node differentiates."""
        number = node._sequence_nr() if hasattr(node, "_sequence_nr") else None
        if number is None or not self._numbers or number > self._numbers[-1] + 10**9:
            return ""
        at = bisect_right(self._numbers, number) - 1
        return self._owners[at] if at >= 0 else ""

    def infos(self) -> tuple[ModuleInfo, ...]:
        """The module tree, root first, each with the parameters it owns itself."""
        out = []
        for _, root in self.roots:
            for module in root.modules():
                own = sum(p.numel() for p in module.parameters(recurse=False))
                out.append(ModuleInfo(self._paths[id(module)], type(module).__name__, own))
        return tuple({info.path: info for info in out}.values())
