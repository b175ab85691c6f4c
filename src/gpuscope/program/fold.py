"""Capture deep models fast: record a few layers, and repeat what repeats.

Recording costs about a third of a millisecond an operator, and the layers of a deep model are
equal. So the model is captured with a few layers only, and the program is grown to full depth.
The result equals a capture of the whole model, operator by operator, but for the numbering of
storages; where a model does not repeat exactly, the whole model is captured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuscope.errors import GpuscopeError
from gpuscope.program.fold_depth import (
    Tree,
    check_shallow,
    least_captured,
    read_tree,
    shallow_depth,
    stacks_of,
    tree_of,
    varying_lists,
)
from gpuscope.program.fold_expand import expand
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.fold_python import with_python_calls
from gpuscope.program.types import ModuleInfo, Program
from gpuscope.program.workload import Workload
from gpuscope.program.world import World

if TYPE_CHECKING:
    from gpuscope.program.fold_declared import EqualLayers

__all__ = ["capture_folded", "capture_workload"]

_log = logging.getLogger(__name__)

_PROBE_LAYERS = 2
WORTH = 0.7
"""Largest share of the layers for which capturing a part and growing it pays."""

Build = Callable[[], Callable[[], object]]
Lists = dict[str, list[object]]


def capture_workload(
    workload: Workload, *, strict: bool = False, world: World | None = None
) -> Program:
    """Record one step of a workload, folding its layers where that is exact and pays.

    Args:
        workload: what `gpuscope.program.workload.resolve` gives.
        strict: refuse operators without a shape rule instead of estimating them.
        world: the job that the code is a rank of; None: one process without torchrun.

    Raises:
        WorkloadError: the workload's code failed.
        CaptureError: an operator cannot be captured and `strict` is set.
    """
    from gpuscope.program.capture import capture

    program = None
    if workload.at_depth is not None:
        try:
            program = capture_folded(
                workload.build,
                workload.at_depth,
                task=workload.task,
                strict=strict,
                world=world,
                declared=workload.equal_layers,
            )
        except NotFoldableError as reason:
            _log.debug("%s is captured whole: %s", workload.name, reason)
    if program is None:
        program = capture(workload.build, task=workload.task, strict=strict, world=world)
    return replace(
        program,
        name=workload.title or workload.name,
        samples=workload.samples,
        tokens=workload.tokens,
    )


def capture_folded(
    build: Build,
    at_depth: Callable[[int], Build],
    *,
    task: str = "",
    strict: bool = False,
    largest_share: float = WORTH,
    world: World | None = None,
    declared: EqualLayers | None = None,
) -> Program:
    """Record one step of a deep model by way of a shallow one.

    Args:
        build: the whole workload.
        at_depth: the same workload with a given number of layers in every stack.
        task: as for `gpuscope.program.capture.capture`.
        strict: as there.
        largest_share: refuse if more than this share of the layers would have to be captured.
        world: the job that the code is a rank of; None: one process without torchrun.
        declared: which layers are equal, where that is known; else the whole model is built to see.

    Raises:
        NotFoldableError: the model does not repeat exactly, or is too shallow for it to pay.
        WorkloadError: the workload's code failed.
        CaptureError: an operator cannot be captured and `strict` is set.
    """
    from gpuscope.program.capture import capture, without_garbage_collection

    # Of what is known to be shallow nothing need be built to see that it does not pay.
    if declared is not None and least_captured() > largest_share * declared.depth:
        raise NotFoldableError(f"{declared.depth} layers are too few")
    started = time.perf_counter()
    with without_garbage_collection():
        whole, lists, depth = _read(build, at_depth, world, declared)
        stacks = stacks_of(lists, depth)
        captured = 2 * depth - stacks[0].period
        if captured > largest_share * min(len(layers) for layers in lists.values()):
            raise NotFoldableError(f"{captured} layers would have to be captured")
        names = _Names()
        with names.listening():
            program = capture(
                at_depth(depth), task=task, strict=strict, observer=names, world=world
            )
        if names.tree is None:
            raise NotFoldableError("the step calls more than one model")
        check_shallow(stacks, whole, names.tree)
        if any(stack.zone(info.path) is not None for stack in stacks for info in names.passing):
            raise NotFoldableError("layers make modules inside of their forward")
        names.done = True

        def shorter() -> Program:
            fewer = at_depth(depth - stacks[0].period)
            return capture(fewer, task=task, strict=strict, observer=names, world=world)

        program = with_python_calls(program, shorter, names.by_storage, stacks)
        for stack in stacks:
            program = expand(program, names.by_storage, stack)
        return _whole(program, whole, names.passing, time.perf_counter() - started)


def _read(
    build: Build,
    at_depth: Callable[[int], Build],
    world: World | None,
    declared: EqualLayers | None,
) -> tuple[Tree, Lists, int]:
    """The whole model's modules, its lists of layers, and the depth to capture."""
    with _silent_failure():
        probe = read_tree(at_depth(_PROBE_LAYERS), world)
        whole = read_tree(build if declared is None else at_depth(declared.enough), world)
        lists = varying_lists(whole, probe, _PROBE_LAYERS)
        if declared is not None:
            from gpuscope.program.fold_declared import deepened

            (path,) = lists
            # What the build holds grows with its weights: twice where they are turned to bfloat16.
            more = whole.parameters - probe.parameters
            each = (whole.built_bytes - probe.built_bytes) / more if more else 0.0
            enough = whole
            whole = deepened(enough, path, declared)
            grown = round(each * (whole.parameters - enough.parameters))
            whole = replace(whole, built_bytes=enough.built_bytes + grown)
            lists = {path: whole.lists[path]}
    return whole, lists, shallow_depth(lists)


def _whole(
    program: Program, whole: Tree, passing: tuple[ModuleInfo, ...], seconds: float
) -> Program:
    """The grown program with what is known of the whole model."""
    from gpuscope.program.capture import main_dtype
    from gpuscope.program.capture.storages import in_segments

    return replace(
        program,
        modules=whole.infos + passing,
        parameters=whole.parameters,
        build_peak_bytes=in_segments(whole.built_bytes),
        dtype=main_dtype(program.ops),
        capture_s=seconds,
    )


@contextmanager
def _silent_failure() -> Iterator[None]:
    """A workload that cannot be built fails again in the capture of the whole, and clearly."""
    try:
        yield
    except (NotFoldableError, GpuscopeError):
        raise
    except Exception as error:
        raise NotFoldableError(f"the model could not be read: {error}") from error


class _Names:
    """Learns during a capture which storage holds what of which module.

    Attributes:
        by_storage: "model.layers.3.mlp.up_proj.weight", with "#grad", "#previous_grad" or
            "#exp_avg" and the like for what belongs to a parameter.
        tree: the modules of the captured model; None if there is more than one.
        done: names are known; only answers to repeated operators are still shared.
        passing: modules without parameters that the model makes inside of its forward.
    """

    def __init__(self) -> None:
        self.by_storage: dict[int, str] = {}
        self.tree: Tree | None = None
        self.passing: tuple[ModuleInfo, ...] = ()
        self.done = False
        self._replay: Any = None
        self._optimizers: dict[int, Any] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note every optimizer that makes a step inside of the block."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def note(optimizer: Any, args: Any, kwargs: Any) -> None:
            self._optimizers[id(optimizer)] = optimizer

        handle = register_optimizer_step_post_hook(note)
        try:
            yield
        finally:
            handle.remove()
            self._optimizers.clear()

    def build_begins(self, recorder: Any) -> None:
        """Let the second capture know what the first learnt of operators and shapes."""
        if self._replay is not None:
            recorder.replay.share(self._replay)
        self._replay = recorder.replay

    def step_begins(self, recorder: Any) -> None:
        """Name the gradients that the step before left."""
        if self.done:
            return
        for path, parameter in self._parameters(recorder):
            self._name(recorder, parameter.grad, f"{path}#previous_grad")

    def step_ends(self, recorder: Any) -> None:
        """Name parameters, buffers, gradients and optimizer states."""
        if self.done:
            return
        paths: dict[int, str] = {}
        for path, parameter in self._parameters(recorder):
            paths.setdefault(id(parameter), path)
            self._name(recorder, parameter, path)
            self._name(recorder, parameter.grad, f"{path}#grad")
        for root_path, root in recorder.modules.roots:
            for name, buffer in root.named_buffers():
                self._name(recorder, buffer, ".".join(p for p in (root_path, name) if p))
        for optimizer in self._optimizers.values():
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    if id(parameter) in paths:
                        self._name(recorder, value, f"{paths[id(parameter)]}#{key}")
        roots = recorder.modules.roots
        others = [module for _, module in roots[1:]]
        if roots and roots[0][0] == "" and not any(list(m.parameters()) for m in others):
            self.tree = tree_of(roots[0][1])
            self.passing = recorder.modules.infos()[len(self.tree.infos) :]

    @staticmethod
    def _parameters(recorder: Any) -> Iterator[tuple[str, Any]]:
        for root_path, root in recorder.modules.roots:
            for name, parameter in root.named_parameters():
                yield ".".join(part for part in (root_path, name) if part), parameter

    def _name(self, recorder: Any, tensor: Any, name: str) -> None:
        import torch

        if isinstance(tensor, torch.Tensor):
            number = recorder.storages.id_of(tensor)
            if number >= 0:
                self.by_storage.setdefault(number, name)
