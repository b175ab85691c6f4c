"""Run the user's real PyTorch code under fakes and write down what it does.

`capture(build)` calls `build()` and the step it returns, twice: the first step makes what only a
first step makes (optimizer states), the second is recorded. Nothing is allocated, no weight is
read, no device is touched; "cuda" in the code means the device to be predicted.
"""

from __future__ import annotations

import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

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
    build: Build | Script, *, name: str = "", task: str = "", samples: int | None = None,
    tokens: int | None = None, strict: bool = False, observer: Observer | None = None,
    world: World | None = None,
) -> Program:  # fmt: skip
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
        CaptureError: an operator cannot be captured and `strict` is set.
        MissingPackageError: torch is not installed.
    """
    require_package("torch", "Capturing a workload", "torch")
    from gpuscope.program.capture.phases import Phases, run_build

    started = time.perf_counter()
    with without_garbage_collection(), _capturing(strict, world) as recorder:
        named = name or getattr(build, "__name__", "workload")
        phases = Phases(recorder, lambda: _program(recorder, named, task), observer)
        if isinstance(build, Script):
            build.run(phases, world)
        else:
            run_build(build, phases)
        program = phases.program
        assert program is not None
    return _complete(program, phases.compiled, samples, tokens, time.perf_counter() - started)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect cycles only when asked to, and only among objects made inside the block.

    A collection in the middle of a step would free tensors at a place that depends on chance, and
    one that searches all of torch's and transformers' objects costs a fifth of a second.
    """
    collecting, freezing = gc.isenabled(), not gc.get_freeze_count()
    gc.disable()
    if freezing:
        gc.freeze()
    try:
        yield
    finally:
        if freezing:
            gc.unfreeze()
        if collecting:
            gc.enable()


def _complete(
    program: Program, compiled: str, samples: int | None, tokens: int | None, seconds: float
) -> Program:
    from dataclasses import replace

    if not program.ops:
        raise WorkloadError(
            "The step did no PyTorch work.",
            "No operator was called between the start and the end of step().",
            "Check that step() runs the model.",
        )
    return replace(
        program, compiled=compiled, samples=samples, tokens=tokens, capture_s=seconds
    )


@contextmanager
def _capturing(strict: bool, world: World | None) -> Iterator[Any]:
    import torch

    from gpuscope.program.capture import (
        autocast,
        compiled,
        conversions,
        cuda,
        data_loading,
        distributed,
        fakes,
        foreign,
        named_kernels,
        network,
        operators,
        selective,
        triton_kernels,
    )  # fmt: skip
    from gpuscope.program.capture.fakes import device_queries_answered, fake_mode
    from gpuscope.program.capture.patches import patches
    from gpuscope.program.capture.process_state import preserved
    from gpuscope.program.capture.recorder import Recorder

    operators.define()
    library = torch.library.Library("aten", "IMPL")
    fake = fake_mode()
    recorder = Recorder(fake, strict=strict)
    with preserved(), ExitStack() as stack:
        stack.callback(library._destroy)
        cache = autocast.register(library)
        operators.register(library)
        named_kernels.register(library)
        stack.enter_context(device_queries_answered())
        patch = stack.enter_context(patches())
        cuda.install(
            patch, recorder.sync, recorder.order,
            1 if world is None else int(world.environment()["LOCAL_WORLD_SIZE"]),
        )  # fmt: skip
        fakes.use_device(0 if world is None else world.local_rank)
        distributed.install(patch, recorder, world)
        conversions.install(patch, recorder.value_of, recorder.values.assume)
        compiled.install(patch, recorder)
        foreign.install(patch, recorder)
        selective.install(patch)
        triton_kernels.install(patch, recorder)

        def built() -> None:
            foreign.transformers_as_run(patch, recorder)
            distributed.built(patch)

        recorder.built = built  # type: ignore[method-assign]
        network.install(patch)
        data_loading.install(patch, recorder)
        _forget_casts_outside(patch, cache.casts)
        stack.enter_context(_optimizer_marked(recorder))
        stack.enter_context(_less_told(patch))
        recorder.modules.start()
        stack.callback(recorder.modules.stop)
        with fake, recorder:
            yield recorder


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


@contextmanager
def _less_told(patch: Any) -> Iterator[None]:
    """What torch tells of fakes alone is not told."""
    # A failing operator is told once, as the user's error, not with torch's own traceback.
    patch.set(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True)
    # Which messages a redistribution takes is in the program; told once a call it is noise.
    patch.set(logging.getLogger("torch.distributed.tensor._redistribute"), "disabled", True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        warnings.filterwarnings("ignore", message="Attempted to get default timeout for nccl")
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view")
        yield


@contextmanager
def _optimizer_marked(recorder: Any) -> Iterator[None]:
    """Mark optimizer steps, and learn there what is parameter, gradient and state."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder.in_optimizer = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                recorder.storages.mark(parameter, "parameter", "parameter")
                recorder.storages.mark(parameter.grad, "gradient", "gradient")

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder.in_optimizer = False
        for state in optimizer.state.values():
            for key, value in state.items():
                recorder.storages.mark(value, "optimizer_state", str(key))

    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _program(recorder: Any, name: str, task: str) -> Program:
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
    storages = recorder.storages.finish(
        first_backward, "cache" if task == "decode" else "input"
    )
    parameters = {
        id(p): p.numel() for _, root in recorder.modules.roots for p in root.parameters()
    }
    return Program(
        name=name, ops=ops, storages=storages, modules=recorder.modules.infos(),
        parameters=sum(parameters.values()),
        assumptions=tuple(recorder.values.assumptions),
        unsupported=tuple(recorder.unsupported),
        task=task or ("train" if recorder.seen_backward else "inference"),
        dtype=main_dtype(ops),
        settings={**_settings(), **recorder.switches, **_noted(recorder.attention_anew)},
        rank=recorder.groups.rank, world_size=recorder.groups.world_size,
        groups=recorder.groups.used(), mesh=recorder.groups.mesh,
        graph_breaks=recorder.regions.found(),
    )  # fmt: skip


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
        if op.name.rpartition("::")[2] in _MATRIX_OPS and op.inputs:
            size = max(spec.numel for spec in op.inputs)
            weights[op.inputs[-1].dtype] = weights.get(op.inputs[-1].dtype, 0) + size
    if weights:
        return max(weights, key=lambda d: weights[d])
    return ops[0].outputs[0].dtype if ops and ops[0].outputs else ""


_MATRIX_OPS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "convolution", "attention", "_scaled_mm", "_grouped_mm"}
)
