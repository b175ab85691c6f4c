"""What to run: a built-in model, the user's own file, or a Hugging Face configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.models import Model, find
from gpuscope.program.models.parallel.options import Job, ParallelOptions
from gpuscope.program.models.parallel.published import published_model, sized_model
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.registry import Step
from gpuscope.program.models.settings import Settings, WorkloadOptions
from gpuscope.program.models.settle import check_devices, settle
from gpuscope.program.script import Script
from gpuscope.program.world import World

if TYPE_CHECKING:
    from gpuscope.program.fold_declared import EqualLayers
    from gpuscope.program.models.user_file import UserBuild
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["Workload", "WorkloadOptions", "check_name", "resolve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Something to predict or to measure.

    Attributes:
        name: what the user called it, or the built-in model's name.
        build: makes model, data and optimizer and returns the step. Ordinary PyTorch: runs on a
            real device and under a capture's fakes alike.
        title: one line that says what a step does.
        task: train, prefill, decode, inference, or "" if unknown (the user's own file).
        batch, seq: sizes of a step; None where unknown or without meaning. When decoding, `seq`
            is the length of the context.
        samples: sequences or images that a step works on, where known.
        tokens: tokens that a step works on, where known.
        dtype: main dtype, "" if unknown.
        notes: assumptions and choices that a reader of the result should know.
        at_depth: the same `build` with another number of blocks; None where it is fixed.
        equal_layers: which blocks are equal, where that is known beforehand.
        world: the job that the build is rank 0 of; None: one device.
        job: the ready-made parallel job; None for other workloads. Where its plan has pipeline
            stages, its ranks differ and `build` raises: `gpuscope.program.pipeline` takes the job.
        script: the whole script; then it is `build`, too, but has no step to call.
        file: the function of the user's file, as long as nobody has imported it; `build`, too.
        onnx: the graph of an ONNX file; `build`, too.
    """

    name: str
    build: Callable[[], Step]
    title: str
    task: str
    batch: int | None
    seq: int | None
    samples: int | None
    tokens: int | None
    dtype: str
    notes: tuple[str, ...] = ()
    at_depth: Callable[[int], Callable[[], Step]] | None = None
    equal_layers: EqualLayers | None = None
    world: World | None = None
    job: Job | None = None
    script: Script | None = None
    file: UserBuild | None = None
    onnx: OnnxBuild | None = None

    def with_script(self, script: Script) -> Workload:
        """The same of a script that has changed."""
        return replace(self, build=script, script=script)

    def loaded(self) -> Workload:
        """The same with its file imported; raises as `resolve`."""
        if self.file is None:
            return self
        return replace(self, build=self.file.load(), file=None)


def resolve(
    name: str | TransformerSize, options: WorkloadOptions | None = None, *, load: bool = True
) -> Workload:
    """The workload that `name` stands for.

    What the workload needs is imported here (torch, transformers), so that a capture of
    `Workload.build` imports nothing.

    Args:
        name: a built-in model ("gpt2", "llama-3.1-8b"), one that is known by its size alone
            ("gpt-3-175b", see `gpuscope.program.models.parallel.published`), the size of any
            decoder, `path/file.py:function`, a whole script (`path/file.py` without a function
            `build`, or with arguments), or the path of a Hugging Face `config.json` or of the
            folder that holds it.
        options: what to change from the model's defaults.
        load: import the user's file, too; else none of its code runs here (`Workload.file`).

    Raises:
        UnknownNameError: no such model, dtype, task, optimizer, ...
        InvalidValueError: options that cannot be.
        InputFileError: a file that is missing or not what it says.
        WorkloadError: the user's file cannot be imported or has no such function.
        MissingPackageError: torch or transformers is not installed.
    """
    options = options or WorkloadOptions()
    if isinstance(name, str) and name.lower().endswith(".onnx") and not options.module:
        return _of_onnx(name, options)
    _refuse_graphs_own(name, options)
    if options.module:
        return _of_script(str(name), options)
    if isinstance(name, TransformerSize):
        billions = f"{name.parameters / 1e9:,.3g}-billion decoder"
        return _sized(sized_model(billions, name), options)
    path, _, function = name.rpartition(":")
    if options.arguments and (path or not name.endswith(".py")):
        raise InvalidValueError(
            Text("{name} is no script: it takes no arguments of its own.", name=name),
            "",
            Text("Leave out: {arguments}", arguments=" ".join(options.arguments)),
        )
    if path.endswith(".py") or name.endswith(".py"):
        from gpuscope.program.models.user_file import UserBuild, functions_of, is_script

        if not path and (options.arguments or is_script(Path(name))):
            return _of_script(name, options)
        _refuse_scripts_own(name, options)
        functions_of(Path(path or name))  # says whether there is such a file
        build = UserBuild(Path(path or name), function if path else "", options)
        found = replace(_of_file(name, build), file=build)
        return found.loaded() if load else found
    _refuse_scripts_own(name, options)
    if name.endswith(".json") or Path(name).is_dir():
        from gpuscope.program.models.config_file import model_of_config

        return _of_model(model_of_config(Path(name)), options)
    published = published_model(name)
    if published is not None:
        return _sized(published, options)
    return _of_model(find(name), options)


def _refuse_scripts_own(name: str, options: WorkloadOptions) -> None:
    if options.step is not None:
        raise InvalidValueError(
            Text("{name} is no script: it takes no --step.", name=name),
            Text("Its step is what its function returns."),
            Text("Leave out: --step {step}", step=options.step),
        )
    if options.keep is not None:
        raise InvalidValueError(
            Text("{name} is no script: it takes no --keep.", name=name),
            Text("Charts are kept of whole scripts alone."),
            Text("Leave out: --keep {folder}", folder=options.keep),
        )


def _sized(model: Model, options: WorkloadOptions) -> Workload:
    """A model without code of its own is always a parallel job, of one rank where none is asked."""
    return _of_job(model, options, options.parallel or ParallelOptions())


def check_name(name: str) -> None:
    """Refuse a name that stands for nothing, without importing what it stands for.

    Args:
        name: as `resolve` takes it.

    Raises:
        UnknownNameError: no such model.
        InputFileError: a file that is missing or not Python.
    """
    path, _, _ = name.rpartition(":")
    if path.endswith(".py") or name.endswith(".py"):
        from gpuscope.program.models.user_file import functions_of

        functions_of(Path(path or name))
    elif name.lower().endswith(".onnx"):
        from gpuscope.program.onnx.graph import check_file

        check_file(Path(name))
    elif name.endswith(".json") and not Path(name).exists():
        from gpuscope.program.models.config_file import model_of_config

        model_of_config(Path(name))  # says so
    elif not name.endswith(".json") and not Path(name).is_dir() and not published_model(name):
        find(name)


_COPIES = Text(
    "No plan was given: each device trains a copy on a batch of its own, and gradients are summed "
    "(DistributedDataParallel). Others: --fsdp, --tp, --pp."
)


def _of_file(name: str, build: Callable[[], Step]) -> Workload:
    return Workload(
        name=name,
        build=build,
        title=name,
        task="",
        batch=None,
        seq=None,
        samples=None,
        tokens=None,
        dtype="",
    )


def _of_onnx(name: str, options: WorkloadOptions) -> Workload:
    """An ONNX graph with a number for every size."""
    from gpuscope.program.onnx.workload import onnx_build

    build = onnx_build(Path(name), options)
    return replace(
        _of_file(name, build),
        name=build.path.stem,
        title=build.title,
        task=options.task or "inference",
        batch=build.batch,
        samples=build.batch,
        onnx=build,
    )


def _refuse_graphs_own(name: object, options: WorkloadOptions) -> None:
    for option, given in (("--engine", options.engine), ("--set", options.axes)):
        if given:
            raise InvalidValueError(
                Text(
                    "{name} is no ONNX graph: it takes no {option} of one.",
                    name=str(name),
                    option=option,
                ),
                Text("It runs in PyTorch."),
                Text("Leave out {option}.", option=option),
            )


def _of_script(name: str, options: WorkloadOptions) -> Workload:
    """A whole script; what it does is in its own arguments."""
    _refuse_options(name, options)
    script = Script(name, options.arguments, options.module, options.allow_writes)
    keep = os.path.abspath(options.keep) if options.keep else ""
    script = replace(script, step=_step(options.step), keep=keep)
    _ = script.file  # says what is wrong with it
    return replace(_of_file(name, script), script=script)


STEPS = ("whole", "optimizer", "forward")
"""What may be taken as a script's step, besides a number."""


def _step(asked: str | None) -> str:
    """What to take as a script's step.

    Raises:
        InvalidValueError: there is no such thing.
    """
    if asked is None or asked in STEPS or (asked.isdecimal() and int(asked) > 0):
        return asked or ""
    raise InvalidValueError(
        Text("A step cannot be '{asked}'.", asked=asked),
        Text(
            "It is the whole script, what lies between two steps of the optimizer or two calls "
            "of the model, or the N-th repetition."
        ),
        Text("Type --step whole, --step optimizer, --step forward, or --step 2"),
    )


def _refuse_options(name: str, options: WorkloadOptions) -> None:
    """A script takes its own arguments, none of ours.

    Raises:
        InvalidValueError: an option of a model was set.
    """
    own = {"task", "device", "arguments", "allow_writes", "keep", "module", "replicas", "step"}
    for field in fields(options):
        if field.name not in own and getattr(options, field.name) not in (None, field.default):
            option = field.name.replace("_", "-")
            raise InvalidValueError(
                Text("{name} is a whole script: it takes no --{option}.", name=name, option=option),
                Text("It has no function `build` that this could be passed to."),
                Text("Give its own arguments after --: {name} -- --batch-size 8", name=name),
            )


def _of_model(model: Model, options: WorkloadOptions) -> Workload:
    check_devices(options)
    if options.parallel is not None:
        return _of_job(model, options, options.parallel)
    settings = settle(model, options)
    model.load()
    if settings.tuning is not None:
        import_module("gpuscope.program.models.building.tuning")

    def build() -> Step:
        return model.build(settings)

    def at_depth(layers: int) -> Callable[[], Step]:
        return lambda: model.build(replace(settings, layers=layers))

    build.__name__ = model.name
    tuning, rows, tokens = settings.tuning, settings.rows, model.tokens(settings)
    copies = settings.replicas if tuning is None else tuning.devices * tuning.microbatches
    world = World(*_first_rank(options.replicas)) if options.replicas and copies > 1 else None
    if tuning is not None:
        world = World(tuning.devices, 0, tuning.node) if tuning.devices > 1 else None
    examples, filled = (1.0, 1.0) if rows is None else (rows.examples, rows.filled)
    return Workload(
        name=model.name,
        build=build,
        title=_title(model, settings),
        task=settings.task,
        batch=settings.batch,
        seq=settings.context or settings.seq or None,
        samples=_whole(settings.batch * examples * copies),
        tokens=None if tokens is None else round(tokens * filled) * copies,
        dtype=settings.dtype,
        notes=(
            *model.notes,
            *(() if world is None or tuning is not None else (_COPIES,)),
            *(() if rows is None or options.seq != rows.typical else rows.notes),
            *beyond_context(
                settings.context + 1 if settings.task == "decode" else settings.seq,
                model.context(settings),
            ),
        ),
        at_depth=at_depth if model.layers else None,
        world=world,
    )


def _whole(samples: float) -> int | None:
    """Samples of a step; None where packed rows hold a share of one that rounding would hide."""
    return round(samples) if abs(round(samples) / samples - 1) < 0.01 else None


def beyond_context(tokens: int, context: int | None) -> tuple[Text, ...]:
    """What to say of a sequence of so many tokens where a model was made for fewer."""
    if context is None or tokens <= context:
        return ()
    return (
        Text(
            "A sequence of {tokens} tokens is longer than the {context} that the model was made "
            "for: it runs, but what it computes there was never trained.",
            tokens=Number(tokens, ","),
            context=Number(context, ","),
        ),
    )


def _first_rank(replicas: tuple[int, int]) -> tuple[int, int, int]:
    """Rank 0 of a job: size, rank, ranks of a node."""
    return replicas[0], 0, replicas[1]


def _of_job(model: Model, options: WorkloadOptions, asked: ParallelOptions) -> Workload:
    """The ready-made parallel training of a decoder; samples and tokens are the whole job's."""
    from gpuscope.program.models.parallel.workload import prepare

    prepared = prepare(model, options, asked)
    job = prepared.job
    return Workload(
        name=model.name,
        build=prepared.build,
        title=prepared.title,
        task="train",
        batch=job.plan.global_batch,
        seq=job.tokens,
        samples=job.plan.global_batch,
        tokens=job.plan.global_batch * job.tokens,
        dtype=job.compute_dtype,
        notes=(
            *prepared.notes,
            *beyond_context(job.tokens, job.size.context if job.size.positions == "rope" else None),
        ),
        at_depth=prepared.at_depth,
        equal_layers=prepared.equal_layers,
        world=prepared.world,
        job=job,
    )


def _title(model: Model, settings: Settings) -> str:
    """E.g. "gpt2 train, batch 8 x 1024 tokens, bfloat16 autocast, adamw"."""
    size = f"batch {settings.batch}"
    if settings.seq:
        size += f" x {settings.seq} tokens"
    if settings.image:
        size += f" x {settings.image} px"
    if settings.context:
        size += f" after {settings.context} tokens"
    parts = [f"{model.name} {settings.task}", size]
    parts.append(settings.dtype + (" autocast" if settings.amp else ""))
    if settings.layers is not None:
        parts.append(f"{settings.layers} layer" + "s" * (settings.layers > 1))
    if settings.tuning is not None:
        parts.append(f"{settings.tuning.method}, {settings.tuning.optimizer}")
    elif settings.task == "train":
        parts.append(settings.optimizer)
    if settings.rows is not None:
        parts.append(f"packing {settings.rows.packing}")
    if settings.attention in ("eager", "flash"):
        parts.append(f"{settings.attention} attention")
    if settings.checkpointing:
        parts.append("checkpointing")
    if settings.from_host:
        parts.append("input from the host")
    if settings.compile:
        parts.append(f"compiled ({settings.compile})")
    if settings.replicas > 1:
        parts.append(f"data parallel over {settings.replicas}")
    return ", ".join(parts)
