"""`Live`: where changes take hold of running code.

The code is the user's own: `build()` and the step it returns, or a whole script. A change says what
it wants (`around_forward`, `on_model`, `on_optimizer`, ...) and `Live` finds the moment: settings
before anything is made, constructors' keywords when the code calls them, models once they stand on
their device, contexts around what lies between a step's begin and its backward pass. The same holds
under a capture's fakes. `close` undoes all of it.

What it adds to a steady step is a handful of Python calls (around root modules and backward
passes); no tensor is touched.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.constructors import (
    watch_loaders,
    watch_optimizers,
    watch_wrappers,
)
from gpuscope.advice.changes.hooks.first_calls import FirstCalls
from gpuscope.advice.changes.hooks.forward_pass import ForwardPass
from gpuscope.advice.changes.hooks.inspection import Seeing
from gpuscope.advice.changes.hooks.module_calls import AskedCalls
from gpuscope.advice.changes.hooks.optimizer_parameters import follow, listed, parameters_of
from gpuscope.advice.changes.hooks.replaced_names import Replaced
from gpuscope.advice.changes.hooks.root_modules import modules, roots
from gpuscope.advice.types import Seen
from gpuscope.program.capture.patches import here

__all__ = ["Build", "Live"]

Step = Callable[[], object]
Build = Callable[[], Step]
Context = Callable[[], AbstractContextManager[Any]]


class Live:
    """Changes at work on live code; a context manager that undoes them at its end.

    Args:
        changes: in the order of their installation (see `gpuscope.advice.registry.plan`).
    """

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        self.changes = tuple(changes)
        self._replaced = Replaced()
        self._calls = AskedCalls()
        self._clear()

    def _clear(self) -> None:
        self._around_step: list[Context] = []
        self._model_edits: list[Callable[[Any], None]] = []
        self._optimizer_edits: list[Callable[[type, dict[str, Any]], None]] = []
        self._optimizer_uses: list[Callable[[Any], None]] = []
        self._loader_edits: list[Callable[[dict[str, Any]], None]] = []
        self._batch_edits: list[Callable[[Iterator[Any]], Iterator[Any]]] = []
        self._wrap_edits: list[Callable[[str, dict[str, Any]], None]] = []
        self._wrap_uses: list[Callable[[str, Any], None]] = []
        self._call_edits: list[Callable[[Any, Callable[..., Any]], Callable[..., Any]]] = []
        self._backward_edits: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = []
        self._step_edits: list[Callable[[Callable[[], Any]], Callable[[], Any]]] = []
        self._build_edits: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = []
        self._met: list[Any] = []
        self._elsewhere: weakref.WeakSet[Any] = weakref.WeakSet()
        self._seeing = Seeing()
        self._forward = ForwardPass()
        self._first_calls = FirstCalls(self._first_call)
        self._building = False
        self.models: list[Any] = []
        """Root modules that were met, in order."""
        self.optimizers: list[Any] = []
        """Optimizers that were made."""

    # -- what a change asks for, in `Change.install` ---------------------------------------------

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name` until the end: a setting, or a function replaced by another."""
        self._replaced.set(owner, name, value)

    def set_in_user_modules(self, name: str, original: Any, value: Any) -> None:
        """Replace a function where the user's modules have imported it by name."""
        self._replaced.in_user_modules(name, original, value)

    def at_end(self, undo: Callable[[], None]) -> None:
        """Have something undone at the end."""
        self._replaced.at_end(undo)

    def around_step(self, context: Context) -> None:
        """Enter a context around each step (only where the code is a `build`)."""
        self._around_step.append(context)

    def around_forward(self, context: Context) -> None:
        """Enter a context around forward passes and their losses.

        Entered at the begin of a step, left when a backward pass or the optimizer begins, entered
        again when a root module is called after that (gradient accumulation).
        """
        self._forward.contexts.append(context)

    def on_model(self, edit: Callable[[Any], None]) -> None:
        """Edit each root module in place, once: before its optimizer is made, or before its first
        step. Parameters may be replaced: the optimizer gets the new ones."""
        self._model_edits.append(edit)

    def on_optimizer(self, edit: Callable[[type, dict[str, Any]], None]) -> None:
        """Edit the keywords (`params` and `lr` among them) an optimizer of torch is made with."""
        self._optimizer_edits.append(edit)

    def on_optimizer_made(self, use: Callable[[Any], None]) -> None:
        """Be given each optimizer once it is made."""
        self._optimizer_uses.append(use)

    def on_loader(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Edit the keywords that a `DataLoader` is made with."""
        self._loader_edits.append(edit)

    def on_batches(self, wrap: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        """Wrap each iterator of a `DataLoader`."""
        self._batch_edits.append(wrap)

    def on_wrap(self, edit: Callable[[str, dict[str, Any]], None]) -> None:
        """Edit the keywords of distributed wrappers; told "ddp", "fsdp1", "fully_shard"."""
        self._wrap_edits.append(edit)

    def on_wrapped(self, use: Callable[[str, Any], None]) -> None:
        """Be given each distributed wrapper once it is made: "ddp" and "fsdp1" the wrapper,
        "fully_shard" the module that was sharded."""
        self._wrap_uses.append(use)

    def on_call(self, wrap: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap the call of each root module, outside of what is compiled: given the module and
        how it is called, returns what is called instead. The first that asks is the outermost."""
        self._call_edits.append(wrap)

    def around_calls(self, wrap: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> bool:
        """As `on_call`, outside of all that asked before; only where any did.

        Returns:
            Whether it was done: else calls are what they were, and forward hooks see them all.
        """
        if self._call_edits:
            self._call_edits.insert(0, wrap)
        return bool(self._call_edits)

    def on_backward(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap `Tensor.backward`: given the function, returns what is called instead."""
        self._backward_edits.append(wrap)

    def on_step(self, wrap: Callable[[Step], Step]) -> None:
        """Wrap the step that `build` returns (once); scripts have none."""
        self._step_edits.append(wrap)

    def on_build(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap `build` itself (another batch); scripts have none."""
        self._build_edits.append(wrap)

    @property
    def pretended(self) -> bool:
        """Whether the code runs under a capture's fakes, not on a device."""
        from torch._guards import detect_fake_mode

        return detect_fake_mode() is not None

    # -- running ---------------------------------------------------------------------------------

    def wrap(self, build: Build, innermost: Callable[[Step], Step] | None = None) -> Build:
        """The same build with the changes made; each call begins anew.

        Args:
            build: the user's, as it stands.
            innermost: wraps its step before any change does.
        """

        @functools.wraps(build)
        def changed() -> Step:
            self.close()
            self.start()
            self._elsewhere.update(modules())
            self._seeing.build(build)
            try:
                self._building = True
                step = functools.reduce(lambda made, edit: edit(made), self._build_edits, build)()
                self._building = False
                self._replaced.insist()
                self._meet_all()
                if self.models:
                    # What is compiled must not find a hook that is gone in the next step.
                    self._first_calls.end()
            except BaseException:
                self.close()
                raise
            if not callable(step):
                return step
            if innermost is not None:
                step = innermost(step)
            for edit in self._step_edits:
                step = edit(step)
            return self._changed_step(step)

        return changed

    def start(self) -> None:
        """Begin: install the changes; for a whole script, before it runs."""
        self._clear()
        for change in self.changes:
            change.install(self)
        self._seeing.watch_models(self._replaced)
        replaced = self._replaced
        watch_optimizers(replaced, self._optimizer_begins, self._optimizer_made)
        watch_loaders(replaced, self._loader_edits, self._batch_edits, self._seeing.loader)
        watch_wrappers(replaced, self._wrap_begins, self._wrap_made)
        self._forward.watch_backward(replaced, self._backward_edits)
        self._first_calls.begin(replaced)

    def step_ended(self) -> None:
        """A step of a whole script is over: what was entered for its forward pass is left."""
        self._forward.leave()
        self._first_calls.end()

    def close(self) -> None:
        """Undo everything. Models that were edited stay as they are."""
        self._forward.leave()
        self._calls.give_back()
        self._replaced.undo()

    def forget(self) -> None:
        """Undo everything, and hold nothing of the code any more."""
        self.close()
        self._clear()

    def __enter__(self) -> Live:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seen(self, file: str = "", function: str = "") -> Seen:
        """What was seen of the code until now."""
        return self._seeing.seen(self.models, self.optimizers, file, function)

    def _changed_step(self, step: Step) -> Step:
        if not self._around_step and not self._forward.contexts:
            return step
        entered = tuple(self._around_step)

        def changed() -> object:
            with ExitStack() as stack:
                for context in entered:
                    stack.enter_context(context())
                self._forward.enter()
                stack.callback(self._forward.leave)
                return step()

        return functools.update_wrapper(changed, step)

    # -- models ----------------------------------------------------------------------------------

    def _meet_all(self, of: Sequence[Any] = (), called: Any = None) -> None:
        """Meet every root module that was made since the begin.

        Args:
            of: only those that own one of these parameters, whenever they were made.
            called: also the one that holds this module, whenever it was made.
        """
        wanted = {id(p) for p in of}
        for module in roots():
            if any(module is met for met in self._met):
                continue
            if of:
                ours = any(id(p) in wanted for p in module.parameters())
            else:
                ours = module not in self._elsewhere and not (here() and _has_values(module))
            if ours or (called is not None and any(m is called for m in module.modules())):
                self._meet(module)

    def _meet(self, module: Any) -> None:
        self._met.append(module)
        self.models.append(module)
        self._seeing.model(module)
        for edit in self._model_edits:
            edit(module)
        if self._call_edits or self._forward.contexts:
            self._wrap_call(module)

    def _wrap_call(self, module: Any) -> None:
        if self._forward.contexts:
            self._calls.take(module, self._forward.entering)
        for wrap in reversed(self._call_edits):
            self._calls.take(module, functools.partial(wrap, module))

    def _first_call(self, module: Any) -> None:
        """A module is called that was not met: code without a `build`, or one that builds late."""
        if self._building:
            return
        self._meet_all(called=module)
        for met in (*self._met, module):
            self._first_calls.know(met)

    # -- constructors ------------------------------------------------------------------------------

    def _optimizer_begins(self, cls: type, keywords: dict[str, Any]) -> None:
        groups = keywords["params"] = listed(keywords["params"])
        owned = [p for group in groups for p in parameters_of(group)]
        names = {id(m): dict(m.named_parameters()) for m in self._all_modules_of(owned)}
        if owned:
            self._meet_all(owned)
        follow(groups, self.models, names)
        for edit in self._optimizer_edits:
            edit(cls, keywords)

    def _all_modules_of(self, owned: Sequence[Any]) -> list[Any]:
        """Root modules that own some of the parameters, before anything edits them."""
        if not owned or not self._model_edits:
            return []
        wanted = {id(p) for p in owned}
        return [m for m in roots() if any(id(p) in wanted for p in m.parameters())]

    def _optimizer_made(self, optimizer: Any, keywords: dict[str, Any]) -> None:
        self.optimizers.append(optimizer)
        self._seeing.optimizer(optimizer, keywords)
        for use in self._optimizer_uses:
            use(optimizer)

    def _wrap_begins(self, kind: str, keywords: dict[str, Any]) -> None:
        for edit in self._wrap_edits:
            edit(kind, keywords)

    def _wrap_made(self, kind: str, wrapper: Any, keywords: dict[str, Any]) -> None:
        self._seeing.wrap(kind, keywords)
        for use in self._wrap_uses:
            use(kind, wrapper)


def _has_values(module: Any) -> bool:
    """Whether a module holds real tensors: under a capture, one that another thread has made."""
    from torch._subclasses.fake_tensor import FakeTensor

    from gpuscope.program.capture.storages import held

    first = next(module.parameters(), None)
    return first is not None and not isinstance(held(first), FakeTensor) and not first.is_meta
