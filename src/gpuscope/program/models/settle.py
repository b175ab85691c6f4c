"""Decide every option of a workload: the user's wish, else the model's default, else an error."""

from __future__ import annotations

from gpuscope.errors import InvalidValueError
from gpuscope.program.models.registry import Model
from gpuscope.program.models.settings import (
    COMPILE_MODES,
    OPTIMIZERS,
    TASKS,
    Defaults,
    Settings,
    WorkloadOptions,
    canonical_dtype,
    choose,
    positive,
)

_DEVICES = ("cuda", "cpu", "meta")


def settle(model: Model, options: WorkloadOptions) -> Settings:
    """Everything decided.

    Raises:
        UnknownNameError: a task, dtype, attention, optimizer or compile mode that does not exist
            or that the model does not have.
        InvalidValueError: a size below 1, or options that exclude each other.
    """
    task, defaults = _task(model, options.task)
    sizes = {
        name: _size(model, task, name, getattr(options, name), getattr(defaults, name))
        for name in ("seq", "image", "context")
    }
    dtype, amp = _precision(model, task, defaults, options)
    if options.checkpointing and (task != "train" or not model.checkpointing):
        raise _cannot(
            model, task, "checkpointing", "Leave out checkpointing, or choose the task 'train'."
        )
    if options.layers is not None and not model.layers:
        raise _cannot(model, task, "another number of layers", "Leave out the number of layers.")
    return Settings(
        task=task,
        batch=positive("batch", options.batch) or defaults.batch,
        **sizes,
        dtype=dtype,
        amp=amp,
        attention=_attention(model, options, dtype),
        optimizer=_optimizer(model, task, defaults, options),
        compile=choose("compile mode", options.compile, COMPILE_MODES, model.name)
        if options.compile
        else "",
        checkpointing=options.checkpointing,
        layers=positive("layers", options.layers),
        device=choose("device", options.device, _DEVICES, model.name),
    )


def _cannot(model: Model, task: str, what: str, next_step: str) -> InvalidValueError:
    return InvalidValueError(f"{model.name} {task} cannot have {what}.", "", next_step)


def _task(model: Model, wanted: str | None) -> tuple[str, Defaults]:
    tasks = tuple(model.tasks)
    if wanted is None:
        return tasks[0], model.tasks[tasks[0]]
    lowered = wanted.strip().lower()
    if lowered in TASKS and lowered not in tasks:
        raise InvalidValueError(
            f"{model.name} has no task '{lowered}'.",
            "It has: " + ", ".join(tasks) + ".",
            f"Type: --task {tasks[0]}",
        )
    task = choose("task", wanted, tasks, model.name)
    return task, model.tasks[task]


def _size(model: Model, task: str, name: str, wanted: int | None, default: int | None) -> int:
    if default is None:
        if wanted is not None:
            raise _cannot(model, task, f"the size '{name}'", f"Leave out {name}.")
        return 0
    size = positive(name, wanted) or default
    if name == "image" and size % model.image_multiple:
        near = max(1, round(size / model.image_multiple)) * model.image_multiple
        raise InvalidValueError(
            f"{model.name} cannot have images of {size} pixels.",
            f"The side must be a multiple of {model.image_multiple}.",
            f"Type: --image {near}",
        )
    return size


def _precision(
    model: Model, task: str, defaults: Defaults, options: WorkloadOptions
) -> tuple[str, bool]:
    dtype = canonical_dtype(options.dtype) if options.dtype else defaults.dtype
    full = dtype in ("float32", "tf32")
    if dtype == "fp8" and not model.fp8:
        raise _cannot(model, task, "dtype fp8", "Type one of: float32, tf32, bfloat16, float16.")
    if options.amp and (full or dtype == "fp8"):
        raise InvalidValueError(
            f"Mixed precision with dtype {dtype} cannot be.",
            "Autocast computes in bfloat16 or float16 beside float32 weights.",
            "Type bfloat16 or float16 as the dtype, or leave out amp.",
        )
    if options.amp is not None:
        return dtype, options.amp
    if dtype == "float16" and task == "train":
        return dtype, True  # weights in float16 alone do not train: Adam's epsilon rounds to 0
    return dtype, defaults.amp and not full and dtype != "fp8"


def _attention(model: Model, options: WorkloadOptions, dtype: str) -> str:
    if options.attention is None:
        return ""
    if not model.attentions:
        raise InvalidValueError(
            f"{model.name} has no choice of attention.", "", "Leave out the attention option."
        )
    attention = choose("attention", options.attention, model.attentions, model.name)
    if attention == "flash" and dtype in ("float32", "tf32"):
        raise InvalidValueError(
            f"Flash attention in {dtype} cannot be.",
            "The flash kernels compute in bfloat16 or float16.",
            "Type: --attention sdpa, or another dtype.",
        )
    return attention


def _optimizer(model: Model, task: str, defaults: Defaults, options: WorkloadOptions) -> str:
    if task != "train":
        if options.optimizer is not None:
            raise _cannot(
                model, task, "an optimizer", "Leave out the optimizer, or choose the task 'train'."
            )
        return ""
    return choose("optimizer", options.optimizer or defaults.optimizer, OPTIMIZERS, model.name)
