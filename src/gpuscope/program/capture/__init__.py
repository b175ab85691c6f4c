"""Run the user's real PyTorch code under fakes and write down what it does.

`capture(build)` calls `build()` and the step it returns, twice: the first step makes what only a
first step makes (optimizer states), the second is recorded. Nothing is allocated, no weight is
read, no device is touched; "cuda" in the code means the device to be predicted.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError, require_package
from gpuscope.program.growing import ANEW
from gpuscope.program.script import Script
from gpuscope.program.types import Op, Program
from gpuscope.program.world import World

if TYPE_CHECKING:
    from gpuscope.program.capture.phases import Observer

__all__ = ["capture"]

Build = Callable[[], Callable[[], object]]


def capture(
    build: Build | Script,
    *,
    name: str = "",
    task: str = "",
    samples: int | None = None,
    tokens: int | None = None,
    strict: bool = False,
    observer: Observer | None = None,
    world: World | None = None,
) -> Program:
    """Record one steady step of `build`.

    Args:
        build: makes the model, data and optimizer, and returns `step()`, ordinary PyTorch code
            that may say "cuda" everywhere. Or a whole script, whose own steps are found.
        name: what to call the program; the function's name by default.
        task: train, prefill, decode, ... for categories of memory and for reports.
        samples, tokens: work of one step, where the caller knows it.
        strict: refuse operators without a shape rule instead of estimating them.
        observer: told when the recorded step begins and ends.
        world: the job that the code is a rank of, as torchrun tells it; None: no torchrun, so one
            rank, unless the code says otherwise.

    Raises:
        WorkloadError: `build` or the step raised, or `build` returned no step.
        CaptureError: an operator cannot be captured and `strict` is set; or the code of a user
            comes to no end.
        MissingPackageError: torch is not installed.
    """
    require_package("torch", Text("Capturing a workload"), "torch")
    from gpuscope.program.capture.patches import alone
    from gpuscope.program.capture.phases import Phases, run_build

    with alone():
        started = time.perf_counter()
        with (
            without_garbage_collection(),
            _capturing(strict, world) as recorder,
            _watched(build) as recorder.watch,
        ):
            named = name or getattr(build, "__name__", "workload")
            phases = Phases(recorder, lambda: _program(recorder, named, task), observer)
            if isinstance(build, Script):
                build.run(phases, world)
            else:
                run_build(build, phases)
            program = phases.program
            assert program is not None
        took_s = time.perf_counter() - started
    modes = recorder.regions.modes
    return _complete(program, phases.compiled, modes, samples, tokens, took_s)


def _watched(build: Any) -> Any:
    """Code of a user's may run for ever; what gpuscope brings along does not."""
    guard = sys.modules.get("gpuscope.program.guard.elsewhere")
    named = getattr(getattr(build, "func", build), "__module__", "") or ""
    if named.startswith("gpuscope.") and not (guard and guard.inside.is_set()):
        return nullcontext()
    from gpuscope.program.capture.endless import Watch

    return Watch()


class _Uncollected:
    """Which blocks want no collection of garbage, and what holds again after the last."""

    lock = threading.Lock()
    blocks: ClassVar[set[object]] = set()
    collecting = freezing = False


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect cycles only when asked to, and only among objects made inside the block.

    A collection in the middle of a step would free tensors at a place that depends on chance, and
    one that searches all of torch's and transformers' objects costs a fifth of a second. Blocks of
    several threads may overlap: the last one to end puts things back.
    """
    from gpuscope.program.capture.patches import patches

    state, inside = _Uncollected, object()

    def leave() -> None:
        with state.lock:
            state.blocks.discard(inside)
            if not state.blocks and state.freezing:
                gc.unfreeze()
                state.freezing = False
            if not state.blocks and state.collecting:
                gc.enable()
                state.collecting = False

    with patches() as patch:
        patch.on_undo(leave)
        with state.lock:
            if not state.blocks:
                state.collecting, state.freezing = gc.isenabled(), not gc.get_freeze_count()
            state.blocks.add(inside)
            gc.disable()
            if state.freezing and len(state.blocks) == 1:
                gc.freeze()
        yield


def _complete(
    program: Program,
    compiled: str,
    modes: Mapping[int, tuple[int, str]],
    samples: int | None,
    tokens: int | None,
    seconds: float,
) -> Program:
    from dataclasses import replace

    from gpuscope.program.capture.compiled import of_model_and_optimizer

    if not program.ops:
        raise WorkloadError(
            Text("The step did no PyTorch work."),
            Text("No operator was called between the start and the end of step()."),
            Text("Check that step() runs the model."),
        )
    program = replace(program, compiled=compiled, samples=samples, tokens=tokens, capture_s=seconds)
    return of_model_and_optimizer(program, modes)


@contextmanager
def _capturing(strict: bool, world: World | None) -> Iterator[Any]:
    import torch

    from gpuscope.program.capture import (
        autocast,
        compiled,
        composites,
        conversions,
        cuda,
        data_loading,
        distributed,
        einsum_order,
        fakes,
        foreign,
        named_kernels,
        network,
        operators,
        selective,
        subclasses,
        triton_kernels,
    )
    from gpuscope.program.capture.fakes import answer_device_queries, fake_mode, views_as_run
    from gpuscope.program.capture.patches import alone, in_threads, join, patches, quiet
    from gpuscope.program.capture.process_state import preserve
    from gpuscope.program.capture.recorder import Recorder

    with alone(), patches() as patch:
        join(patch)
        generator = preserve(patch)
        operators.define()
        fake = fake_mode()
        recorder = Recorder(fake, strict=strict, generator=generator)
        library = torch.library.Library("aten", "IMPL")
        patch.on_undo(library._destroy)
        cache = autocast.register(library)
        operators.register(library)
        named_kernels.register(library)
        composites.register(library)
        answer_device_queries(patch, recorder.host_values.alias)
        views_as_run(patch)
        cuda.install(
            patch,
            recorder.sync,
            recorder.order,
            recorder.storages.held,
            1 if world is None else int(world.environment()["LOCAL_WORLD_SIZE"]),
        )
        fakes.use_device(0 if world is None else world.local_rank)
        distributed.install(patch, recorder, world)
        conversions.install(patch, recorder)
        compiled.install(patch, recorder)
        foreign.install(patch, recorder)
        einsum_order.install(patch, recorder)
        selective.install(patch)
        subclasses.install(patch, recorder)
        triton_kernels.install(patch, recorder)
        foreign.when_weights_are_read(patch)

        def built() -> None:
            foreign.transformers_as_run(patch, recorder)
            distributed.built(patch)

        recorder.built = built  # type: ignore[method-assign]
        network.install(patch)
        data_loading.install(patch, recorder)
        _forget_casts_outside(patch, cache.casts)
        _mark_optimizers(patch, recorder)
        # A failing operator is told once, as the user's error, not with torch's own traceback;
        # which messages a redistribution takes is in the program, and noise once a call.
        for name in ("torch._subclasses.fake_tensor", "torch.distributed.tensor._redistribute"):
            patch.everywhere(logging.getLogger(name), "disabled", True)
        transformers = logging.getLogger("transformers.modeling_utils")
        transformers.addFilter(_names_no_loss)
        patch.on_undo(lambda: transformers.removeFilter(_names_no_loss))
        patch.on_undo(recorder.modules.stop)
        recorder.modules.start()
        patch.on_undo(recorder.end)
        in_threads(recorder.in_thread)
        with quiet(*_OF_FAKES_ALONE), fake, recorder:
            yield recorder


def _names_no_loss(record: logging.LogRecord) -> bool:
    """Whether a message is another than that a model has no loss of its own.

    Models without one in transformers' table (GPT-2) take the usual: it says nothing of the step,
    and would be told at each capture.
    """
    return "`loss_type=None`" not in str(record.msg)


_OF_FAKES_ALONE = (
    "Accessing the data pointer of FakeTensor",
    "Attempted to get default timeout for nccl",
    r"FSDP2-wrapped module .* returned a view",
)
"""Warnings that a real run does not give."""


def _forget_casts_outside(patch: Any, casts: Any) -> None:
    """Casts of weights are kept within an autocast block, as torch keeps them."""
    import torch

    autocast_exit = torch.autocast.__exit__

    def leave(self: Any, *args: Any) -> Any:
        result = autocast_exit(self, *args)
        if not torch.is_autocast_enabled("cuda"):
            casts.clear()
        return result

    patch.set(torch.autocast, "__exit__", leave)


def _mark_optimizers(patch: Any, recorder: Any) -> None:
    """Mark optimizer steps, and learn there what is parameter, gradient and state."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    from gpuscope.program.capture.patches import here

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not here():
            return
        recorder.in_optimizer = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                recorder.storages.mark(parameter, "parameter", "parameter")
                recorder.storages.mark(parameter.grad, "gradient", "gradient")

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not here():
            return
        recorder.in_optimizer = False
        for state in optimizer.state.values():
            for key, value in state.items():
                recorder.storages.mark(value, "optimizer_state", str(key))

    for handle in (
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(after),
    ):
        patch.on_undo(handle.remove)


def _program(recorder: Any, name: str, task: str) -> Program:
    from gpuscope.program.capture.distributed.sites import files_of

    ops: tuple[Op, ...] = recorder.finished()
    for path, root in recorder.modules.roots:
        for module_name, module in root.named_modules():
            full = ".".join(part for part in (path, module_name) if part)
            for label, parameter in module.named_parameters(recurse=False):
                recorder.storages.mark(parameter, "parameter", label, full)
                recorder.storages.mark(parameter.grad, "gradient", f"{label}.grad", full)
            for label, buffer in module.named_buffers(recurse=False):
                recorder.storages.mark(buffer, "buffer", label, full)
    first_backward = recorder.first_backward if recorder.first_backward is not None else len(ops)
    storages = recorder.storages.finish(first_backward, "cache" if task == "decode" else "input")
    parameters = {id(p): p.numel() for _, root in recorder.modules.roots for p in root.parameters()}
    return Program(
        name=name,
        ops=ops,
        storages=storages,
        modules=recorder.modules.infos(),
        parameters=sum(parameters.values()),
        assumptions=tuple(recorder.values.assumptions),
        unsupported=tuple(recorder.unsupported),
        task=task or ("train" if recorder.seen_backward else "inference"),
        dtype=main_dtype(ops),
        settings={**_settings(), **recorder.switches, **_noted(recorder.attention_anew)},
        rank=recorder.groups.rank,
        world_size=recorder.groups.world_size,
        groups=recorder.groups.used(),
        mesh=recorder.groups.mesh,
        graph_breaks=recorder.regions.found(),
        files=files_of(at for op in ops for at in (op.line, op.site)),
    )


def _noted(anew: bool) -> dict[str, bool]:
    return {ANEW: True} if anew else {}


def _settings() -> dict[str, bool]:
    """Switches of the process that choose kernels, as the user's code left them."""
    import torch

    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return {
        "tf32_matmul": bool(matmul.allow_tf32),
        "tf32_cudnn": bool(cudnn.allow_tf32),
        "cudnn_benchmark": bool(cudnn.benchmark),
    }


def main_dtype(ops: tuple[Op, ...]) -> str:
    """The dtype in which most matrix-multiply work is done."""
    weights: dict[str, int] = {}
    for op in ops:
        if is_matrix(op.name) and op.inputs:
            size = max(spec.numel for spec in op.inputs)
            weights[op.inputs[-1].dtype] = weights.get(op.inputs[-1].dtype, 0) + size
    if weights:
        return max(weights, key=lambda d: weights[d])
    return ops[0].outputs[0].dtype if ops and ops[0].outputs else ""


def is_matrix(name: str) -> bool:
    """Whether an operator multiplies matrices."""
    return name.rpartition("::")[2] in _MATRIX_OPS


_MATRIX_OPS = frozenset(
    "mm addmm _addmm_activation bmm baddbmm convolution attention _scaled_mm _grouped_mm".split()
)
