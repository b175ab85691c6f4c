"""Decide every option of a workload: the user's wish, else the model's default, else an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InvalidValueError, UnsupportedError
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

if TYPE_CHECKING:
    from gpuscope.program.models.rows import Rows
    from gpuscope.program.models.tuning import FineTuning

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
            model,
            task,
            Text("checkpointing"),
            Text("Leave out checkpointing, or choose the task 'train'."),
        )
    if options.layers is not None and not model.layers:
        raise _cannot(
            model, task, Text("another number of layers"), Text("Leave out the number of layers.")
        )
    return Settings(
        task=task,
        batch=positive("batch", options.batch) or defaults.batch,
        **sizes,
        dtype=dtype,
        amp=amp,
        attention=_attention(model, options, dtype),
        optimizer=_optimizer(model, task, defaults, options),
        compile=choose(Text("compile mode"), options.compile, COMPILE_MODES, model.name)
        if options.compile
        else "",
        checkpointing=options.checkpointing,
        layers=positive("layers", options.layers),
        device=choose(Text("device"), options.device, _DEVICES, model.name),
        replicas=_replicas(options) if task == "train" else 1,
        tuning=_tuning(model, task, options),
        rows=_rows(model, task, dtype, options),
        from_host=_from_host(options),
    )


def check_devices(options: WorkloadOptions) -> None:
    """Fine-tuning, and rows of examples, are laid over several devices by a plan alone.

    Raises:
        InvalidValueError: several devices, or a parallel layout.
    """
    devices = options.replicas[0] if options.replicas else 1
    planned = 1 if options.tuning is None else options.tuning.devices
    if options.tuning is None and options.rows is None:
        return
    what = Text("A step on examples of different lengths is one device's.")
    if options.tuning is not None:
        what = Text("A step of fine-tuning (--method) is one device's.")
    if options.parallel is not None or devices != planned:
        raise InvalidValueError(
            what,
            Text("How several share it is chosen by plan."),
            Text("Type: gpuscope plan MODEL --task finetune --devices 8"),
        )


def _replicas(options: WorkloadOptions) -> int:
    """Copies of the model that exchange whole gradients."""
    if options.tuning is not None:
        return options.tuning.devices if options.tuning.sharding == "none" else 1
    return options.replicas[0] if options.replicas else 1


def _tuning(model: Model, task: str, options: WorkloadOptions) -> FineTuning | None:
    """How it is fine-tuned, where that can be.

    Raises:
        UnsupportedError: a model that is no decoder, or one whose experts are stacked in 4 bits.
        InvalidValueError: another task, or parameters in another dtype.
    """
    tuning = options.tuning
    if tuning is None:
        return None
    if task != "train" or model.size is None:
        raise UnsupportedError(
            Text("{model} {task} cannot be fine-tuned here.", model=model.name, task=task),
            Text("There is fine-tuning for built-in decoders alone."),
            Text("Write a build() with peft and type: file.py:build"),
        )
    if tuning.method == "qlora" and model.size().experts is not None:
        raise UnsupportedError(
            Text("There is no QLoRA for {model} here.", model=model.name),
            Text("Its experts are stacked in one tensor, which bitsandbytes does not quantise."),
            Text("Type: --method lora"),
        )
    return tuning


def _rows(model: Model, task: str, dtype: str, options: WorkloadOptions) -> Rows | None:
    """What rows are like, where that can be.

    Raises:
        UnsupportedError: a model that is no decoder, or another task than training.
        InvalidValueError: packing for a kernel that the attention or the dtype excludes.
    """
    rows = options.rows
    if rows is None:
        return None
    if task != "train" or model.size is None:
        raise UnsupportedError(
            Text("{model} {task} has no examples to pack.", model=model.name, task=task),
            Text("Built-in decoders alone are trained on rows of examples."),
            Text("Leave out the lengths."),
        )
    if rows.typical != options.seq or rows.together not in (0, options.batch):
        raise InvalidValueError(
            Text("Rows of examples were made for another batch or other tokens a row."),
            Text("How long they are, and how many lie in one, follows from both."),
            Text("Give batch and seq once, with the lengths: nothing to sweep."),
        )
    other = options.attention if options.attention not in (None, "flash") else None
    if rows.packing == "flash" and (other or dtype in ("float32", "tf32")):
        raise InvalidValueError(
            Text("Packing for FlashAttention does not go with {other}.", other=other or dtype),
            Text("Its kernel for lengths that vary computes in bfloat16 or float16."),
            Text("Type: --packing mask"),
        )
    return rows


def _from_host(options: WorkloadOptions) -> bool:
    """Whether the batch comes from the host, where there is a way from there to a device.

    Raises:
        InvalidValueError: the step runs on the host, or is split over a job's ranks.
    """
    if options.from_host and (options.parallel is not None or options.device != "cuda"):
        raise InvalidValueError(
            Text("Input from the host does not go with this workload."),
            Text("It is copied to one device; a step on the host has it, a job's ranks make it."),
            Text("Leave out --from-host."),
        )
    return options.from_host


def _cannot(model: Model, task: str, what: Text, next_step: Text) -> InvalidValueError:
    return InvalidValueError(
        Text("{model} {task} cannot have {what}.", model=model.name, task=task, what=what),
        "",
        next_step,
    )


def _task(model: Model, wanted: str | None) -> tuple[str, Defaults]:
    tasks = tuple(model.tasks)
    if wanted is None:
        return tasks[0], model.tasks[tasks[0]]
    lowered = wanted.strip().lower()
    if lowered in TASKS and lowered not in tasks:
        raise InvalidValueError(
            Text("{model} has no task '{task}'.", model=model.name, task=lowered),
            Text("It has: {names}.", names=", ".join(tasks)),
            Text("Type: --task {task}", task=tasks[0]),
        )
    task = choose(Text("task"), wanted, tasks, model.name)
    return task, model.tasks[task]


def _size(model: Model, task: str, name: str, wanted: int | None, default: int | None) -> int:
    if default is None:
        if wanted is not None:
            raise _cannot(
                model,
                task,
                Text("the size '{name}'", name=name),
                Text("Leave out {name}.", name=name),
            )
        return 0
    size = positive(name, wanted) or default
    if name == "image" and size % model.image_multiple:
        near = max(1, round(size / model.image_multiple)) * model.image_multiple
        raise InvalidValueError(
            Text("{model} cannot have images of {size} pixels.", model=model.name, size=size),
            Text("The side must be a multiple of {multiple}.", multiple=model.image_multiple),
            Text("Type: --image {near}", near=near),
        )
    return size


def _precision(
    model: Model, task: str, defaults: Defaults, options: WorkloadOptions
) -> tuple[str, bool]:
    dtype = canonical_dtype(options.dtype) if options.dtype else defaults.dtype
    full = dtype in ("float32", "tf32")
    if dtype == "fp8" and not model.fp8:
        raise _cannot(
            model,
            task,
            verbatim("dtype fp8"),
            Text("Type one of: {names}.", names="float32, tf32, bfloat16, float16"),
        )
    if options.amp and (full or dtype == "fp8"):
        raise InvalidValueError(
            Text("Mixed precision with dtype {dtype} cannot be.", dtype=dtype),
            Text("Autocast computes in bfloat16 or float16 beside float32 weights."),
            Text("Type bfloat16 or float16 as the dtype, or leave out amp."),
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
            Text("{model} has no choice of attention.", model=model.name),
            "",
            Text("Leave out the attention option."),
        )
    attention = choose(Text("attention"), options.attention, model.attentions, model.name)
    if attention == "flash" and dtype in ("float32", "tf32"):
        raise InvalidValueError(
            Text("Flash attention in {dtype} cannot be.", dtype=dtype),
            Text("The flash kernels compute in bfloat16 or float16."),
            Text("Type: --attention sdpa, or another dtype."),
        )
    return attention


def _optimizer(model: Model, task: str, defaults: Defaults, options: WorkloadOptions) -> str:
    if task != "train":
        if options.optimizer is not None:
            raise _cannot(
                model,
                task,
                Text("an optimizer"),
                Text("Leave out the optimizer, or choose the task 'train'."),
            )
        return ""
    return choose(
        Text("optimizer"), options.optimizer or defaults.optimizer, OPTIMIZERS, model.name
    )
